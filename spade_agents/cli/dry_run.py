"""`spade train --dry-run`: what a run would do, what it needs, and what would stop it, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spade_agents.selfplay import RunSettings
    from spade_agents.selfplay.preflight import Examined
    from spade_agents.selfplay.readiness import Machine, Needs

__all__ = ["dry_run"]

_WIDTH = 12


def dry_run(settings: RunSettings, out: Path, *, as_json: bool) -> bool:
    """Print what was found; whether the run could start.

    Args:
        settings: of the run.
        out: the run directory that would be made.
        as_json: everything, the resolved settings too, as JSON.
    """
    from spade_agents.cli.output import print_json, tell
    from spade_agents.selfplay.preflight import examine
    from spade_agents.selfplay.readiness import needs_of, this_machine

    machine = this_machine(settings, out)
    needs, found = needs_of(settings, machine), examine(settings, out, machine)
    if as_json:
        print_json(_for_a_program(settings, out, needs, found))
    else:
        tell("\n".join(_lines(settings, out, machine, needs, found)))
    return found.parts is not None


def _lines(settings: RunSettings, out: Path, machine: Machine, needs: Needs | None, found: Examined) -> Iterator[str]:
    selfplay, run = settings.selfplay, settings.run
    yield f"{run.name}: a run to be made at {out}; nothing was written"
    yield _line("model", settings.model.start, *_size(needs))
    designer = "by itself" if settings.designer.policy.type == "self" else f"by {settings.designer.policy.type}"
    pool = f"designed {designer}" if selfplay.pool.type == "designed" else f"from a {selfplay.pool.type} pool"
    yield _line(
        "rollouts",
        f"{run.rollouts:,} of {selfplay.environments} environments x {selfplay.plays} plays, {pool}",
        f"a set kept for {selfplay.period}",
        f"reward {settings.reward.type}",
    )
    yield from _work(needs)
    yield from _trainer(settings, needs)
    yield from _memory(settings, machine, needs)
    yield from _disk(machine, needs)
    yield from _cluster(settings, machine)
    yield _line("sampler", settings.sampler.type, *_served(settings))
    yield _line("corpus", settings.designer.corpus, f"{len(settings.designer.skills)} skills")
    yield _line("sandbox", _sandbox(found))
    yield from _verdict(found)


def _size(needs: Needs | None) -> list[str]:
    if needs is None:
        return ["of a size that is not known before it is here"]
    return [f"{needs.parameters / 1e9:.3g} billion parameters", f"context {needs.context:,}"]


def _work(needs: Needs | None) -> Iterator[str]:
    if needs is None:
        return
    counts = needs.counts
    slots = f"{counts.slots:,} environments to design in at most {counts.attempts:,} attempts" if counts.slots else ""
    yield _line("episodes", f"{counts.episodes:,} ({counts.unhinted:,} unhinted, {counts.hinted:,} hinted)", slots)
    yield _line(
        "tokens",
        f"at most {_count(counts.play_tokens)} sampled in plays",
        f"{_count(counts.design_tokens)} in designs",
        f"{_count(counts.rollout_tokens)} trained on in one update",
    )


def _trainer(settings: RunSettings, needs: Needs | None) -> Iterator[str]:
    engine = settings.training.engine
    stage = f" ZeRO-{engine.zero_stage}" if engine.type == "deepspeed" else ""
    yield _line(
        "trainer",
        f"{engine.type}{stage}, {engine.precision.value}",
        f"{needs.ranks if needs else settings.runtime.ranks or 1} x {engine.device}",
        f"LoRA of rank {engine.lora.rank}" if engine.lora else "",
        f"learning rate {engine.optimizer.learning_rate:g}",
        f"KL {engine.loss.kl_coefficient:g}",
    )


def _served(settings: RunSettings) -> list[str]:
    sampler = settings.sampler
    if sampler.type == "torch":
        return [f"{settings.selfplay.play.concurrency} plays at once"]
    where = sampler.url or f"{sampler.placement}, {sampler.memory_share:.0%} of a device"
    return [where, f"{settings.selfplay.play.concurrency} plays at once"]


def _memory(settings: RunSettings, machine: Machine, needs: Needs | None) -> Iterator[str]:
    """What each training process holds, and what there is for it."""
    if needs is None:
        return
    from spade_agents.selfplay.estimate import smallest_ranks
    from spade_agents.selfplay.readiness import gib

    memory, engine = needs.memory, settings.training.engine
    parts = ("weights", "gradients", "optimizer", "reference", "activations", "gathered")
    held = ", ".join(f"{name} {gib(getattr(memory, name))}" for name in parts if getattr(memory, name))
    offloaded = f"and {gib(memory.host)} of the host's" if memory.host else ""
    yield _line("memory", f"{gib(memory.total)} a training process: {held}", offloaded)
    if engine.device.partition(":")[0] == "cpu":
        yield _line("", f"with the sampler's copy {gib(needs.host)} in all; this machine has {gib(machine.memory)}")
        return
    fits = {size: smallest_ranks(engine, needs.shape, needs.parameters, size * 1024**3) for size in (24, 80, 141)}
    told = ", ".join(f"{size} GiB: {count or 'never'}" for size, count in fits.items())
    there = ", ".join(f"{device.name} ({gib(device.memory)})" for device in machine.devices) or "none"
    found = "" if machine.cluster is not None else f"found here: {there}"
    yield _line("", f"processes that it fits on, by memory of a device: {told}", found)


def _disk(machine: Machine, needs: Needs | None) -> Iterator[str]:
    if needs is None or machine.disk is None:
        return
    from spade_agents.selfplay.readiness import gib

    disk = needs.disk
    yield _line(
        "disk",
        f"{gib(disk.checkpoints)} of checkpoints ({gib(disk.checkpoint)} each)",
        f"plays at most {gib(disk.plays)}",
        f"free {gib(machine.disk)}",
    )


def _cluster(settings: RunSettings, machine: Machine) -> Iterator[str]:
    """What a run on Ray asks the cluster for, and what that has."""
    if settings.runtime.type != "ray" or machine.cluster is None:
        return
    from spade_agents.runtime import Unreachable, total
    from spade_agents.selfplay.readiness import cluster_parts

    parts = cluster_parts(settings)
    cpus, gpus = total(parts)
    yield _line("ray", *map(str, parts), f"in all {cpus:g} CPU and {gpus:g} GPU")
    there = "not reachable" if isinstance(machine.cluster, Unreachable) else str(machine.cluster)
    yield _line("", f"cluster at {settings.runtime.address}: {there}")


def _sandbox(found: Examined) -> str:
    from spade_environments.sandbox.levels import level_named
    from spade_environments.sandbox.probe import ProbeReport

    if not isinstance(found.sandbox, ProbeReport):
        return f"does not come up here: {found.sandbox}"
    if found.sandbox.level == "none":
        return "none: programs run inside the trainer"
    return f"level {found.sandbox.level}: {level_named(found.sandbox.level).holds}"


def _verdict(found: Examined) -> Iterator[str]:
    from spade_agents.selfplay.preflight import told_level

    if found.parts is not None:
        if warning := told_level(found.parts.sandbox):
            yield warning
        yield "fit to start"
        return
    faults = _told_faults(found)
    yield f"not fit to start, for {len(faults)} reason{'s' if len(faults) > 1 else ''}:"
    yield from (f"- {fault}" for fault in faults)


def _told_faults(found: Examined) -> Sequence[str]:
    from spade_environments import HostFault

    broken = [f"the sandbox does not come up: {found.sandbox}"] if isinstance(found.sandbox, HostFault) else []
    return [*(str(fault) for fault in found.faults), *broken]


def _for_a_program(settings: RunSettings, out: Path, needs: Needs | None, found: Examined) -> dict[str, Any]:
    return {
        "run": str(out),
        "fit": found.parts is not None,
        "faults": list(_told_faults(found)),
        "needs": asdict(needs) if needs else None,
        "settings": settings.model_dump(mode="json"),
    }


def _line(name: str, *parts: str) -> str:
    return f"{name:<{_WIDTH}}{'; '.join(part for part in parts if part)}"


def _count(number: int) -> str:
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return str(number)
