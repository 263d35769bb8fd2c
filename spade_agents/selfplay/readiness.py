"""Whether this machine can carry a run: its processes, devices, packages, memory and disk against what is needed."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spade_agents.errors import SpadeError, UsageError
from spade_agents.policy import model_folder
from spade_agents.policy.shape import KNOWN_MODELS, ModelShape, shape_of_folder
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.runtime import Cluster, Part, RayTable, Unreachable, find_cluster, parts_of, room_faults
from spade_agents.selfplay.estimate import Counts, Disk, TrainerMemory, count_work, disk_needs, trainer_memory
from spade_agents.selfplay.settings import RunSettings
from spade_agents.tracking import check_tracker
from spade_agents.training.config import DeepSpeedEngineConfig, HeadKernel
from spade_agents.training.devices import Device, devices

__all__ = ["Machine", "Needs", "cluster_parts", "free_disk", "gib", "machine_faults", "needs_of", "this_machine"]

_GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is.

    Attributes:
        processes: that a launcher started, this one included.
        devices: accelerators of the kind that the engine asks for.
        memory: of the host, bytes.
        disk: free where a new run is to lie, bytes; `None` for one that is there already.
        cluster: of Ray, where the run asks for one.
    """

    processes: int
    devices: tuple[Device, ...]
    memory: int
    disk: int | None = None
    cluster: Cluster | Unreachable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a run asks for.

    Attributes:
        shape: of its model; parameters: as its weights have them, or by its shape.
        context: tokens that a conversation may have.
        ranks: training processes.
        counts, memory, disk: see there.
    """

    shape: ModelShape
    parameters: int
    context: int
    ranks: int
    counts: Counts
    memory: TrainerMemory
    disk: Disk

    @property
    def host(self) -> int:
        """Bytes of host memory for a run without accelerators: trainers, and the sampler's own copy of the weights."""
        return self.ranks * (self.memory.total + self.memory.host) + 4 * self.parameters


def this_machine(settings: RunSettings, out: Path | None = None) -> Machine:
    """What there is, for a new run at `out`."""
    runtime = settings.runtime
    on_ray = isinstance(runtime, RayTable)
    return Machine(
        processes=int(os.environ.get("WORLD_SIZE", "1")),
        # With Ray the devices are those of the cluster: this machine needs none.
        devices=() if on_ray else devices(settings.training.engine.device),
        cluster=find_cluster(runtime, cluster_parts(settings)) if isinstance(runtime, RayTable) else None,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk=free_disk(out) if out is not None else None,
    )


def cluster_parts(settings: RunSettings) -> tuple[Part, ...]:
    """What the run asks Ray for; nothing where it runs on this machine."""
    if not isinstance(settings.runtime, RayTable):
        return ()
    served = isinstance(settings.sampler, VllmSettings)
    return parts_of(settings.runtime, device=settings.training.engine.device, served=served)


def needs_of(settings: RunSettings, machine: Machine) -> Needs | None:
    """What a run needs; `None` where its model is neither here nor known by name."""
    known = _shape(settings.model.start)
    if known is None:
        return None
    shape, parameters = known
    ranks = settings.runtime.ranks or machine.processes
    sampler = settings.sampler
    served = sampler.context_length if isinstance(sampler, VllmSettings) else 0
    context = min(shape.context, served) if served else shape.context
    counts = count_work(settings, context)
    return Needs(
        shape=shape,
        parameters=parameters,
        context=context,
        ranks=ranks,
        counts=counts,
        memory=trainer_memory(settings.training.engine, shape, parameters, ranks),
        disk=disk_needs(settings, shape, parameters, counts),
    )


def machine_faults(settings: RunSettings, machine: Machine) -> Iterator[UsageError]:
    """Everything about this machine that would end the run, one after another."""
    yield from (UsageError(told) for told in (*_process_faults(settings, machine), *_sampler_faults(settings)))
    if machine.cluster is not None:
        yield from (UsageError(told) for told in room_faults(cluster_parts(settings), machine.cluster))
    try:
        check_tracker(settings.metrics.tracker)
    except UsageError as error:
        yield error
    needs = needs_of(settings, machine)
    yield from (UsageError(told) for told in _device_faults(settings, machine, needs))
    if needs is not None:
        yield from (UsageError(told) for told in _room_faults(settings, machine, needs))


def free_disk(path: Path) -> int:
    """Bytes free on the disk on which `path` lies or would be made."""
    folder = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(folder).free


