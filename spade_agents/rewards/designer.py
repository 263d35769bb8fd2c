"""Advantages of the designer: raw rewards centred within a skill, times the weight of the role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeAlias

__all__ = ["FixedWeight", "RatioWeight", "RoleWeight", "designer_advantages", "role_weight"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioWeight:
    """min(n_RA / n_ED · k, cap): the designer's few, late samples count as much as the agent's many."""

    type: Literal["ratio"] = "ratio"
    cap: float = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWeight:
    """A weight that does not depend on counts."""

    type: Literal["fixed"] = "fixed"
    value: float = 1.0


RoleWeight: TypeAlias = RatioWeight | FixedWeight


def role_weight(config: RoleWeight, *, agent_samples: int, designer_samples: int, period: int) -> float:
    """The factor on designer advantages.

    Args:
        config: ratio (arXiv 2608.19197 leaves it to the release: 8 · 24 / 24 · 4 = 32, capped at 50) or fixed.
        agent_samples: n_RA, agent samples in one rollout.
        designer_samples: n_ED, designer samples of the set, rejected attempts included.
        period: k, rollouts per set.

    Raises:
        ValueError: a ratio without designer samples.
    """
    if isinstance(config, FixedWeight):
        return config.value
    if designer_samples <= 0:
        raise ValueError(
            f"found {designer_samples} designer samples; the ratio weight needs at least one: skip the set"
        )
    return min(agent_samples / designer_samples * period, config.cap)


def designer_advantages(
    raw: Sequence[float | None], skills: Sequence[str], *, weight: float = 1.0
) -> tuple[float | None, ...]:
    """(raw − mean raw of the same skill in the set) · weight, without division by a deviation (arXiv 2608.19197).

    Args:
        raw: raw rewards, `None` where missing: left out of the means, no advantage.
        skills: of the same attempts.
        weight: see `role_weight`.

    Raises:
        ValueError: the two sequences differ in length.
    """
    valid: dict[str, list[float]] = {}
    for value, skill in zip(raw, skills, strict=True):
        if value is not None:
            valid.setdefault(skill, []).append(value)
    means = {skill: fmean(values) for skill, values in valid.items()}
    return tuple(
        None if value is None else (value - means[skill]) * weight for value, skill in zip(raw, skills, strict=True)
    )
