"""What one draft settles before its parts are written: words, keys, habits of style."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from spade_agents.nano.grammar.documents import Words
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart

__all__ = ["Draft", "GoalMaker", "Shape", "listed", "refuse"]

GoalMaker = Callable[[str], GoalPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A state shape: how it is set up, the tools that fit it and the goals they serve.

    Attributes:
        name: its label.
        setup: lines that build `self.state` from `names`.
        tools: every tool that fits.
        goals: label to a maker that takes the source of the key that the goal is about.
        after_write: labels of goals that are no longer true once something was written.
        constants: difficulty constants beyond SIZE.
        root: source of the dict whose keys the tools check, or "" for none.
        key: the parameter that a rule about single keys takes, or "" for the thing itself.
        per_key: whether a rule about single keys fits.
    """

    name: str
    setup: tuple[str, ...]
    tools: tuple[ToolPart, ...]
    goals: dict[str, GoalMaker]
    after_write: frozenset[str] = frozenset()
    constants: tuple[tuple[str, int], ...] = ()
    root: str = "self.state"
    key: str = ""
    per_key: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Words and habits; `helper` tells whether keys are checked in one method or in each tool."""

    rng: random.Random
    words: Words
    helper: bool
    done: str
    numbered: bool
    root: str = "self.state"
    size: int = 4
    high: int = 50

    @property
    def thing(self) -> str:
        return self.words.thing

    @property
    def article(self) -> str:
        return "an" if self.thing[0] in "aeiou" else "a"

    def names(self) -> str:
        """The line of `setup` that draws the keys."""
        if self.numbered:
            return f'names = [f"{self.thing[0]}{{n}}" for n in self.rng.sample(range(10, 99), self.SIZE)]'
        return f"names = self.rng.sample({listed(self.words.names)}, self.SIZE)"

    def known(self) -> tuple[str, ...]:
        """Lines that refuse an unknown key."""
        if self.helper:
            return (f"self._at({self.thing})",)
        return refuse(f"{self.thing} not in {self.root}", f"unknown {self.thing}")

    def at(self) -> tuple[tuple[str, ...], str]:
        """Lines that refuse an unknown key, and the expression of what is stored there."""
        if self.helper:
            return (), f"self._at({self.thing})"
        return self.known(), f"{self.root}[{self.thing}]"

    def keyed(
        self,
        name: str,
        told: str,
        *body: str,
        returns: str = "str",
        more: tuple[tuple[str, str], ...] = (),
        writes: bool = False,
    ) -> ToolPart:
        """A tool whose first parameter is a key."""
        return ToolPart(
            name=name,
            params=((self.thing, "str"), *more),
            returns=returns,
            told=told,
            body=body,
            keyed=self.thing,
            writes=writes,
        )

    def call(self, tool: str, key: str, *more: tuple[str, str], writes: bool = False) -> CallPart:
        """A call whose first argument is a key, given as source."""
        return CallPart(tool=tool, arguments=((self.thing, key), *more), about=key if writes else "")

    def number_asked(self, key: str, tool: str, value: str, *, label: str) -> GoalPart:
        """A goal that is met by the number of a key, which `tool` reads; told as a value or as a check of the reply."""
        check, shown = ("", value) if self.rng.random() < 0.5 else (f"reply == str({value})", "")
        return GoalPart(
            kind="replied",
            instruction=f"What is the {self.words.number} of {{{key}}}?",
            check=check,
            value=shown,
            calls=(self.call(tool, key),),
            reply=f"str({value})",
            hint=f"read it with {tool} and reply with the number only",
            label=label,
        )

    def finish(self) -> str:
        """What a writing tool returns."""
        return f'return "{self.done}"'


def listed(words: tuple[str, ...]) -> str:
    """The source of a list of strings."""
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def refuse(condition: str, told: str) -> tuple[str, str]:
    """Lines that raise a tool error under a condition."""
    return (f"if {condition}:", f'    raise ToolError("{told}")')
