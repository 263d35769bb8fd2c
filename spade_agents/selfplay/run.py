"""Starting and resuming runs: what the command line and the Python quickstart call."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from spade_agents.designer.corpus import Corpus, builtin_corpus, load_corpus
from spade_agents.designer.memory import Memory
from spade_agents.errors import ConfigurationError
from spade_agents.policy.protocol import Policy
from spade_agents.rollout import Evaluator
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.loop import StopRequest, run_loop
from spade_agents.selfplay.pool import pool_specs
from spade_agents.selfplay.resources import Replay, Resources
from spade_agents.selfplay.run_directory import RunDirectory, refuse_existing
from spade_agents.selfplay.settings import FrontierPool, FrozenDesigner, RunSettings, StaticPool, SupervisedReplay
from spade_agents.selfplay.state import LoopState
from spade_agents.settings import load_settings
from spade_agents.telemetry import ProgressReporter, SilentReporter
from spade_agents.training.engine import TrainingEngine, open_engine
from spade_environments import EnvironmentSpec
from spade_environments.certificate import NoveltyIndex
from spade_environments.sandbox import Sandbox, open_sandbox

__all__ = ["RunResult", "open_corpus", "resume", "train"]


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
        return [row for row in self.rows if row["kind"] == "evaluation"]


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
        UsageError: the directory exists, or model, corpus or pool are missing; nothing was written.
    """
    chosen = settings if isinstance(settings, RunSettings) else load_settings(RunSettings, settings, overrides)
    path, told = Path(out), progress or SilentReporter()
    # Every process checks this before it joins the engine's group, so none can see what the first one makes after it.
    refuse_existing(path)

    async def start(parts: Parts) -> RunResult:
        async with _opened(chosen, parts, told, lambda level: RunDirectory.create(path, chosen, level)) as resources:
            return await _run(resources, LoopState())

    return _driven(chosen, path, start)


def resume(run: Path | str, *, progress: ProgressReporter | None = None) -> RunResult:
    """Go on with a run from its newest checkpoint: the same next batch as if it had not been stopped.

    Raises:
        UsageError: no run there.
        CheckpointError: no finished checkpoint, or a corrupt one.
    """
    directory, told = RunDirectory.open(Path(run)), progress or SilentReporter()
    settings, checkpoint = directory.settings, newest_stable(directory.checkpoints)

    async def go_on(parts: Parts) -> RunResult:
        async with _opened(settings, parts, told, lambda _: directory) as resources:
            return await _run(resources, resources.load(checkpoint))

    return _driven(settings, directory.path, go_on)


class Parts(NamedTuple):
    """What a run needs beside sandbox and policies; everything that a wrong setting can spoil."""

    engine: TrainingEngine
    start: Path
    corpus: Corpus | None
    fixed_pool: tuple[EnvironmentSpec, ...]
    replay: Replay | None


def _driven(settings: RunSettings, path: Path, drive: Callable[[Parts], Coroutine[Any, Any, RunResult]]) -> RunResult:
    """Open the engine; its first process drives the loop, the others follow until it closes."""
    from spade_agents.policy import model_folder

    pool = settings.selfplay.pool
    fixed = pool_specs(pool.source) if isinstance(pool, StaticPool | FrontierPool) else ()
    start = model_folder(settings.model.start)
    corpus, replay = open_corpus(settings), _replay(settings, start)
    engine = open_engine(settings.training.engine, start)
    try:
        if engine.rank > 0:
            engine.follow()
            return RunResult(path=path, finished=True, rollouts=settings.run.rollouts, leads=False)
        return asyncio.run(drive(Parts(engine, start, corpus, fixed, replay)))
    finally:
        engine.close()


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
    settings: RunSettings, parts: Parts, progress: ProgressReporter, directory: Callable[[str], RunDirectory]
) -> AsyncIterator[Resources]:
    """Open everything else a run needs, the run directory last, so that a wrong setting leaves nothing behind."""
    from spade_agents.policy import open_policy

    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(open_sandbox(settings.sandbox))
        evaluator = _evaluator(settings, sandbox)
        policy = await stack.enter_async_context(open_policy(str(parts.start)))
        designer: Policy = policy
        if isinstance(settings.designer.policy, FrozenDesigner):
            target = settings.designer.policy.target or str(parts.start)
            designer = await stack.enter_async_context(open_policy(target))
        yield Resources(
            settings=settings,
            directory=directory(sandbox.level),
            policy=policy,
            designer=designer,
            engine=parts.engine,
            sandbox=sandbox,
            memory=Memory(settings=settings.designer.memory),
            progress=progress,
            corpus=parts.corpus,
            novelty=NoveltyIndex(threshold=settings.novelty.threshold) if settings.novelty.enabled else None,
            fixed_pool=parts.fixed_pool,
            evaluator=evaluator,
            replay=parts.replay,
        )


def open_corpus(settings: RunSettings) -> Corpus | None:
    """The corpus that the settings name, or `None` where they name none."""
    match settings.designer.corpus:
        case "none":
            return None
        case "builtin":
            return builtin_corpus(seed=settings.run.seed)
        case path:
            return load_corpus(Path(path), seed=settings.run.seed)


def _replay(settings: RunSettings, start: Path) -> Replay | None:
    table = settings.training.replay
    if not isinstance(table, SupervisedReplay):
        return None
    replay: Replay = named(table.source, "training.replay.source")(start)
    return replay


def _evaluator(settings: RunSettings, sandbox: Sandbox) -> Evaluator | None:
    if settings.evaluation.evaluator == "none":
        return None
    factory = named(settings.evaluation.evaluator, "evaluation.evaluator")
    evaluator: Evaluator = factory(settings.evaluation, sandbox)
    return evaluator


def named(path: str, key: str) -> Any:
    """What `package.module:name` names; imported only now, so that rooms above this one can be configured.

    Raises:
        ConfigurationError: no such module or name.
    """
    module, separator, name = path.partition(":")
    if not separator:
        raise ConfigurationError(f"{key} is {path!r}; wanted package.module:name")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{key} is {path!r}, which cannot be imported: {error}") from error
