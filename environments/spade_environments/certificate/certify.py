"""certify: run the gates in order and say what was found."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import platform
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from spade_environments.faults import SandboxFault
from spade_environments.spec import EnvironmentSpec

from .findings import Rejection, Unproven, fault_evidence, fault_repair, is_ours
from .floor import floor_gate
from .gates import determinism_gate, lint_gate, load_gate, novelty_gate, reset_gate
from .leak import leak_gate
from .novelty import Admission, Novelty
from .robustness import robustness_gate
from .solving import goals_gate, gold_gate
from .trial import Trial
from .types import DEFAULT_SETTINGS, Certificate, CertificateSettings, Gate, GateResult, GateStatus, Verdict

if TYPE_CHECKING:
    from spade_environments.sandbox import Sandbox

__all__ = ["GATES", "certify", "certify_many", "run_gates", "versions"]

GateFunction = Callable[[Trial], Awaitable[str]]

GATES: Mapping[Gate, GateFunction] = MappingProxyType(
    {
        Gate.LINT: lint_gate,
        Gate.LOAD: load_gate,
        Gate.RESET: reset_gate,
        Gate.DETERMINISM: determinism_gate,
        Gate.GOALS: goals_gate,
        Gate.GOLD: gold_gate,
        Gate.FLOOR: floor_gate,
        Gate.ROBUSTNESS: robustness_gate,
        Gate.LEAK: leak_gate,
        Gate.NOVELTY: novelty_gate,
    }
)
"""Each gate returns its evidence, or raises `Rejection`, `Unproven` or a fault."""

_VERDICTS = {
    GateStatus.FAILED: Verdict.REJECTED,
    GateStatus.UNPROVEN: Verdict.UNPROVEN,
    GateStatus.UNDECIDED: Verdict.UNDECIDED,
}


async def certify(
    spec: EnvironmentSpec,
    sandbox: Sandbox,
    *,
    settings: CertificateSettings = DEFAULT_SETTINGS,
    novelty: Novelty | Admission | None = None,
    gates: Mapping[Gate, GateFunction] = GATES,
) -> Certificate:
    """Prove an environment, gate by gate, inside the sandbox.

    Fails closed: a fault of the environment is a rejection, a fault of ours is `undecided`, and nothing but all gates
    passed is `certified`.

    Args:
        spec: the environment.
        sandbox: an open sandbox; at most three children of it are alive at a time.
        settings: seeds and gates.
        novelty: the admission rule of gate 10, which runs only with one.
        gates: the functions behind the gates, in order.
    """
    names = [gate for gate in gates if gate in settings.gates and (gate is not Gate.NOVELTY or novelty is not None)]
    started = time.perf_counter()
    trial = Trial.of(spec, sandbox, settings, novelty)
    results = await run_gates(trial, {name: gates[name] for name in names})
    statuses = [result.status for result in results]
    return Certificate(
        spec_id=spec.id,
        name=spec.name,
        verdict=next((_VERDICTS[status] for status in statuses if status in _VERDICTS), Verdict.CERTIFIED),
        gates=results,
        settings=settings,
        seeds=trial.seeds,
        gold_lengths=tuple(len(trial.gold[seed]) for seed in trial.seeds if seed in trial.gold),
        sandbox_level=str(sandbox.level),
        limits=sandbox.limits,
        seconds=round(time.perf_counter() - started, 6),
        versions=versions(),
    )


async def certify_many(
    specs: Sequence[EnvironmentSpec],
    sandbox: Sandbox,
    *,
    settings: CertificateSettings = DEFAULT_SETTINGS,
    novelty: Novelty | Admission | None = None,
    jobs: int = 4,
    report: Callable[[Certificate], None] | None = None,
) -> tuple[Certificate, ...]:
    """Certify several, at most `jobs` at a time; the certificates come in the order of `specs`.

    `report` is called with each certificate as soon as it is there.
    """
    places = asyncio.Semaphore(jobs)

    async def one(spec: EnvironmentSpec) -> Certificate:
        async with places:
            certificate = await certify(spec, sandbox, settings=settings, novelty=novelty)
        if report is not None:
            report(certificate)
        return certificate

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(spec)) for spec in specs]
    return tuple(task.result() for task in tasks)


async def run_gates(trial: Trial, gates: Mapping[Gate, GateFunction]) -> tuple[GateResult, ...]:
    """Run gates until one does not pass; the rest are `not_run`. The trial's children are closed."""
    results: list[GateResult] = []
    try:
        for name, gate in gates.items():
            if results and results[-1].status is not GateStatus.PASSED:
                results.append(GateResult(gate=name, status=GateStatus.NOT_RUN))
            else:
                results.append(await _run(name, gate, trial))
    except BaseException:  # only a cancellation passes `_run`
        await trial.children.aclose()
        raise
    try:
        await trial.children.aclose()
    except SandboxFault as fault:
        if all(result.status is GateStatus.PASSED for result in results):
            last = results[-1]
            results[-1] = GateResult(gate=last.gate, status=GateStatus.UNDECIDED, evidence=fault_evidence(fault))
    return tuple(results)


async def _run(name: Gate, gate: GateFunction, trial: Trial) -> GateResult:
    """One gate as a result: the boundary at which faults and errors become findings."""
    started = time.perf_counter()
    status, evidence, repair = GateStatus.PASSED, "", ""
    try:
        async with asyncio.timeout(trial.settings.seconds):
            evidence = await gate(trial)
    except Rejection as rejection:
        status, evidence, repair = GateStatus.FAILED, rejection.evidence, rejection.repair
    except Unproven as unproven:
        status, evidence = GateStatus.UNPROVEN, str(unproven)
    except SandboxFault as fault:
        status, evidence = GateStatus.UNDECIDED, fault_evidence(fault)
        if not is_ours(fault):
            status, repair = GateStatus.FAILED, f"{evidence}. {fault_repair(fault)}"
    except TimeoutError as error:
        told = str(error) or f"the gate did not end within {trial.settings.seconds:g} s"
        status, evidence = GateStatus.UNDECIDED, f"TimeoutError: {told}"
    except Exception as error:
        # Ours, whatever it is: the environment must neither profit from it nor be blamed for it.
        status, evidence = GateStatus.UNDECIDED, f"{type(error).__name__}: {error}"
    seconds = round(time.perf_counter() - started, 6)
    return GateResult(gate=name, status=status, evidence=evidence, repair=repair, seconds=seconds)


@functools.cache
def _package_version() -> str:
    return importlib.metadata.version("spade-agents")


def versions() -> dict[str, str]:
    """Versions that a certificate was made under."""
    return {"python": platform.python_version(), "spade-agents": _package_version()}
