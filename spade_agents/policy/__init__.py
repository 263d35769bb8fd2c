"""Policies: what continues conversations. Nothing here imports torch until a torch policy is opened."""

from __future__ import annotations

from spade_agents.policy.open import backend_named, model_folder, models_folder, open_policy
from spade_agents.policy.protocol import Policy, PolicyInfo, Sampling
from spade_agents.policy.scripted import Respond, ScriptedPolicy

__all__ = [
    "Policy",
    "PolicyInfo",
    "Respond",
    "Sampling",
    "ScriptedPolicy",
    "backend_named",
    "model_folder",
    "models_folder",
    "open_policy",
]