def _process_faults(settings: RunSettings, machine: Machine) -> Iterator[str]:
    engine, wanted = settings.training.engine, settings.runtime.ranks
    on_ray = isinstance(settings.runtime, RayTable)
    if on_ray and machine.processes > 1:
        yield (
            f"runtime.type is 'ray', which starts the training processes, and a launcher started {machine.processes} "
            "of this one: start one process, or set runtime.type=local"
        )
    if wanted and wanted != machine.processes and not on_ray:
        yield (
            f"runtime.ranks is {wanted}, and this is one of {machine.processes}: start {wanted} in all by python -m "
            "torch.distributed.run --no-python --nproc-per-node N spade train ..., or set runtime.ranks"
        )
    if not isinstance(engine, DeepSpeedEngineConfig) and max(wanted, machine.processes) > 1:
        yield (
            f"training.engine.type is 'torch', which has one process, and {max(wanted, machine.processes)} are wanted: "
            "set training.engine.type=deepspeed"
        )
    for package, wants in (("deepspeed", isinstance(engine, DeepSpeedEngineConfig)), ("peft", bool(engine.lora))):
        if wants and importlib.util.find_spec(package) is None:
            yield f"{package} is not installed, which training.engine asks for: pip install 'spade-agents[train]'"


def _sampler_faults(settings: RunSettings) -> Iterator[str]:
    sampler = settings.sampler
    if not isinstance(sampler, VllmSettings) or sampler.url:
        return
    if sampler.python:
        if not os.access(sampler.python, os.X_OK):
            yield f"sampler.python is {sampler.python!r}, which is no interpreter here; name one that has vLLM"
    elif importlib.util.find_spec("vllm") is None:
        yield (
            "sampler.type is 'vllm', and vLLM is not installed beside this: pip install 'spade-agents[vllm]', name an "
            "interpreter that has it by sampler.python, or a server by sampler.url"
        )


def _device_faults(settings: RunSettings, machine: Machine, needs: Needs | None) -> Iterator[str]:
    device = settings.training.engine.device
    if device.partition(":")[0] == "cpu" or machine.cluster is not None:
        return
    if settings.training.engine.head_kernel is HeadKernel.LIGER and importlib.util.find_spec("liger_kernel") is None:
        yield (
            "training.engine.head_kernel is 'liger', and liger-kernel is not installed: pip install "
            "'spade-agents[liger]', or set training.engine.head_kernel=torch"
        )
    here = max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 1)
    wanted = f" with {gib(needs.memory.total)} each" if needs else ""
    if len(machine.devices) < here:
        yield (
            f"training.engine.device is {device!r}: found {len(machine.devices)} of them here, wanted "
            f"{needs.ranks if needs else here}{wanted}; run it where they are, or set training.engine.device=cpu"
        )
    if needs is None or not machine.devices:
        return
    found = min(machine.devices, key=lambda each: each.memory)
    sampler = settings.sampler
    share = sampler.memory_share if isinstance(sampler, VllmSettings) and sampler.placement == "colocated" else 0.0
    room = int(found.memory * (1.0 - share))
    if needs.memory.fixed > room:
        beside = f" beside the sampler's {share:.0%}" if share else ""
        yield (
            f"each training process holds {gib(needs.memory.fixed)} before the first token, and {found.name} has "
            f"{gib(room)}{beside}: more runtime.ranks, zero_stage=3, offload, lora or a smaller model"
        )


def _room_faults(settings: RunSettings, machine: Machine, needs: Needs) -> Iterator[str]:
    on_cpu = settings.training.engine.device.partition(":")[0] == "cpu"
    if on_cpu and machine.cluster is None and needs.host > machine.memory:
        yield (
            f"on the CPU the run holds {gib(needs.host)}, and this machine has {gib(machine.memory)}: take a smaller "
            "model, or a machine with GPUs and training.engine.device=cuda"
        )
    if machine.disk is not None and needs.disk.checkpoints > machine.disk:
        yield (
            f"{settings.run.keep_checkpoints + 1} checkpoints of {gib(needs.disk.checkpoint)} do not fit: "
            f"{gib(machine.disk)} are free where the run is to lie; give another --out, or keep fewer by "
            "run.keep_checkpoints"
        )


def _shape(start: str) -> tuple[ModelShape, int] | None:
    try:
        return shape_of_folder(model_folder(start))
    except SpadeError:
        shape = KNOWN_MODELS.get(Path(start).name)
        return (shape, shape.parameters) if shape else None


def gib(count: int) -> str:
    """A number of bytes, for people."""
    return f"{count / _GIB:,.1f} GiB" if count >= _GIB / 2 else f"{count / _GIB * 1024:,.0f} MiB"
