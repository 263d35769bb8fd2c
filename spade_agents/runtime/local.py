"""What a run is opened on, and the usual answer: this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from spade_agents.policy import open_policy
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.training import EngineConfig, TrainingEngine, open_engine
from spade_environments.sandbox import Sandbox, SandboxSettings, open_sandbox

__all__ = ["LocalRuntime", "Runtime"]


class Runtime(Protocol):
    """Opens what a run works with; where it runs is nobody else's business."""

    def engine(self, config: EngineConfig, folder: Path) -> TrainingEngine:
        """See `open_engine`."""
        ...

    def sandbox(self, settings: SandboxSettings) -> AbstractAsyncContextManager[Sandbox]:
        """See `open_sandbox`."""
        ...

    def policy(self, folder: Path, vllm: VllmSettings | None) -> AbstractAsyncContextManager[Any]:
        """The policy in training, over vLLM or in process; see `open_policy`."""
        ...

    def take_losses(self) -> Mapping[str, int]:
        """Processes lost and started again since the last call, by kind."""
        ...


class LocalRuntime:
    """This process and its children."""

    def engine(self, config: EngineConfig, folder: Path) -> TrainingEngine:
        return open_engine(config, folder)

    def sandbox(self, settings: SandboxSettings) -> AbstractAsyncContextManager[Sandbox]:
        return open_sandbox(settings)

    def policy(self, folder: Path, vllm: VllmSettings | None) -> AbstractAsyncContextManager[Any]:
        return open_policy(str(folder), backend="vllm" if vllm else "auto", vllm=vllm)

    def take_losses(self) -> Mapping[str, int]:
        return {}
