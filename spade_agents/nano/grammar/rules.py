"""Rules that guard the tools that write; each fits every state shape."""

from __future__ import annotations

from dataclasses import dataclass

from spade_agents.nano.grammar.draft import Draft, Shape, refuse
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart

__all__ = ["RULES", "Rule", "make_rule"]

RULES = ("none", "ready", "unlock", "code", "seen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a rule adds.

    Attributes:
        name: its label.
        setup: lines of `setup`.
        tool: the tool that satisfies it, or `None` where an existing one does.
        guard: lines before the body of a writing tool.
        params: parameters that a writing tool gains.
        reader: whether `tool` takes the place of a reading tool of the shape.
        once: whether one satisfying call serves the whole episode.
        hint: a clause.
    """

    name: str
    setup: tuple[str, ...] = ()
    tool: ToolPart | None = None
    guard: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    reader: bool = False
    once: bool = True
    hint: str = ""

    def applied(self, tool: ToolPart) -> ToolPart:
        """The tool, guarded where it writes."""
        if self.reader and self.tool is not None and tool.name == self.tool.name:
            return self.tool
        if not tool.writes or not self.guard:
            return tool
        if not self.once and not tool.keyed:
            return tool
        return tool.guarded(*(line.replace("KEY", tool.keyed) for line in self.guard), params=self.params)

    def solved(self, goal: GoalPart, satisfied: set[str]) -> tuple[CallPart, ...]:
        """The goal's calls with those that satisfy the rule before the writing ones; notes them in `satisfied`."""
        calls: list[CallPart] = []
        for call in goal.calls:
            if call.about and self.tool is not None:
                subject = "" if self.once else call.about
                if subject not in satisfied:
                    satisfied.add(subject)
                    calls.append(
                        CallPart(tool=self.tool.name, arguments=tuple((n, subject) for n, _ in self.tool.params))
                    )
                call = CallPart(
                    tool=call.tool,
                    arguments=call.arguments + tuple((n, f"self.{n}") for n, _ in self.params),
                    about=call.about,
                )
            calls.append(call)
        return tuple(calls)


def make_rule(name: str, draft: Draft, shape: Shape) -> Rule:
    """A rule in the draft's words; one that does not fit the shape becomes no rule."""
    thing, rng = draft.thing, draft.rng
    readers = [tool for tool in shape.tools if tool.keyed and not tool.writes and len(tool.params) == 1]
    if (name in ("unlock", "seen") and not shape.per_key) or (name == "seen" and not readers):
        return Rule(name="none")
    act = draft.words.acts[1]
    if name == "ready":
        tool = rng.choice(("start", "sign_in", f"open_{draft.words.places[1]}"))
        told = tool.replace("_", " ")
        return Rule(
            name=name,
            setup=("self.ready = False",),
            tool=ToolPart(
                name=tool, told=f"{told.capitalize()}.", body=("self.ready = True", f'return "{draft.done}"')
            ),
            guard=refuse("not self.ready", f"{told} first"),
            hint=f"call {tool} first",
        )
    if name == "unlock":
        tool = f"{act}_{thing}"
        return Rule(
            name=name,
            setup=("self.allowed = set()",),
            once=False,
            tool=ToolPart(
                name=tool,
                params=((shape.key or thing, "str"),),
                told=f"{act.capitalize()} one {thing}.",
                body=(f"self.allowed.add({shape.key or thing})", f'return "{draft.done}"'),
            ),
            guard=refuse("KEY not in self.allowed", f"{act} it first"),
            hint=f"call {tool} before you change one",
        )
    if name == "code":
        word = rng.choice(("code", "pin", "token"))
        return Rule(
            name=name,
            setup=(f"self.{word} = self.rng.randint(100, 999)",),
            tool=ToolPart(name=f"get_{word}", returns="int", told=f"Tell the {word}.", body=(f"return self.{word}",)),
            guard=refuse(f"{word} != self.{word}", f"wrong {word}"),
            params=((word, "int"),),
            hint=f"read the {word} with get_{word} and pass it on",
        )
    if name == "seen":
        reader = readers[0]
        key = reader.keyed
        return Rule(
            name=name,
            setup=("self.seen = set()",),
            once=False,
            reader=True,
            tool=reader.guarded(f"self.seen.add({key})"),
            guard=refuse("KEY not in self.seen", "read it first"),
            hint=f"call {reader.name} before you change one",
        )
    return Rule(name=name)
