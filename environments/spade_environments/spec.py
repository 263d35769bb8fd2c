"""EnvironmentSpec: an environment as data, named by the hash of its source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import msgspec

__all__ = ["GAME_SKILLS", "TOOL_SKILLS", "EnvironmentSpec", "Skill", "SpecError"]


class SpecError(ValueError):
    """A spec that cannot be read, or does not fit its source."""


class Skill(StrEnum):
    """What an environment trains; the first six are games (TextEnv), the last six tool use (ToolEnv)."""

    MATHEMATICAL_REASONING = "mathematical reasoning"
    LOGICAL_DEDUCTION = "logical deduction"
    SPATIAL_REASONING = "spatial reasoning"
    PATTERN_RECOGNITION = "pattern recognition"
    OPTIMIZATION = "optimization"
    CAUSAL_INFERENCE = "causal inference"
    API_ORCHESTRATION = "API orchestration"
    DATA_RETRIEVAL = "data retrieval"
    STATE_MODIFICATION = "state modification"
    ERROR_RECOVERY = "error recovery"
    TOOL_SELECTION = "tool selection"
    MULTI_STEP_WORKFLOWS = "multi-step workflows"


GAME_SKILLS = tuple(Skill)[:6]
TOOL_SKILLS = tuple(Skill)[6:]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """An environment as data.

    Attributes:
        name: short name, `snake_case`.
        source: the designed file, whole.
        skill: what it trains.
        domain: everyday domain or topic.
        difficulty: the designer's own estimate in [0, 1].
        hint: privileged text for the hinted arm, or `None` until it is written.
        provenance: where it came from (`catalogue`, run, rollout, document, parents): JSON-able.
    """

    name: str
    source: str
    skill: Skill
    domain: str = "general"
    difficulty: float = 0.5
    hint: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """sha256 of the source, in hex."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    def with_hint(self, hint: str | None) -> Self:
        return replace(self, hint=hint)

    def with_source(self, source: str, **provenance: Any) -> Self:
        """The same environment with other source, and so another id."""
        return replace(self, source=source, provenance={**self.provenance, **provenance})

    def to_json(self, *, source: bool = True) -> str:
        """JSON text with the id; without `source`, what stands beside a source file as `NAME.spec.json`."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if not source:
            del fields["source"]
        return msgspec.json.format(msgspec.json.encode({"id": self.id, **fields}), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, source: str | None = None) -> Self:
        """Read what `to_json` wrote.

        Raises:
            SpecError: not JSON, a missing or unknown field, a value out of range, or an id that is not the hash of the
                source.
        """
        try:
            fields = msgspec.json.decode(text, type=dict[str, Any])
            identity = msgspec.convert(fields.pop("id", None), str | None)
            if source is not None:
                fields["source"] = source
            spec = msgspec.convert(fields, cls)
            unknown = sorted(set(fields) - set(cls.__dataclass_fields__))
        except (msgspec.DecodeError, RecursionError) as error:
            raise SpecError(f"the spec cannot be read: {error}") from error
        if unknown:
            raise SpecError(
                f"the spec has an unknown field {unknown[0]!r}; known: {', '.join(cls.__dataclass_fields__)}"
            )
        if not spec.name.strip() or not 0.0 <= spec.difficulty <= 1.0:
            found = f"name {spec.name!r} and difficulty {spec.difficulty:g}"
            raise SpecError(f"the spec has {found}; wanted a name that is not empty and a difficulty in [0, 1]")
        if identity not in (None, spec.id):
            raise SpecError(f"the spec is of source {identity[:12]}, but the source's hash is {spec.id[:12]}")
        return spec
