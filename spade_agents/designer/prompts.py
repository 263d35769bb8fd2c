"""The designer's prompts: one function that renders every request, in two styles."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from spade_agents.agent.prompts import PromptStyle
from spade_agents.designer import prompt_texts
from spade_agents.designer.prompt_texts import AVOID, CONTRACT, FORMS, HAND_IN, HINT, REPAIR, TEXT_RULES, TOOL_RULES
from spade_agents.designer.requests import (
    DOMAINS,
    DesignRequest,
    HintRequest,
    MemorySeed,
    RepairRequest,
    TextForm,
)
from spade_agents.messages import Message
from spade_environments import EnvironmentSpec, Skill
from spade_environments.registry import catalogue

__all__ = ["example_of", "prompt_version", "render_prompt", "skeleton_of"]

PromptRequest = DesignRequest | HintRequest | RepairRequest


def render_prompt(request: PromptRequest, *, style: PromptStyle) -> tuple[Message, ...]:
    """The messages of a request.

    Args:
        request: a design or a hint, which open a conversation, or a repair, which goes on with a design's.
        style: `full` for models that have never seen the contract; `compact`, which tells skill, memory and document
            alone, for those that were trained on it.
    """
    compact = style == "compact"
    match request:
        case DesignRequest():
            system, user = _compact_design(request) if compact else _full_design(request)
            return Message(role="system", content=system), Message(role="user", content=user)
        case HintRequest(source=source):
            user = source if compact else f"```python\n{source}```"
            return Message(role="system", content="hint" if compact else HINT), Message(role="user", content=user)
        case RepairRequest():
            return _repair(request)


@cache
def prompt_version(style: PromptStyle) -> str:
    """Names the words of a style: its name, and a digest that changes with any of them."""
    words = [str(getattr(prompt_texts, name)) for name in prompt_texts.__all__] if style == "full" else [REPAIR]
    skeletons = [skeleton_of(form) for form in TextForm] if style == "full" else []
    return f"{style}-{hashlib.sha256(repr([*words, *skeletons, dict(DOMAINS)]).encode()).hexdigest()[:8]}"


def example_of(skill: Skill) -> EnvironmentSpec:
    """The catalogue's environment of a skill: what a prompt shows of the form."""
    return next(spec for spec in catalogue() if spec.skill is skill)


@cache
def skeleton_of(form: TextForm) -> str:
    """A short whole text environment of a form, for prompts whose example is of the other one."""
    name = form.value.replace("-", "_")
    return (resources.files("spade_agents.designer") / "skeletons" / f"{name}.py.txt").read_text(encoding="utf-8")


def _compact_design(request: DesignRequest) -> tuple[str, str]:
    lines = [f"skill: {request.skill.value}"]
    lines += [f"memory: {seed.summary}" for seed in request.seeds]
    if request.document:
        lines.append(f"document: {request.document}")
    return "design", "\n".join(lines)


def _full_design(request: DesignRequest) -> tuple[str, str]:
    rules = TOOL_RULES if request.uses_tools else TEXT_RULES
    example = _block(example_of(request.skill).source)
    parts = [
        _task(request),
        f"An environment of this kind, to show the form (write another one):\n{example}",
        *_skeleton(request),
        *(_memory(seed) for seed in request.seeds),
        *(f"{AVOID.format(told=_told(seed))}\n{_block(seed.source)}" for seed in request.avoid),
    ]
    if request.document:
        parts.append(
            "Ground it in this text; take its objects, names and relations, and leave its formatting:\n"
            f"<document>\n{request.document}\n</document>"
        )
    parts.append(HAND_IN[request.output])
    return f"{CONTRACT}\n{rules}", "\n\n".join(parts)


def _task(request: DesignRequest) -> str:
    lines = [f"Write one environment that trains {request.skill.value}."]
    if request.uses_tools:
        if request.domain in DOMAINS:
            lines.append(f"It plays in the domain {request.domain} ({DOMAINS[request.domain]}).")
        if request.variant is not None:
            lines.append(prompt_texts.VARIANTS[request.variant])
    elif request.form is not None:
        lines.append(FORMS[request.form])
    lines.append(
        f"Difficulty aimed at: {request.target:.2f}, where 0 is solved at once, 0.5 is solved by the present agent in "
        "about half of its plays, and 1 is out of its reach."
    )
    return " ".join(lines)


def _skeleton(request: DesignRequest) -> list[str]:
    """The form asked for, where the example of the skill is of the other one."""
    form = request.form
    if form is None or request.uses_tools:
        return []
    single = "max_turns = 1\n" in example_of(request.skill).source
    if single == (form == TextForm.SINGLE_TURN):
        return []
    return [f"The form that is asked for, on something simpler:\n{_block(skeleton_of(form))}"]


def _memory(seed: MemorySeed) -> str:
    return f"An earlier environment; {_told(seed)}. Build on what made it instructive:\n{_block(seed.source)}"


def _told(seed: MemorySeed) -> str:
    worth = "" if seed.regret is None else f" and a hint was worth {seed.regret:+.2f}"
    return f"the agent solved {seed.win_rate:.0%} of its plays{worth}"


def _block(source: str) -> str:
    return f"```python\n{source}```"


def _repair(request: RepairRequest) -> tuple[Message, ...]:
    told = REPAIR.format(gate=request.gate, repair=request.repair)
    written = Message(role="assistant", content=request.written, calls=request.calls)
    if not request.calls:
        return written, Message(role="user", content=told)
    return written, *(Message(role="tool", content=told, call_id=call.id) for call in request.calls)
