"""`evaluate`: suites opened, preflighted, run or resumed, one log for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.policy import open_policy
from spade_agents.policy.open import Backend
from spade_agents.policy.protocol import Policy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.telemetry import ProgressReporter, open_progress
from spade_evals.endpoints import StrictPolicy, is_endpoint, reach
from spade_evals.log import EvalLog
from spade_evals.runner import RunOptions, make_header, narrowed, run_suite
from spade_evals.suite import Missing, Runtime, Suite
from spade_evals.suites import SuiteOptions, open_suite
from spade_evals.summary import LogSummary, by_reason, some
from spade_evals.types import LogHeader, ModelFacts, Task

__all__ = ["Finished", "RunRequest", "evaluate"]


class Finished(NamedTuple):
    """A log and its summary."""

    log: EvalLog
    summary: LogSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `spade-eval run` was asked for; see its help."""

    model: str
    suites: tuple[str, ...]
    out: Path
    options: RunOptions = field(default_factory=RunOptions)
    user_model: str | None = None
    backend: Backend = "auto"
    vllm: VllmSettings | None = None
    data: Path | None = None
    protocol: str | None = None
    seed: int = 0
    draw: int = 0
    seconds: float = 600.0
    resume: bool = False
    allow_missing: bool = False


class _Planned(NamedTuple):
    suite: Suite
    log: EvalLog
    tasks: tuple[Task, ...]
    header: LogHeader


async def evaluate(request: RunRequest) -> tuple[Finished, ...]:
    """Run every suite on one model.

    All suites are planned, and the model is opened, before the first token is spent.

    Raises:
        UsageError: an unknown suite or model, or a log that is in the way or does not fit.
        InfrastructureError: something that a suite needs is missing (without `allow_missing`); no log is made.
    """
    _refuse_idle_backend(request)
    async with AsyncExitStack() as stack:
        suites = [await stack.enter_async_context(aclosing(_opened(name, request))) for name in request.suites]
        missing = [tuple(suite.preflight()) for suite in suites]
        _refuse_missing(suites, missing, request)
        policy = await _policy(request.model, request, stack)
        user = policy if request.user_model == request.model else None
        if user is None and request.user_model is not None:
            user = await _policy(request.user_model, request, stack)
        places = _places(request)
        planned = [
            _plan(suite, lacks, place, request, policy, user)
            for suite, lacks, place in zip(suites, missing, places, strict=True)
        ]
        runtime = Runtime(policy=policy, user=user, seed=request.seed, draw=request.draw, seconds=request.seconds)
        await stack.enter_async_context(aclosing(runtime))
        progress = stack.enter_context(open_progress())
        return tuple([await _run(plan, runtime, request, progress) for plan in planned])


async def _policy(target: str, request: RunRequest, stack: AsyncExitStack) -> Policy:
    opened = open_policy(target, backend=request.backend, vllm=request.vllm)
    if not is_endpoint(target):
        return await stack.enter_async_context(opened)
    await reach(target)
    return StrictPolicy(await stack.enter_async_context(opened))


def _refuse_idle_backend(request: RunRequest) -> None:
    targets = [target for target in (request.model, request.user_model) if target is not None]
    if request.backend != "auto" and all(is_endpoint(target) or target.startswith("scripted:") for target in targets):
        raise UsageError(
            f"--backend {request.backend} runs checkpoints, and --model {request.model} is none; leave --backend out"
        )


async def _run(plan: _Planned, runtime: Runtime, request: RunRequest, progress: ProgressReporter) -> Finished:
    log = EvalLog(plan.log.path) if request.resume else EvalLog.create(plan.log.path, plan.header)
    log.write_header(plan.header)
    summary = await run_suite(plan.suite, log, plan.tasks, runtime, options=request.options, progress=progress)
    return Finished(log, summary)


def _opened(name: str, request: RunRequest) -> Suite:
    suite = open_suite(
        name,
        SuiteOptions(
            model=request.model,
            user_model=request.user_model,
            data=request.data,
            protocol=request.protocol,
            seed=request.seed,
        ),
    )
    suite.columns = {column: narrowed(settings, request.options) for column, settings in suite.columns.items()}
    return suite


def _refuse_missing(suites: Sequence[Suite], missing: Sequence[Sequence[Missing]], request: RunRequest) -> None:
    lines = [
        f"{suite.name}{'' if len(columns) == len(suite.columns) > 1 else f', {some(columns)}'}: {what}"
        for suite, lacks in zip(suites, missing, strict=True)
        for what, columns in by_reason({lack.column: lack.what for lack in lacks}).items()
    ]
    if lines and not request.allow_missing:
        told = "\n  ".join(lines)
        raise InfrastructureError(
            f"what these suites need is not all here, and nothing was run:\n  {told}\n--allow-missing runs the rest"
        )


def _places(request: RunRequest) -> list[Path]:
    """The log's folder; with several suites one below it for each, named after the suite."""
    if len(request.suites) == 1:
        return [request.out]
    names = [re.sub(r"[^\w.-]+", "-", name).strip("-") for name in request.suites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"the suites {request.suites} would share the folder {twice[0]}; run them one by one")
    return [request.out / name for name in names]


def _plan(
    suite: Suite, missing: Sequence[Missing], place: Path, request: RunRequest, policy: Policy, user: Policy | None
) -> _Planned:
    lacking = {lack.column for lack in missing}
    data = suite.load([name for name in suite.columns if name not in lacking])
    tasks = tuple(task for name in suite.columns for task in _first(data.tasks, name, request.options.limit))
    header = make_header(
        suite,
        data,
        tasks,
        model=_facts(request.model, policy),
        user_model=_facts(request.user_model, user) if request.user_model and user else None,
        seed=request.seed,
        draw=request.draw,
        options=request.options,
        missing=missing,
    )
    log = EvalLog(place)
    if request.resume:
        header = _continued(log, header)
    elif place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(f"{place} exists; give another --out, or --resume to go on with that log")
    return _Planned(suite, log, tasks, header)


def _first(tasks: Sequence[Task], column: str, limit: int | None) -> Sequence[Task]:
    return [task for task in tasks if task.column == column][:limit]


def _facts(target: str, policy: Policy) -> ModelFacts:
    info = policy.info
    return ModelFacts(target=target, name=info.name, context_length=info.context_length, backend=info.backend)


def _continued(log: EvalLog, header: LogHeader) -> LogHeader:
    """The header to go on with: everything that decides a score must be as it was; columns may be added.

    Raises:
        UsageError: something differs.
    """
    old = log.header()
    for name in ("suite", "grading", "protocol", "seed", "draw", "limit", "weights"):
        if getattr(old, name) != getattr(header, name):
            _differs(log, name, getattr(old, name), getattr(header, name))
    if old.model != header.model or old.user_model != header.user_model:
        _differs(log, "model", (old.model, old.user_model), (header.model, header.user_model))
    for name in ("columns", "asked", "data"):
        before, now = getattr(old, name), getattr(header, name)
        for key in before:
            if key not in now or before[key] != now[key]:
                _differs(log, f"{name}.{key}", before[key], now.get(key))
    return replace(header, created=old.created)


def _differs(log: EvalLog, name: str, old: object, new: object) -> None:
    raise UsageError(
        f"{log.path} was made with {name} = {old}, found {new}; resume with the same settings, or give another --out"
    )
