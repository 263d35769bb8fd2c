"""Playing: one episode, groups of them, and what an evaluation returns."""

from __future__ import annotations

from spade_agents.rollout.evaluation import EvalSummary, Evaluator, PartSummary
from spade_agents.rollout.groups import GroupRequest, PlaySettings, play_group, play_groups
from spade_agents.rollout.rollout import play, prompt_style
from spade_agents.rollout.transport import Transport, open_transport

__all__ = [
    "EvalSummary",
    "Evaluator",
    "GroupRequest",
    "PartSummary",
    "PlaySettings",
    "Transport",
    "open_transport",
    "play",
    "play_group",
    "play_groups",
    "prompt_style",
]
