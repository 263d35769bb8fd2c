"""vLLM as a policy: a server that is started, watched and stopped, or a given one; imports neither vLLM nor torch."""

from __future__ import annotations

from spade_agents.policy.vllm.settings import VllmSettings

__all__ = ["VllmSettings"]
