"""What is kept of designing: attempts with their completions, and the outcome of a slot."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spade_agents.designer.prompts import DesignRequest
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
    """

    completion: Completion
    verdict: AttemptVerdict
    gate: str = ""
    repair: str = ""
    spec: EnvironmentSpec | None = None
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignOutcome:
    """One slot: what was asked, all attempts, and the environment admitted, hint included."""

    request: DesignRequest
    attempts: tuple[DesignAttempt, ...]
    spec: EnvironmentSpec | None
    certificate: Certificate | None = None
