"""The designer's prompts: one function a call, typed inputs, two styles."""

from __future__ import annotations

from dataclasses import dataclass

from spade_agents.agent.prompts import PromptStyle
from spade_agents.messages import Message
from spade_environments import GAME_SKILLS, EnvironmentSpec, Skill
from spade_environments.registry import catalogue

__all__ = ["DesignRequest", "MemorySeed", "design_messages", "hint_messages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySeed:
    """An earlier environment shown to the designer: `summary.summarise(source)`, and its source for the full style."""

    summary: str
    source: str
    win_rate: float
    regret: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRequest:
    """What one design is asked for; `document` is already cut to length, `document_id` names where it came from."""

    skill: Skill
    document: str = ""
    document_id: str = ""
    domain: str = "general"
    seeds: tuple[MemorySeed, ...] = ()


def design_messages(request: DesignRequest, *, style: PromptStyle) -> tuple[Message, ...]:
    """The messages that ask for one environment."""
    system, user = _compact_design(request) if style == "compact" else _full_design(request)
    return Message(role="system", content=system), Message(role="user", content=user)


def hint_messages(source: str, *, style: PromptStyle) -> tuple[Message, ...]:
    """The messages that ask for the hint of an environment, which they show whole."""
    system = "hint" if style == "compact" else _HINT
    user = source if style == "compact" else f"```python\n{source}```"
    return Message(role="system", content=system), Message(role="user", content=user)


def _compact_design(request: DesignRequest) -> tuple[str, str]:
    lines = [f"skill: {request.skill.value}"]
    lines += [f"memory: {seed.summary}" for seed in request.seeds]
    if request.document:
        lines.append(f"document: {request.document}")
    return "design", "\n".join(lines)


def _hint_worth(seed: MemorySeed) -> str:
    return "" if seed.regret is None else f" and a hint was worth {seed.regret:+.2f}"


def _full_design(request: DesignRequest) -> tuple[str, str]:
    example = _example(request.skill)
    parts = [
        f"Write one environment that trains {request.skill.value}.",
        f"An environment of this kind, to show the form (write another one):\n```python\n{example.source}```",
    ]
    parts += [
        f"An earlier environment; the agent solved {seed.win_rate:.0%} of its plays{_hint_worth(seed)}. "
        f"Build on what made it instructive:\n```python\n{seed.source}```"
        for seed in request.seeds
    ]
    if request.document:
        parts.append(
            "Ground it in this text; take its objects, names and relations:\n"
            f"<document>\n{request.document}\n</document>"
        )
    return _CONTRACT + (_TEXT_RULES if request.skill in GAME_SKILLS else _TOOL_RULES), "\n\n".join(parts)


def _example(skill: Skill) -> EnvironmentSpec:
    return next(spec for spec in catalogue() if spec.skill is skill)


_CONTRACT = """\
You design training environments for an agent that acts through function calls. An environment is one Python file in \
one ```python block: standard library only, one public class, first line \
`from spade_environments import Call, Goal, TextEnv, ToolEnv, ToolError, tool` (import what you use). It is run in a \
jail and accepted only with proof, so:
- All randomness comes from self.rng. Different seeds give different instances; the same seed the same one.
- solution() returns the actions that solve the instance just reset, within max_turns (at most 25).
- An agent that is silent, repeats one action or acts at random must lose; so must another instance's solution.
- The answer stands in no tool description and no observation that comes before the work is done.
- Malformed and hostile actions get an explanation as observation; they never raise and never pay.
- Difficulty parameters are upper-case class attributes. Aim for an agent that solves it about half of the time.
"""

_TEXT_RULES = """\
Derive from TextEnv: reset(self, seed) -> (observation, info) and step(self, action) -> (observation, reward, \
terminated, truncated, info), text in and out; reward 1.0 only with success. max_turns = 1 makes it a single question. \
What must stay unseen at the start is named in hidden = ("attribute",) with observability = "partial". solution() -> \
list of str."""

_TOOL_RULES = """\
Derive from ToolEnv: setup(self) builds self.state from self.rng; 3 to 8 @tool methods with typed parameters and \
docstrings, at least one of them a distractor; a mistake the agent can mend raises ToolError. goals(self) returns 2 to \
5 Goal(kind, instruction, check): kind state (check(state, calls, reply) over the changed state), called (over the \
calls made), replied (value=... stands in the reply), asked (something is missing; the next instruction gives it), \
declined (no tool fits); at least one of the first three. solution() -> one list for each goal: its Calls, and the \
reply as a str at its end where one is needed."""

_HINT = """\
You see the source of an environment. Write the hint that helps an agent most: the key insight or strategy and the \
form of the answer, in at most three sentences and 600 characters. Never the answer, never a concrete argument value."""
