"""Before a run: what a wrong setting, a missing file or a weak sandbox would spoil, checked and told at once."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from spade_agents.designer.corpus import Corpus, corpus_named
from spade_agents.errors import CheckpointError, ConfigurationError, UsageError
from spade_agents.policy.shape import KNOWN_MODELS
from spade_agents.rollout import Evaluator, OwnEnvironment
from spade_agents.runtime import RayTable
from spade_agents.selfplay.checkpoint import Checkpoint, newest_stable, stable
from spade_agents.selfplay.early_stop import is_over
from spade_agents.selfplay.pool import trainable_specs
from spade_agents.selfplay.readiness import Machine, machine_faults, this_machine
from spade_agents.selfplay.resources import Replay
from spade_agents.selfplay.run_directory import draft_of, refuse_existing
from spade_agents.selfplay.settings import (
    FrontierPool,
    FrozenDesigner,
    OwnPool,
    RunSettings,
    StaticPool,
    SupervisedReplay,
)
from spade_agents.selfplay.state import LoopState
from spade_agents.settings import changed_keys, load_settings
from spade_environments import EnvironmentSpec, HostFault
from spade_environments.sandbox import InlineSandboxSettings, Sandbox, open_sandbox
from spade_environments.sandbox.levels import DEGRADED, level_named
from spade_environments.sandbox.probe import ProbeReport, probe

__all__ = [
    "Examined",
    "Parts",
    "check_out",
    "continued_from",
    "examine",
    "make_evaluator",
    "open_corpus",
    "prepare",
    "same_settings",
    "shut_in",
    "told_level",
]


class Parts(NamedTuple):
    """What a run needs beside engine, policies and the open sandbox: all of it read, none of it written."""

    start: Path
    corpus: Corpus | None
    fixed_pool: tuple[EnvironmentSpec, ...]
    replay: Replay | None
    sandbox: ProbeReport
    own: tuple[OwnEnvironment, ...] = ()


def prepare(settings: RunSettings, out: Path | None = None) -> Parts:
    """Check all that a run needs before anything is opened or written.

    Args:
        settings: of the run.
        out: the run directory to make; `None` for a run that is there already.

    Raises:
        UsageError: what is missing or unfit; where several things are, all of them, one a line.
        HostFault: the sandbox does not come up here.
    """
    found = examine(settings, out)
    if isinstance(found.sandbox, HostFault):
        raise found.sandbox
    if len(found.faults) == 1:
        raise found.faults[0]
    if found.faults or found.parts is None:
        raise UsageError("\n".join(["this run cannot start:", *(f"- {fault}" for fault in found.faults)]))
    return found.parts


class Examined(NamedTuple):
    """What was found when everything was looked at: the parts, where nothing is wrong, or all that is."""

    parts: Parts | None
    faults: tuple[UsageError, ...]
    sandbox: ProbeReport | HostFault | None


def examine(settings: RunSettings, out: Path | None = None, machine: Machine | None = None) -> Examined:
    """Look at all that a run needs, whatever of it is missing; as `prepare`, on a machine that may be known already."""
    faults: list[UsageError] = []

    def tried(check: Callable[[], Any]) -> Any:
        try:
            return check()
        except UsageError as error:
            faults.append(error)

    if out is not None:
        tried(lambda: check_out(out))
    start = tried(lambda: _start(settings))
    corpus = tried(lambda: open_corpus(settings))
    own = tried(lambda: _own_environments(settings)) or ()
    fixed_pool = tuple(environment.spec for environment in own) or tried(lambda: _fixed_pool(settings))
    replay = tried(lambda: _replay(settings, start)) if start is not None else None
    tried(lambda: _designer(settings))
    faults += machine_faults(settings, machine or this_machine(settings, out))
    sandbox: ProbeReport | HostFault | None = None
    try:
        sandbox = asyncio.run(_probed(settings))
        shut_in(settings, sandbox)
        asyncio.run(_with_evaluator(settings))
    except UsageError as error:
        faults.append(error)
    except HostFault as fault:
        sandbox = fault
    if faults or not isinstance(sandbox, ProbeReport):
        return Examined(None, tuple(faults), sandbox)
    return Examined(Parts(start, corpus, fixed_pool, replay, sandbox, own), (), sandbox)


MAY_CHANGE = frozenset(
    {
        "run.rollouts",
        "run.checkpoint_every",
        "run.keep_checkpoints",
        "run.early_stop.type",
        "run.early_stop.part",
        "run.early_stop.patience",
        "run.early_stop.min_gain",
        "selfplay.play.seconds",
        "selfplay.play.concurrency",
        "evaluation.play.seconds",
        "evaluation.play.concurrency",
        "evaluation.every",
        "sandbox.allow_degraded",
        "sandbox.layers",
        "metrics.tracker.type",
        "metrics.tracker.project",
        "metrics.tracker.entity",
        "metrics.tracker.mode",
        "metrics.tracker.space",
        "rollout.transport",
        *(f"runtime.{key}" for key in ("type", *RayTable.model_fields) if key != "ranks"),
    }
)
"""What a run may be resumed with another value of: none of it decides a batch."""


def same_settings(saved: Checkpoint, settings: RunSettings) -> None:
    """See that a run goes on under the settings that its checkpoint was made under.

    Raises:
        ConfigurationError: something that decides the next batches was changed.
        CheckpointError: the checkpoint holds no readable configuration.
    """
    saved.read(saved.config)
    changed = changed_keys(load_settings(RunSettings, saved.config), settings)
    told = [f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items() if key not in MAY_CHANGE]
    if told:
        raise ConfigurationError(
            f"the configuration was changed since {saved.path}: {'; '.join(told)}. A run goes on to the same next "
            "batch, so put that back in its config.toml, or start another run from this one by model.start=RUN"
        )


def continued_from(folder: Path, settings: RunSettings) -> Checkpoint:
    """The checkpoint that a run goes on from, verified: its newest one.

    Where a finished run is to be longer, that is the one from before its last update, so that it becomes the run that
    it would have been, had it been that long from the start.

    Raises:
        CheckpointError: no finished checkpoint, or none to lengthen the run from.
    """
    newest = newest_stable(folder)
    state = LoopState.from_json(newest.read(newest.state))
    if not state.finished or is_over(settings, state):
        return newest
    before = stable(folder, newest.number - 1)
    if before is None:
        raise CheckpointError(
            f"the run is finished after {state.rollout} rollouts, and step-{newest.number - 1} from before its last "
            f"update, which a longer run goes on from, is not in {folder}; put it back, or start another run from this "
            "one's model by model.start=RUN"
        )
    return before


def check_out(path: Path) -> None:
    """See that a run directory can be made at `path`, without making it.

    Raises:
        UsageError: there is something already, or its parent cannot be written to.
    """
    try:
        refuse_existing(path)
        draft_of(path).exists()
    except OSError as error:
        raise UsageError(f"the run directory {path} cannot be made: {error.strerror}; give another --out") from error
    parent = next(folder for folder in (*path.absolute().parents,) if os.path.lexists(folder))
    if not parent.is_dir():
        raise UsageError(f"the run directory {path} cannot be made: {parent} is no folder; give another --out")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"the run directory {path} cannot be made: {parent} is read-only; give another --out")


def open_corpus(settings: RunSettings) -> Corpus | None:
    """The corpus that the settings name, or `None` where they name none."""
    return corpus_named(settings.designer.corpus, seed=settings.run.seed)


def make_evaluator(settings: RunSettings, sandbox: Sandbox) -> Evaluator | None:
    """The evaluator that the settings name, over an open sandbox; `None` where nothing is evaluated.

    Raises:
        ConfigurationError: it cannot be imported, or a part of it names nothing.
    """
    if settings.evaluation.evaluator == "none":
        return None
    factory = _named(settings.evaluation.evaluator, "evaluation.evaluator")
    evaluator: Evaluator = factory(settings.evaluation, sandbox)
    return evaluator


def shut_in(settings: RunSettings, found: ProbeReport) -> None:
    """Refuse to train where the kernel does not shut environments in.

    Raises:
        UsageError: level C or D, and the settings do not allow it.
    """
    allowed = isinstance(settings.sandbox, InlineSandboxSettings) or settings.sandbox.allow_degraded
    if found.level in DEGRADED and not allowed:
        raise UsageError(
            f"the sandbox is at level {found.level} here ({level_named(found.level).holds}), and nothing is trained "
            f"below level B: designed programs could {'; '.join(level_named(found.level).not_stopped[2:])}. "
            "`spade doctor` shows what was tried. Train on Linux with seccomp, with both layers in sandbox.layers, or "
            "accept it by sandbox.allow_degraded=true"
        )


def told_level(found: ProbeReport) -> str:
    """What is said at the start of a run at level C, D or `none`; empty at the others."""
    if found.level not in (*DEGRADED, "none"):
        return ""
    level = level_named(found.level)
    lines = [f"The sandbox is at level {level.name}: {level.holds}. Environments can"]
    lines += [f"  - {thing}" for thing in level.not_stopped]
    if found.not_held:
        lines.append(f"Tried here and not stopped: {', '.join(found.not_held)}.")
    return "\n".join(lines)


async def _probed(settings: RunSettings) -> ProbeReport:
    """What the sandbox was seen to stop."""
    if isinstance(settings.sandbox, InlineSandboxSettings):
        return ProbeReport(level="none", attempts=())
    return await probe(settings.sandbox)


async def _with_evaluator(settings: RunSettings) -> None:
    """The evaluator was seen to have its environments."""
    async with open_sandbox(settings.sandbox) as sandbox:
        make_evaluator(settings, sandbox)


def _start(settings: RunSettings) -> Path:
    start = Path(settings.model.start)
    if start.name in KNOWN_MODELS and not start.exists():
        raise UsageError(
            f"the model {start} is not here: fetch it by hf download Qwen/{start.name} --local-dir {start}, or name "
            "another folder by model.start"
        )
    return _whole_model(settings.model.start)


def _whole_model(target: str) -> Path:
    """The folder of a model, which holds a tokenizer and whole weights beside its configuration."""
    from spade_agents.policy import model_folder
    from spade_agents.policy.weights import check_weights

    folder = model_folder(target)
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json; wanted a Hugging Face folder with a fast tokenizer")
    if not any(folder.glob("pytorch_model*.bin")):  # the older form, which only the library that wrote it can check
        check_weights(folder)
    return folder


def _designer(settings: RunSettings) -> None:
    policy = settings.designer.policy
    if not isinstance(policy, FrozenDesigner) or not policy.target:
        return
    if "://" not in policy.target and not policy.target.startswith("scripted:"):
        _whole_model(policy.target)


def _fixed_pool(settings: RunSettings) -> tuple[EnvironmentSpec, ...]:
    pool = settings.selfplay.pool
    return trainable_specs(pool.source) if isinstance(pool, StaticPool | FrontierPool) and not _is_named(pool) else ()


def _is_named(pool: StaticPool | FrontierPool) -> bool:
    """Whether the pool is a function's rather than a folder's."""
    return ":" in pool.source and not Path(pool.source).exists()


def _own_environments(settings: RunSettings) -> tuple[OwnEnvironment, ...]:
    pool = settings.selfplay.pool
    if not (isinstance(pool, OwnPool) or (isinstance(pool, StaticPool | FrontierPool) and _is_named(pool))):
        return ()
    own = tuple(_named(pool.source, "selfplay.pool.source")())
    names = {environment.name for environment in own if isinstance(environment, OwnEnvironment)}
    if not own or len(names) != len(own):
        raise ConfigurationError(
            f"selfplay.pool.source is {pool.source!r}, which gave {len(own)} values and {len(names)} environments of "
            "different names; wanted one OwnEnvironment or more, each with a name of its own"
        )
    return own


def _replay(settings: RunSettings, start: Path) -> Replay | None:
    table = settings.training.replay
    if not isinstance(table, SupervisedReplay):
        return None
    replay: Replay = _named(table.source, "training.replay.source")(start)
    return replay


def _named(path: str, key: str) -> Any:
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
