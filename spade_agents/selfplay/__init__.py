"""Self-play: the loop, its settings, its state, and the runs it leaves on disk."""

from __future__ import annotations

from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.selfplay.pool_designer import PoolDesigned, design_pool
from spade_agents.selfplay.run import RunResult, resume, train
from spade_agents.selfplay.settings import RunSettings

__all__ = ["PoolDesignSettings", "PoolDesigned", "RunResult", "RunSettings", "design_pool", "resume", "train"]
