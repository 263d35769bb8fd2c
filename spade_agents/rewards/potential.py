"""The learning-potential reward's memory: a fast and a slow moving average of each skill's mean return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

__all__ = ["Averages", "PotentialState", "updated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages:
    """Two exponential averages of one skill's round means."""

    fast: float
    slow: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PotentialState:
    """Averages by skill; a skill not seen yet is absent, and starts at its first round's mean."""

    skills: Mapping[str, Averages] = field(default_factory=dict)

    def to_json(self) -> dict[str, dict[str, float]]:
        """Plain JSON values, for a checkpoint."""
        return {skill: {"fast": a.fast, "slow": a.slow} for skill, a in sorted(self.skills.items())}

    @classmethod
    def from_json(cls, data: Mapping[str, Mapping[str, float]]) -> PotentialState:
        """The state that `to_json` wrote."""
        return cls(skills={skill: Averages(fast=a["fast"], slow=a["slow"]) for skill, a in data.items()})


def updated(
    state: PotentialState, rounds: Mapping[str, Sequence[float]], *, fast: float = 0.98, slow: float = 0.85
) -> PotentialState:
    """Take one round in: μ ← (1 − γ)·μ + γ·r, with r the mean of the skill's environment means of this round.

    Scores are taken against the state *before* this update: the slow average would else already hold 85 % of what it
    is compared with.
    """
    skills = dict(state.skills)
    for skill, means in rounds.items():
        if not means:
            continue
        mean = fmean(means)
        old = skills.get(skill, Averages(fast=mean, slow=mean))
        skills[skill] = Averages(fast=(1 - fast) * old.fast + fast * mean, slow=(1 - slow) * old.slow + slow * mean)
    return PotentialState(skills=skills)
