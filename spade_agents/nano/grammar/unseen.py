"""Families that stay out of the warm-up: first in first out, transfer, find and then change."""

from __future__ import annotations

from spade_agents.nano.grammar.counters import counter_tools
from spade_agents.nano.grammar.draft import Draft, Shape, refuse
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart
from spade_agents.nano.grammar.records import records

__all__ = ["find_then_change", "queue", "transfer"]


def queue(draft: Draft) -> Shape:
    """A line in which the first in is the first out."""
    thing, done = draft.thing, draft.finish()
    tools = (
        ToolPart(
            name="first", told="Tell which is first.", body=('return self.state[0] if self.state else "nothing"',)
        ),
        draft.keyed(
            f"join_{thing}",
            "Put one at the end.",
            *refuse(f"{thing} in self.state", "already there"),
            f"self.state.append({thing})",
            done,
            writes=True,
        ),
        ToolPart(
            name="serve",
            told="Take the first one away.",
            body=(*refuse("not self.state", "nothing there"), "return self.state.pop(0)"),
            writes=True,
        ),
        ToolPart(name="length", returns="int", told="Tell how many wait.", body=("return len(self.state)",)),
    )
    return Shape(
        name="queue",
        setup=("self.line = names[1:]", "self.state = list(self.line)"),
        tools=tools,
        goals={
            "first": lambda _: GoalPart(
                kind="replied",
                instruction=f"Which {thing} is first?",
                value="self.line[0]",
                calls=(CallPart(tool="first"),),
                reply="self.line[0]",
                hint="use first and reply with the name",
                label="first",
            ),
            "join": lambda key: GoalPart(
                kind="state",
                instruction="Put {self.new} at the end.",
                check="state[-1:] == [self.new]",
                calls=(draft.call(f"join_{thing}", "self.new", writes=True),),
                setup=("self.new = names[0]",),
                hint=f"use join_{thing}",
                label="join",
            ),
            "serve": lambda _: GoalPart(
                kind="state",
                instruction="Serve the first two.",
                check="not set(self.line[:2]) & set(state)",
                calls=(CallPart(tool="serve", about="line"),) * 2,
                hint="call serve twice",
                label="serve",
            ),
        },
        after_write=frozenset({"first"}),
        root="",
        per_key=False,
    )


def transfer(draft: Draft) -> Shape:
    """Counts that one tool moves from one key to another."""
    thing, number = draft.thing, draft.words.number
    guard = refuse("source not in self.state or target not in self.state", f"unknown {thing}")
    move = ToolPart(
        name=f"move_{number}",
        params=(("source", "str"), ("target", "str"), ("amount", "int")),
        told=f"Move some {number} from one to another.",
        body=(
            *guard,
            *refuse("not 0 < amount <= self.state[source]", "not enough"),
            "self.state[source] -= amount",
            "self.state[target] += amount",
            draft.finish(),
        ),
        writes=True,
        keyed="source",
    )
    tools = counter_tools(draft)
    return Shape(
        name="transfer",
        setup=("self.state = {k: self.rng.randint(3, self.HIGH) for k in names}",),
        tools=(move, *tools[:2]),
        goals={
            "move": lambda key: GoalPart(
                kind="state",
                instruction=f"Move {{self.n}} from {{{key}}} to {{self.other}}.",
                check=f"state[{key}] == self.want",
                calls=(
                    CallPart(
                        tool=f"move_{number}",
                        arguments=(("source", key), ("target", "self.other"), ("amount", "self.n")),
                        about=key,
                    ),
                ),
                setup=(
                    "self.n = self.rng.randint(1, 3)",
                    f"self.other = [k for k in names if k != {key}][-1]",
                    f"self.want = self.state[{key}] - self.n",
                ),
                hint=f"use move_{number} once",
                label="move",
            ),
            "count": lambda key: GoalPart(
                kind="replied",
                instruction=f"What is the {number} of {{{key}}}?",
                value=f"self.state[{key}]",
                calls=(draft.call(f"{number}_of", key),),
                reply=f"str(self.state[{key}])",
                hint=f"read it with {number}_of and reply with the number only",
                label="count",
            ),
        },
        after_write=frozenset({"count"}),
        constants=(("HIGH", draft.high),),
    )


def find_then_change(draft: Draft) -> Shape:
    """Records that the instruction names by a quality; find the key, then change the record."""
    shape = records(draft, unique=True)
    quality, number, act, thing = draft.words.quality, draft.words.number, draft.words.acts[0], draft.thing

    def found(key: str, label: str, told: str, check: str, *calls: CallPart, setup: tuple[str, ...] = ()) -> GoalPart:
        wanted = f'self.state[{key}]["{quality}"]'
        find = CallPart(tool=f"find_{quality}", arguments=((quality, wanted),))
        return GoalPart(
            kind="state",
            instruction=told.format(f"{{{wanted}}}").replace('"', "'"),
            check=check,
            calls=(find, *calls),
            setup=setup,
            hint=f"use find_{quality} first, then change what it gives",
            label=label,
        )

    return Shape(
        name="find then change",
        setup=shape.setup,
        tools=tuple(tool for tool in shape.tools if tool.name.split("_")[0] in ("find", "set", act, "get")),
        goals={
            "found set": lambda key: found(
                key,
                "found set",
                f"Set the {number} of the {thing} with {quality} {{}} to {{{{self.n}}}}.",
                f'state[{key}]["{number}"] == self.n',
                draft.call(f"set_{number}", key, (number, "self.n"), writes=True),
                setup=("self.n = self.rng.randint(self.HIGH + 1, 99)",),
            ),
            "found mark": lambda key: found(
                key,
                "found mark",
                f"Please {act} the {thing} with {quality} {{}}.",
                f'state[{key}]["{act}"]',
                draft.call(f"{act}_{thing}", key, writes=True),
            ),
        },
        constants=shape.constants,
    )
