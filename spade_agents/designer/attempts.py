"""What is kept of designing: attempts with their completions, and the outcome of a slot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spade_agents.designer.requests import DesignRequest
from spade_agents.trajectory import Completion
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate

__all__ = ["AttemptVerdict", "DesignAttempt", "DesignOutcome"]


class AttemptVerdict(StrEnum):
    """How an attempt ended; only certified and rejected ones are designer samples."""

    CERTIFIED = "certified"
    REJECTED = "rejected"
    UNDECIDED = "undecided"
    NO_HINT = "no_hint"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignAttempt:
    """One completion of the designer and what became of it.

    Attributes:
        completion: with its tokens, for training.
        verdict: see `AttemptVerdict`.
        gate: the first gate that failed, or a `DesignFault`; empty where none did.
        repair: what the designer is told.
        spec: the environment where the completion held one.
        certificate: where it came to be certified.
        repaired: whether the prompt showed the attempt before and what was wrong with it.
        hints: hints asked for.
    """

    completion: Completion
    verdict: AttemptVerdict
    gate: str = ""
    repair: str = ""
    spec: EnvironmentSpec | None = None
    certificate: Certificate | None = None
    repaired: bool = False
    hints: int = 0

    @property
    def told(self) -> str:
        """In a word or two: how it ended, and at what."""
        return f"{self.verdict.value}: {self.gate}" if self.gate else self.verdict.value


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOutcome:
    """One slot: what was asked, all attempts, and the environment admitted, hint included."""

    request: DesignRequest
    attempts: tuple[DesignAttempt, ...]
    spec: EnvironmentSpec | None
    certificate: Certificate | None = None
