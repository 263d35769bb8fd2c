"""RayRuntime: the same parts of a run, in the processes of a Ray cluster."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.runtime.cluster import Joined, joined
from spade_agents.runtime.local import LocalRuntime, Runtime
from spade_agents.runtime.ranks import RemoteEngine, TrainingRank
from spade_agents.runtime.sampling import SamplingEngine, remote_policy
from spade_agents.runtime.sandboxes import EpisodeWorker, RemoteSandbox
from spade_agents.runtime.settings import Part, RayTable, RuntimeTable, parts_of
from spade_agents.training import EngineConfig, TrainingEngine
from spade_environments.sandbox import Sandbox, SandboxSettings

__all__ = ["RayRuntime", "open_runtime"]

_CLOSE_SECONDS = 20.0


class RayRuntime:
    """A `Runtime` in a joined cluster.

    Args:
        table: settings.
        cluster: with the run's placement group.
        parts: that were placed.
        level: of the sandbox, which every machine must hold.
        beside: an existing folder on the disk on which the run lies.
        tolerance: see `RemotePolicy`.
    """

    def __init__(
        self, table: RayTable, cluster: Joined, parts: Sequence[Part], *, level: str, beside: Path, tolerance: float
    ) -> None:
        self._table, self._cluster, self._level, self._beside = table, cluster, level, beside
        self._parts = {part.name: (number, part) for number, part in enumerate(parts)}
        self._tolerance = tolerance
        self._lost: Counter[str] = Counter()

    def engine(self, config: EngineConfig, folder: Path) -> TrainingEngine:
        """The engine over its training processes; a lost one ends the run."""
        ranks = self._started("training rank", TrainingRank, restarts=0)
        with tempfile.NamedTemporaryFile(dir=self._beside, prefix=".spade-", suffix=".shared") as shared:
            return RemoteEngine(ranks, config, folder, Path(shared.name), seconds=self._table.start_seconds)

    @asynccontextmanager
    async def sandbox(self, settings: SandboxSettings) -> AsyncIterator[Sandbox]:
        """A sandbox over the workers; without workers the local one."""
        if not self._table.workers:
            async with LocalRuntime().sandbox(settings) as sandbox:
                yield sandbox
            return
        handles = self._started("environment worker", EpisodeWorker, settings, restarts=self._table.restarts)
        remote = RemoteSandbox(
            handles, level=self._level, limits=settings.limits, lost=self._counted("environment worker")
        )
        async with _closing(handles):
            await remote.start()
            yield remote

    @asynccontextmanager
    async def policy(self, folder: Path, vllm: VllmSettings | None) -> AsyncIterator[Any]:
        """The policy over its engines; without engines the local one."""
        if not self._table.engines:
            async with LocalRuntime().policy(folder, vllm) as policy:
                yield policy
            return
        handles = self._started("sampler", SamplingEngine, str(folder), vllm, restarts=self._table.restarts)
        async with _closing(handles):
            yield await remote_policy(handles, folder, tolerance=self._tolerance, lost=self._counted("sampler"))

    def take_losses(self) -> Mapping[str, int]:
        taken = dict(self._lost)
        self._lost.clear()
        return taken

    def _started(self, name: str, kind: type, *arguments: Any, restarts: int) -> list[Any]:
        number, part = self._parts[name]
        return self._cluster.start(number, kind, part, arguments, restarts=restarts)

    def _counted(self, name: str) -> Callable[[], None]:
        return lambda: self._lost.update([name])


@contextmanager
def open_runtime(
    table: RuntimeTable,
    *,
    device: str,
    vllm: VllmSettings | None,
    level: str,
    beside: Path,
    tolerance: float,
) -> Iterator[Runtime]:
    """What a run is opened on; everything that was started for it ends with the block.

    Args:
        table: which runtime, and its settings.
        device: of the training engine.
        vllm: settings of the server that samples, or `None`.
        level: of the sandbox here.
        beside: the run's folder, or the place that it will have.
        tolerance: mean difference of log-probabilities between two samplers that is rounding.

    Raises:
        UsageError: ray is not installed, or no cluster is there.
        InfrastructureError: the cluster has no room.
    """
    if not isinstance(table, RayTable):
        yield LocalRuntime()
        return
    parts = parts_of(table, device=device, served=vllm is not None)
    there = next(folder for folder in (beside.absolute(), *beside.absolute().parents) if folder.is_dir())
    with joined(table, parts) as cluster:
        yield RayRuntime(table, cluster, parts, level=level, beside=there, tolerance=tolerance)


@asynccontextmanager
async def _closing(handles: Sequence[Any]) -> AsyncIterator[None]:
    """Let remote objects end what they started, then end them; a lost one has nothing left to end."""
    import ray

    try:
        yield
    finally:
        ray.wait([handle.close.remote() for handle in handles], num_returns=len(handles), timeout=_CLOSE_SECONDS)
        for handle in handles:
            ray.kill(handle)
