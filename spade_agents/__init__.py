"""SPADE-agents: one language model designs certified environments, acts in them, and is trained on both roles.

The names below are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spade_agents.policy import open_policy
    from spade_agents.rollout import play, play_group
    from spade_agents.selfplay import (
        PoolDesigned,
        PoolDesignSettings,
        RunResult,
        RunSettings,
        design_pool,
        resume,
        train,
    )

__all__ = [
    "PoolDesignSettings",
    "PoolDesigned",
    "RunResult",
    "RunSettings",
    "design_pool",
    "open_policy",
    "play",
    "play_group",
    "resume",
    "train",
]

_HOMES = {
    "open_policy": "spade_agents.policy",
    "play": "spade_agents.rollout",
    "play_group": "spade_agents.rollout",
    "PoolDesignSettings": "spade_agents.selfplay",
    "PoolDesigned": "spade_agents.selfplay",
    "design_pool": "spade_agents.selfplay",
    "RunResult": "spade_agents.selfplay",
    "RunSettings": "spade_agents.selfplay",
    "resume": "spade_agents.selfplay",
    "train": "spade_agents.selfplay",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
