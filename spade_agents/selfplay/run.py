"""Starting and resuming runs: what the command line and the Python quickstart call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spade_agents.designer.memory import Memory
from spade_agents.policy.protocol import Policy
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.rollout import WithOwn, open_transport
from spade_agents.runtime import Runtime, open_runtime
from spade_agents.selfplay.checkpoint import Checkpoint, forget_after
from spade_agents.selfplay.loop import StopRequest, run_loop
from spade_agents.selfplay.preflight import (
    Parts,
    continued_from,
    make_evaluator,
    prepare,
    same_settings,
    told_level,
)
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import FrozenDesigner, RunSettings
from spade_agents.selfplay.state import LoopState
from spade_agents.settings import load_settings
from spade_agents.telemetry import ProgressReporter, SilentReporter
from spade_agents.tracking import Tracker, open_tracker
from spade_agents.training.engine import TrainingEngine
from spade_environments.certificate import NoveltyIndex

__all__ = ["RunResult", "resume", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Where a run stands when control returns.

    Attributes:
        path: of the run directory.
        finished: `False` where it was stopped; `resume(path)` goes on.
        rollouts: done.
        leads: `False` in a process that only followed the engine's first one, which alone tells of the run.
    """

    path: Path
    finished: bool
    rollouts: int
    leads: bool = True

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of metrics."""
        return RunDirectory(self.path).metrics.rows()

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The rows of held-out evaluations, oldest first."""
        return [row for row in self.rows if row.get("kind") == "evaluation"]


def train(
    settings: RunSettings | Path | str | None = None,
    *,
    out: Path | str,
    overrides: Sequence[str] = (),
    progress: ProgressReporter | None = None,
) -> RunResult:
    """Run self-play from a configuration to the end, or until Ctrl-C.

    Args:
        settings: a configuration, or the path of one; without it, the defaults.
        out: the run directory to make; must not exist.
        overrides: `key.path=value`, over a path's or the default settings.
        progress: where progress goes; nowhere by default.

    Raises:
        ConfigurationError: an unknown key or an unfit value.
        UsageError: the directory exists, model, corpus or pool are missing, or the sandbox is too weak here; nothing
            was written.
    """
    chosen = settings if isinstance(settings, RunSettings) else load_settings(RunSettings, settings, overrides)
    path, told = Path(out), progress or SilentReporter()
    # Every process checks this before it joins the engine's group, so none can see what the first one makes after it.
    parts = prepare(chosen, path)

    def make() -> RunDirectory:
        return RunDirectory.create(path, chosen, parts.sandbox.level, parts.sandbox.attempts)

    async def start(runtime: Runtime, engine: TrainingEngine) -> RunResult:
        async with _opened(chosen, runtime, engine, parts, told, make) as resources:
            if isinstance(chosen.sampler, VllmSettings):
                # A server that was given may hold any weights.
                resources.send_weights()
            return await _run(resources, LoopState())

    return _driven(chosen, path, parts, told, start)


def resume(run: Path | str, *, overrides: Sequence[str] = (), progress: ProgressReporter | None = None) -> RunResult:
    """Go on with a run from its newest checkpoint: the same next batch as if it had not been stopped.

    With a larger number of rollouts a finished run goes on too, from before its last update: it becomes the run that it
    would have been with that number from the start, and its last checkpoint is replaced.

    Args:
        run: its directory.
        overrides: `key.path=value` of what does not decide a batch, such as `run.rollouts=48`; kept in the run's
            configuration.
        progress: where progress goes; nowhere by default.

    Raises:
        UsageError: no run there, another process is at work on it, or the sandbox is too weak here.
        ConfigurationError: its configuration was changed in what decides the next batch.
        CheckpointError: no finished checkpoint, or a corrupt one.
    """
    directory, told = RunDirectory.open(Path(run)), progress or SilentReporter()
    settings = load_settings(RunSettings, directory.path / "config.toml", overrides)
    same_settings(continued_from(directory.checkpoints, settings), settings)
    parts = prepare(settings)

    async def go_on(runtime: Runtime, engine: TrainingEngine) -> RunResult:
        async with _opened(settings, runtime, engine, parts, told, lambda: directory) as resources:
            # Looked for again: until the run was locked, another process may have gone on with it.
            state = take_up(resources, continued_from(directory.checkpoints, settings))
            directory.note_resumed(parts.sandbox.level, parts.sandbox.attempts)
            return await _run(resources, state)

    return _driven(settings, directory.path, parts, told, go_on)


