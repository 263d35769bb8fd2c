"""Rewards as pure functions: regret and regimes, what a design earns, the designer's advantages."""

from __future__ import annotations

from spade_agents.rewards.arms import (
    Regime,
    RegimeThresholds,
    Regret,
    mean_return,
    regime,
    regime_shares,
    regret,
)
from spade_agents.rewards.designer import FixedWeight, RatioWeight, RoleWeight, designer_advantages, role_weight
from spade_agents.rewards.designs import (
    LATE_BAND,
    AnchorOnly,
    Band,
    Blend,
    DesignResult,
    LaterBand,
    LearningPotential,
    RegretOnly,
    RewardConfig,
    ScoredDesigns,
    needs_hinted_plays,
    plateau,
    reward_at,
    scaled_regret,
    score_designs,
)
from spade_agents.rewards.potential import Averages, PotentialState

__all__ = [
    "LATE_BAND",
    "AnchorOnly",
    "Averages",
    "Band",
    "Blend",
    "DesignResult",
    "FixedWeight",
    "LaterBand",
    "LearningPotential",
    "PotentialState",
    "RatioWeight",
    "Regime",
    "RegimeThresholds",
    "Regret",
    "RegretOnly",
    "RewardConfig",
    "RoleWeight",
    "ScoredDesigns",
    "designer_advantages",
    "mean_return",
    "needs_hinted_plays",
    "plateau",
    "regime",
    "regime_shares",
    "regret",
    "reward_at",
    "role_weight",
    "scaled_regret",
    "score_designs",
]
