"""Playing: one episode, groups of them, and what an evaluation returns."""

from __future__ import annotations

from spade_agents.agent.prompts import prompt_style
from spade_agents.rollout.evaluation import EvalSummary, Evaluator, PartSummary
from spade_agents.rollout.groups import GroupRequest, PlaySettings, play_group, play_groups
from spade_agents.rollout.ledger import Mismatch, TokenRow, mismatch_of, token_ledger
from spade_agents.rollout.outcomes import CallOutcome, call_outcomes
from spade_agents.rollout.oversampling import OverSampling
from spade_agents.rollout.own import OwnEnvironment, WithOwn
from spade_agents.rollout.rollout import play
from spade_agents.rollout.transport import Transport, open_transport

__all__ = [
    "CallOutcome",
    "EvalSummary",
    "Evaluator",
    "GroupRequest",
    "Mismatch",
    "OverSampling",
    "OwnEnvironment",
    "PartSummary",
    "PlaySettings",
    "TokenRow",
    "Transport",
    "WithOwn",
    "call_outcomes",
    "mismatch_of",
    "open_transport",
    "play",
    "play_group",
    "play_groups",
    "prompt_style",
    "token_ledger",
]
