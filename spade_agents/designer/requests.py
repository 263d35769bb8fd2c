"""What a prompt of the designer is made of: typed requests, and the everyday domains, variants and forms they name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from spade_environments import TOOL_SKILLS, Skill, ToolCall

__all__ = [
    "DOMAINS",
    "DesignRequest",
    "HintRequest",
    "MemorySeed",
    "OutputForm",
    "RepairRequest",
    "TextForm",
    "ToolVariant",
    "drawn_domain",
    "drawn_form",
    "drawn_variant",
]


class TextForm(StrEnum):
    """Whether a text environment is one question or a course of moves."""

    SINGLE_TURN = "single-turn"
    MULTI_TURN = "multi-turn"


class ToolVariant(StrEnum):
    """What the requests of a tool environment turn on (method constants)."""

    EXECUTE = "execute"
    READ_THEN_WRITE = "read-then-write"
    MISSING_VALUE = "missing value"
    WITH_IRRELEVANT = "with irrelevant"


class OutputForm(StrEnum):
    """How a designer hands its program in."""

    BLOCK = "block"
    CALL = "call"


DOMAINS: Mapping[str, str] = MappingProxyType(
    {
        "retail": "orders, articles, stock, returns, vouchers",
        "travel": "connections, seats, bookings, rooms, passengers",
        "telecom": "lines, plans, usage, outages, devices",
        "banking": "accounts, payees, transfers, limits, cards",
        "calendar": "events, guests, rooms, free times, reminders",
        "files": "folders, documents, versions, tags, shares",
        "cart": "items, quantities, prices, coupons, delivery slots",
        "CRM tickets": "customers, tickets, queues, priorities, replies",
        "smart home": "rooms, lamps, heaters, scenes, timers",
        "project tracker": "tasks, blockers, people, reviews, releases",
    }
)
"""The everyday domains of tool environments, each with things to be found in it."""

_VARIANT_WEIGHTS = {
    ToolVariant.EXECUTE: 3,
    ToolVariant.READ_THEN_WRITE: 2,
    ToolVariant.MISSING_VALUE: 1,
    ToolVariant.WITH_IRRELEVANT: 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySeed:
    """An earlier environment shown to the designer: `summary.summarise(source)`, and its source for the full style."""

    summary: str
    source: str
    win_rate: float
    regret: float | None
    environment_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRequest:
    """What one design is asked for.

    Attributes:
        skill: to be trained; decides between text and tool environment.
        document: already cut to length; empty without grounding.
        document_id, corpus: where it came from: an id, and the checksum of the corpus.
        domain: everyday domain of a tool environment, or the document's field.
        seeds: earlier environments to build on; `avoid`: ones that were too easy or too hard.
        form: of a text environment; `None` leaves it open.
        variant: of a tool environment; `None` leaves it open.
        target: difficulty aimed at, from 0 (solved at once) to 1 (out of reach).
        output: how the program is handed in.
    """

    skill: Skill
    document: str = ""
    document_id: str = ""
    corpus: str = ""
    domain: str = "general"
    seeds: tuple[MemorySeed, ...] = ()
    avoid: tuple[MemorySeed, ...] = ()
    form: TextForm | None = None
    variant: ToolVariant | None = None
    target: float = 0.5
    output: OutputForm = OutputForm.BLOCK

    @property
    def uses_tools(self) -> bool:
        """Whether the skill is one of tool use."""
        return self.skill in TOOL_SKILLS


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRequest:
    """The hint of an environment whose source is shown whole."""

    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """Another attempt after one that was not accepted.

    Attributes:
        written: the text of that attempt, and `calls` the function calls in it.
        gate: what it failed at.
        repair: what the certificate tells its designer.
    """

    written: str
    gate: str
    repair: str
    calls: tuple[ToolCall, ...] = ()


def drawn_domain(rng: random.Random) -> str:
    """One of the ten domains, each as likely."""
    return rng.choice(tuple(DOMAINS))


def drawn_variant(rng: random.Random) -> ToolVariant:
    """One of the four variants, weighted 3 : 2 : 1 : 1."""
    return rng.choices(tuple(_VARIANT_WEIGHTS), weights=tuple(_VARIANT_WEIGHTS.values()))[0]


def drawn_form(rng: random.Random, single_turn: float) -> TextForm:
    """A form of text environment; `single_turn` is the share of single questions."""
    return TextForm.SINGLE_TURN if rng.random() < single_turn else TextForm.MULTI_TURN
