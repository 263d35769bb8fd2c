"""What a certificate says: verdict, gates, evidence, and the settings it was made under."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

import msgspec

from spade_environments.limits import Limits
from spade_environments.spec import EnvironmentSpec

__all__ = [
    "CORE_GATES",
    "DEFAULT_SETTINGS",
    "Certificate",
    "CertificateError",
    "CertificateSettings",
    "Gate",
    "GateResult",
    "GateStatus",
    "Verdict",
]


class CertificateError(ValueError):
    """A certificate that cannot be read."""


class Verdict(StrEnum):
    """What was found; `undecided` is a fault of ours, `unproven` an import without a solution: neither is admitted."""

    CERTIFIED = "certified"
    REJECTED = "rejected"
    UNPROVEN = "unproven"
    UNDECIDED = "undecided"


class Gate(StrEnum):
    """The gates in order of cost; `hint` stands apart, in the certificate of a hint."""

    LINT = "lint"
    LOAD = "load"
    RESET = "reset"
    DETERMINISM = "determinism"
    GOALS = "goals"
    GOLD = "gold"
    FLOOR = "floor"
    ROBUSTNESS = "robustness"
    LEAK = "leak"
    NOVELTY = "novelty"
    HINT = "hint"


CORE_GATES = (*tuple(Gate)[:6], Gate.NOVELTY)
"""What proves that an environment works; without the gates that ask whether it is worth playing."""


class GateStatus(StrEnum):
    """How one gate ended; after a gate that did not pass, the others are `not_run`."""

    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    UNDECIDED = "undecided"
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """What is tried, and how much of it.

    Attributes:
        seeds: how many instances are played.
        gates: those that run; the first six need one another in order, so each of them needs all before it.
        min_gold_steps: least number of messages that the shortest `solution()` may take.
        max_source_bytes: largest source, in UTF-8 bytes.
        probe_steps: actions of a probe play, at most.
        floor: mean return in [0, 1] that an agent without understanding may reach, and the share of seeds on which one
            and the same first action may win.
        floor_plays: plays of the random agent on one seed.
        hint_characters: longest hint.
        seconds: wall time that one gate may take; beyond it the verdict is `undecided`.
    """

    seeds: int = 8
    gates: tuple[Gate, ...] = tuple(Gate)[:10]
    min_gold_steps: int = 1
    max_source_bytes: int = 65_536
    probe_steps: int = 8
    floor: float = 0.15
    floor_plays: int = 2
    hint_characters: int = 600
    seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds is {self.seeds}; wanted at least 2, since different seeds must differ")
        first = list(Gate)[:6]
        wanted = [gate for gate in first if gate in self.gates]
        if wanted != first[: len(wanted)]:
            missing = next(gate for gate in first if gate not in wanted)
            raise ValueError(f"gate {wanted[-1].value!r} needs gate {missing.value!r} before it; add it to gates")
        if set(self.gates) & set(list(Gate)[6:9]) and wanted != first:
            raise ValueError("gates floor, robustness and leak need the first six gates; add them to gates")


DEFAULT_SETTINGS = CertificateSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate's finding.

    Attributes:
        evidence: what was seen, on which seed and action, for a person to read.
        repair: for the designer: what was seen and what would fix it; empty where the gate did not fail.
        seconds: wall time spent in the gate.
    """

    gate: Gate
    status: GateStatus
    evidence: str = ""
    repair: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The proof that travels with an environment; void for any other source than that of `spec_id`.

    Attributes:
        spec_id: sha256 of the source that was examined.
        seeds: the instances played.
        gold_lengths: messages in `solution()`, one number a seed (empty before gate `gold`).
        sandbox_level: what shut the environment in while it was examined.
        limits: what one child of it was allowed to use.
        seconds: wall time of all gates, opening and closing of children included.
        versions: of Python and of this package.
        hint: the hint examined, in the certificate of a hint.
    """

    spec_id: str
    name: str
    verdict: Verdict
    gates: tuple[GateResult, ...]
    settings: CertificateSettings
    seeds: tuple[int, ...] = ()
    gold_lengths: tuple[int, ...] = ()
    sandbox_level: str = ""
    limits: Limits | None = None
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    hint: str | None = None

    @property
    def admitted(self) -> bool:
        return self.verdict is Verdict.CERTIFIED

    @property
    def reason(self) -> GateResult | None:
        """The first gate that did not pass; `None` when all did."""
        return next((gate for gate in self.gates if gate.status not in (GateStatus.PASSED, GateStatus.NOT_RUN)), None)

    @property
    def repair(self) -> str:
        """What the designer is told; empty unless the verdict is `rejected`."""
        return self.reason.repair if self.reason is not None else ""

    def holds_for(self, spec: EnvironmentSpec) -> bool:
        return self.spec_id == spec.id

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            CertificateError: not JSON, a missing or unknown field, or a value out of range.
        """
        try:
            fields = msgspec.json.decode(text, type=dict[str, Any])
            certificate = msgspec.convert(fields, cls)
        except (msgspec.DecodeError, ValueError) as error:
            raise CertificateError(f"the certificate cannot be read: {error}; certify the environment again") from error
        unknown = sorted(set(fields) - set(cls.__dataclass_fields__))
        if unknown:
            raise CertificateError(
                f"the certificate has an unknown field {unknown[0]!r}; certify the environment again"
            )
        return certificate
