"""A designer's completion to a source with its manifest, or to the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from spade_agents.designer.requests import OutputForm
from spade_agents.trajectory import Completion
from spade_environments import Skill, ToolCall, ToolSpec

__all__ = ["MAX_SOURCE_BYTES", "SUBMIT", "DesignFault", "Manifest", "ParsedDesign", "parse_design", "parse_hint"]

MAX_SOURCE_BYTES: Final = 65_536
"""Longer programs are not looked at; it is the certificate's own limit unless that is set otherwise."""

SUBMIT: Final = ToolSpec(
    name="submit_environment",
    description="Hand in one environment: the whole Python file, and what it is about.",
    parameters={
        "type": "object",
        "properties": {
            "source": {"type": "string", "description": "The whole program."},
            "skill": {"type": "string", "enum": [skill.value for skill in Skill]},
            "domain": {"type": "string", "description": "What it is about, in a few words."},
            "difficulty": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["source", "skill", "domain", "difficulty"],
        "additionalProperties": False,
    },
)

_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_MANIFEST = re.compile(r"```json[ \t]*\n(.*?)\n?```", re.DOTALL)
_DOMAIN_LENGTH = 80


class DesignFault(StrEnum):
    """Why a completion holds no environment that could be certified."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NO_BLOCK = "no_block"
    UNCLOSED_BLOCK = "unclosed_block"
    SEVERAL_BLOCKS = "several_blocks"
    BAD_MANIFEST = "bad_manifest"
    BAD_CALL = "bad_call"
    SEVERAL_CALLS = "several_calls"
    TOO_LARGE = "too_large"
    DUPLICATE = "duplicate"
    """The very source of an environment that is there already; told before it is certified again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a designer says of its program; `None` where it says nothing."""

    skill: Skill | None = None
    domain: str | None = None
    difficulty: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDesign:
    """A source and its manifest, or a fault with what to tell the designer."""

    source: str | None
    manifest: Manifest = field(default_factory=Manifest)
    form: OutputForm = OutputForm.BLOCK
    fault: DesignFault | None = None
    repair: str = ""


def parse_design(
    completion: Completion, *, max_bytes: int = MAX_SOURCE_BYTES, cut_after_block: bool = False
) -> ParsedDesign:
    """The one fenced Python block of a completion with its ```json manifest, or its one call; never raises.

    Either form is taken, whichever was asked for: what is meant is plain. A block without a manifest is whole, and
    where there is a block, calls beside it are not looked at.

    Args:
        completion: the designer's answer.
        max_bytes: of a program.
        cut_after_block: whether a text that its length limit cut after the block was closed is looked at: the program
            is whole then, and only what was said about it is not.
    """
    called = bool(completion.calls or completion.broken) and "```" not in completion.text
    is_cut = completion.finish == "length"
    if is_cut and (called or not cut_after_block):
        return _truncated()
    parsed = _from_calls(completion) if called else _from_text(completion.text)
    if is_cut and parsed.source is None and parsed.fault is not DesignFault.SEVERAL_BLOCKS:
        return _truncated()
    if parsed.source is not None and (size := len(parsed.source.encode(errors="replace"))) > max_bytes:
        told = f"the program has {size} bytes; write one of at most {max_bytes}"
        return _fault(DesignFault.TOO_LARGE, told, form=parsed.form)
    return parsed


def _truncated() -> ParsedDesign:
    return _fault(DesignFault.TRUNCATED, "the answer was cut by its length limit: write a shorter program")


def parse_hint(completion: Completion) -> str | None:
    """The hint's text, white space collapsed, or `None` where it is empty or was cut."""
    text = " ".join(completion.text.split())
    return text if text and completion.finish != "length" else None


def _from_text(written: str) -> ParsedDesign:
    text = written.replace("\r\n", "\n")
    if not text.strip():
        return _fault(DesignFault.EMPTY, "the answer was empty: give one ```python block")
    manifests = _MANIFEST.findall(text) if "```json" in text else []
    blocks = _BLOCK.findall(_MANIFEST.sub("", text) if manifests else text)
    if len(blocks) > 1:
        return _fault(DesignFault.SEVERAL_BLOCKS, f"{len(blocks)} fenced blocks were found: give exactly one")
    if not blocks and "```" in text and not manifests:
        told = "the fenced block was opened and never closed: give the whole program in one ```python block"
        return _fault(DesignFault.UNCLOSED_BLOCK, told)
    if not blocks:
        return _fault(DesignFault.NO_BLOCK, "no fenced block was found: put the program in one ```python block")
    if len(manifests) > 1:
        return _fault(DesignFault.BAD_MANIFEST, f"{len(manifests)} ```json blocks were found: give at most one")
    try:
        manifest = _manifest(msgspec.json.decode(manifests[0]) if manifests else {})
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return _fault(DesignFault.BAD_MANIFEST, f"the ```json block cannot be read: {error}")
    return ParsedDesign(source=_whole_lines(blocks[0]), manifest=manifest)


def _from_calls(completion: Completion) -> ParsedDesign:
    form = OutputForm.CALL
    if completion.broken:
        told = f"the call of {SUBMIT.name} cannot be read: {completion.broken[0].message}"
        return _fault(DesignFault.BAD_CALL, told, form=form)
    if len(completion.calls) > 1:
        told = f"{len(completion.calls)} calls were made: call {SUBMIT.name} exactly once"
        return _fault(DesignFault.SEVERAL_CALLS, told, form=form)
    call = completion.calls[0]
    try:
        return ParsedDesign(source=_submitted(call), manifest=_manifest(call.arguments), form=form)
    except (msgspec.ValidationError, ValueError) as error:
        return _fault(DesignFault.BAD_CALL, f"the call of {call.name[:40]} does not fit: {error}", form=form)


def _submitted(call: ToolCall) -> str:
    if call.name != SUBMIT.name:
        raise ValueError(f"there is only {SUBMIT.name}")
    unknown = sorted(set(call.arguments) - set(SUBMIT.parameters["properties"]))
    if unknown:
        raise ValueError(f"it takes no argument {unknown[0][:40]!r}")
    source = call.arguments.get("source")
    if not isinstance(source, str) or not source.strip():
        raise ValueError("its argument source must be the text of the program")
    return _whole_lines(source)


def _manifest(fields: Any) -> Manifest:
    """What stands in a manifest.

    Raises:
        ValueError: a value that says nothing of its kind; keys that we do not know are let pass.
    """
    if not isinstance(fields, dict):
        raise ValueError("wanted an object with domain and difficulty")
    skill, domain, difficulty = fields.get("skill"), fields.get("domain"), fields.get("difficulty")
    if skill is not None and skill not in {each.value for each in Skill}:
        raise ValueError(f"skill is {str(skill)[:40]!r}; wanted the one that was asked for")
    if domain is not None and not (isinstance(domain, str) and domain.strip() and len(domain) <= _DOMAIN_LENGTH):
        raise ValueError(f"domain is {str(domain)[:40]!r}; wanted a few words")
    is_number = isinstance(difficulty, int | float) and not isinstance(difficulty, bool)
    if difficulty is not None and not (is_number and 0 <= difficulty <= 1):
        raise ValueError(f"difficulty is {str(difficulty)[:40]!r}; wanted a number from 0 to 1")
    return Manifest(
        skill=None if skill is None else Skill(skill),
        domain=None if domain is None else " ".join(domain.split()),
        difficulty=None if difficulty is None else float(difficulty),
    )


def _whole_lines(source: str) -> str:
    return source.rstrip() + "\n"


def _fault(fault: DesignFault, repair: str, *, form: OutputForm = OutputForm.BLOCK) -> ParsedDesign:
    return ParsedDesign(source=None, fault=fault, repair=repair, form=form)
