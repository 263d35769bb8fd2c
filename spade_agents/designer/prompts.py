"""The designer's prompts: one function a call, typed inputs, two styles."""

from __future__ import annotations

from dataclasses import dataclass

from spade_agents.agent.prompts import PromptStyle
from spade_agents.messages import Message
from spade_environments import Skill

__all__ = ["DesignRequest", "MemorySeed", "design_messages", "hint_messages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySeed:
    """An earlier environment shown to the designer: `summary.summarise(source)`, and its source for the full style."""

    summary: str
    source: str
    win_rate: float
    regret: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRequest:
    """What one design is asked for; `document` is already cut to length."""

    skill: Skill
    document: str = ""
    seeds: tuple[MemorySeed, ...] = ()


def design_messages(request: DesignRequest, *, style: PromptStyle) -> tuple[Message, ...]:
    """The messages that ask for one environment."""
    if style == "full":
        raise ValueError("the full style is not written yet")
    lines = [f"skill: {request.skill.value}"]
    lines += [f"memory: {seed.summary}" for seed in request.seeds]
    if request.document:
        lines.append(f"document: {request.document}")
    return Message(role="system", content="design"), Message(role="user", content="\n".join(lines))


def hint_messages(source: str, *, style: PromptStyle) -> tuple[Message, ...]:
    """The messages that ask for the hint of an environment, which they show whole."""
    if style == "full":
        raise ValueError("the full style is not written yet")
    return Message(role="system", content="hint"), Message(role="user", content=source)
