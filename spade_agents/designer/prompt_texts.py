"""The words of the designer's prompts in the full style: the contract, the rules of the certificate, the variants."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spade_agents.designer.requests import OutputForm, TextForm, ToolVariant

__all__ = ["AVOID", "CONTRACT", "FORMS", "HAND_IN", "HINT", "REPAIR", "TEXT_RULES", "TOOL_RULES", "VARIANTS"]

CONTRACT: Final = """\
You design training environments for an agent that acts through function calls. An environment is one Python file: \
standard library only, one public class, and a first line that imports what is used of \
`from spade_environments import Call, Goal, TextEnv, ToolEnv, ToolError, tool`. Name, skill, difficulty and hint never \
stand in it.

It runs in a jail and is accepted only with proof:
- No files, network, processes, threads or clock; no eval, exec, compile, open, getattr; never .format() on a text of \
the agent's. At most 64 KB.
- self.rng is the only source of randomness and is there before reset or setup: the same seed gives the same episode \
in another process, other seeds give other instances. Never rely on the order of a set.
- Nothing is won before the agent acts. solution() returns the actions that win the instance just made, whichever seed \
it is, within max_turns (at most 25); compute it from that instance.
- An agent that is silent, repeats one action, acts at random, or reads everything and replies with all of it must \
lose; so must the solution of another seed. Draw answers from a wide range.
- Malformed and hostile actions (empty, huge, other types of characters, unknown names) get an explanation as their \
result; they never raise and never pay. int() behind isdigit() alone is rejected, since "²" is a digit to it and 5000 \
digits are too many for int(): match re.fullmatch(r"[0-9]{1,9}", text) first.
- The answer stands in no tool description and no observation before the work is done. What must stay unseen at the \
start is named in hidden = ("attribute",) with observability = "partial".
- It differs in structure from every earlier environment, not in names and numbers alone.
- What makes it harder or easier is an upper-case class attribute with a comment.
"""

TEXT_RULES: Final = """\
Derive from TextEnv: reset(self, seed) -> (observation, info) and step(self, action) -> (observation, reward, \
terminated, truncated, info). Observation and action are texts, info a small dict, reward 0.0 until the episode ends \
and 1.0 only with success. solution(self) -> list of action texts."""

TOOL_RULES: Final = """\
Derive from ToolEnv: setup(self) builds self.state (dicts, lists, texts, numbers) from self.rng; 3 to 8 @tool methods \
with typed parameters and a docstring that says what they do, at least one of them not needed; a mistake that the \
agent can mend raises ToolError and leaves the state as it was. goals(self) returns 2 to 5 \
Goal(kind, instruction, check) in the order in which a user makes them. check(state, calls, reply) sees the calls made \
since that instruction. Kinds: state (something was changed: check all of it, also that nothing else was), called (the \
right reads were made), replied (value=... stands in the reply), asked (a value is missing; the next instruction gives \
it, so it is never the last), declined (no tool fits). At least one goal is state, called or replied. \
solution(self) -> one list for each goal: its Calls, and the reply as a text at its end where one is needed."""

FORMS: Mapping[TextForm, str] = MappingProxyType(
    {
        TextForm.SINGLE_TURN: (
            "It is a single question: max_turns = 1, everything needed stands in the first observation, and one "
            "action answers it."
        ),
        TextForm.MULTI_TURN: (
            "It is a course of moves: each action changes something or uncovers something, what comes back must be "
            "read before the next one, and solution() takes at least three."
        ),
    }
)

VARIANTS: Mapping[ToolVariant, str] = MappingProxyType(
    {
        ToolVariant.EXECUTE: "Each request names what is to be done; the tools must be found, combined and ordered.",
        ToolVariant.READ_THEN_WRITE: (
            "What must be changed follows from what must first be read: a value, a match or a comparison that no "
            "request spells out."
        ),
        ToolVariant.MISSING_VALUE: (
            "One request leaves out a value that its tool needs (kind asked); the agent must ask and touch nothing, "
            "and the next request supplies it."
        ),
        ToolVariant.WITH_IRRELEVANT: (
            "One request is for something that no tool does, though one comes near (kind declined); the agent must "
            "say so and touch nothing."
        ),
    }
)

HAND_IN: Mapping[OutputForm, str] = MappingProxyType(
    {
        OutputForm.BLOCK: (
            "Now write the new environment. Hand in exactly one ```python block with the whole program, and after it "
            'one ```json block such as {"domain": "harbour", "difficulty": 0.5}.'
        ),
        OutputForm.CALL: (
            "Now write the new environment. Hand it in by one call of submit_environment, the whole program as its "
            "source."
        ),
    }
)

AVOID: Final = "An earlier environment, {told}. Write nothing of that kind:"

REPAIR: Final = "That was not accepted ({gate}): {repair}\nWrite the whole program again, mended."

HINT: Final = """\
You see the source of an environment. Write the hint that helps an agent most: the key insight or strategy and the \
form of the answer, in at most three sentences and 600 characters. It holds for every instance, so never the answer, \
never a concrete argument value. Write the hint alone."""