def take_up(resources: Resources, saved: Checkpoint) -> LoopState:
    """Everything as it was at a checkpoint; newer ones go, and the run keeps the settings that it is resumed with."""
    resources.directory.change_settings(resources.settings)
    forget_after(resources.directory.checkpoints, saved)
    return resources.load(saved)


def _driven(
    settings: RunSettings,
    path: Path,
    parts: Parts,
    progress: ProgressReporter,
    drive: Callable[[Runtime, TrainingEngine], Coroutine[Any, Any, RunResult]],
) -> RunResult:
    """Open the engine; its first process drives the loop, the others follow until it closes."""
    with _runtime(settings, path, parts) as runtime:
        engine = runtime.engine(settings.training.engine, parts.start)
        try:
            if engine.rank > 0:
                engine.follow()
                return RunResult(path=path, finished=True, rollouts=settings.run.rollouts, leads=False)
            if warning := told_level(parts.sandbox):
                progress.say(warning)
            return asyncio.run(drive(runtime, engine))
        finally:
            engine.close()


def _runtime(settings: RunSettings, path: Path, parts: Parts) -> AbstractContextManager[Runtime]:
    """Where the run's parts run."""
    sampler = settings.sampler
    vllm = sampler if isinstance(sampler, VllmSettings) else None
    return open_runtime(
        settings.runtime,
        device=settings.training.engine.device,
        vllm=vllm,
        level=parts.sandbox.level,
        beside=path,
        tolerance=vllm.tolerance if vllm else settings.training.arrival_tolerance,
    )


async def _run(resources: Resources, state: LoopState) -> RunResult:
    stop = StopRequest()
    with stop.on_interrupt(resources.progress.say):
        state = await run_loop(resources, state, stop)
    path = resources.directory.path
    if not state.finished:
        resources.progress.say(f"Stopped after {state.rollout} rollouts. Go on with: spade train --resume {path}")
    return RunResult(path=path, finished=state.finished, rollouts=state.rollout)


@asynccontextmanager
async def _opened(
    settings: RunSettings,
    runtime: Runtime,
    engine: TrainingEngine,
    parts: Parts,
    progress: ProgressReporter,
    directory: Callable[[], RunDirectory],
) -> AsyncIterator[Resources]:
    """Open everything else a run needs, the run directory last, so that a wrong setting leaves nothing behind."""
    from spade_agents.policy import open_policy

    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(runtime.sandbox(settings.sandbox))
        plays = await stack.enter_async_context(open_transport(settings.rollout.transport, sandbox))
        evaluator = make_evaluator(settings, sandbox)
        vllm = settings.sampler if isinstance(settings.sampler, VllmSettings) else None
        policy = await stack.enter_async_context(runtime.policy(parts.start, vllm))
        designer: Policy = policy
        if isinstance(settings.designer.policy, FrozenDesigner):
            target = settings.designer.policy.target or str(parts.start)
            endpoint = settings.designer.policy.endpoint
            designer = await stack.enter_async_context(open_policy(target, endpoint=endpoint))
        found = directory()
        stack.enter_context(found.locked())
        tracker = stack.enter_context(_tracker(settings, found, progress))
        memory = stack.enter_context(closing(Memory.open(found.memory, settings.designer.memory)))
        yield Resources(
            settings=settings,
            directory=found,
            policy=policy,
            designer=designer,
            engine=engine,
            sandbox=sandbox,
            plays=WithOwn(parts.own, plays),
            memory=memory,
            progress=progress,
            corpus=parts.corpus,
            novelty=NoveltyIndex(threshold=settings.novelty.threshold) if settings.novelty.enabled else None,
            fixed_pool=parts.fixed_pool,
            evaluator=evaluator,
            replay=parts.replay,
            tracker=tracker,
            take_losses=runtime.take_losses,
        )


def _tracker(settings: RunSettings, run: RunDirectory, progress: ProgressReporter) -> AbstractContextManager[Tracker]:
    """What takes the metrics too, under an identity that the run keeps when it is resumed or moved."""
    started = re.sub(r"\W", "", str(run.manifest.get("started", "")))
    return open_tracker(
        settings.metrics.tracker,
        name=settings.run.name,
        identity=started,
        folder=run.path,
        settings=settings.model_dump(mode="json"),
        say=progress.say,
    )
