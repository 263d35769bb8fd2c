"""What a run is spread over: this machine's processes, or a Ray cluster; importing this loads no Ray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from pydantic import Field

from spade_agents.settings import Section
from spade_environments.wording import counted

__all__ = ["LocalTable", "Part", "RayTable", "RuntimeTable", "parts_of", "total"]


class LocalTable(Section):
    """Processes of this machine; training processes on several come from a launcher."""

    type: Literal["local"] = "local"
    ranks: int = Field(default=0, ge=0)
    """Training processes that the launcher must have started; 0 takes as many as it did."""


class RayTable(Section):
    """A Ray cluster: this process drives, the rest runs where Ray has room for it."""

    type: Literal["ray"] = "ray"
    ranks: int = Field(default=0, ge=0)
    """Training processes, each with one device where `training.engine.device` is none of the CPU; 0 for one."""
    address: str = "auto"
    """Of the cluster, HOST:PORT; `auto` for the one this machine is part of; `local` starts one here for the run."""
    engines: int = Field(default=1, ge=0)
    """Copies of the sampler, which share the requests; 0 for one in this process, or at `sampler.url`."""
    workers: int = Field(default=2, ge=0)
    """Processes that each run a sandbox; they share the episodes. 0 for one sandbox, in this process."""
    rank_cpus: float = Field(default=1.0, gt=0)
    """Of each training process."""
    engine_cpus: float = Field(default=1.0, gt=0)
    """Of each copy of the sampler."""
    engine_gpus: int = Field(default=1, ge=0, le=1)
    """Of each vLLM server, which holds the whole model, so that it can prove its weights; 0 for vLLM's CPU build."""
    worker_cpus: float = Field(default=1.0, gt=0)
    """Of each sandbox."""
    strategy: Literal["PACK", "SPREAD"] = "PACK"
    """How Ray places them: close together, or apart."""
    start_seconds: float = Field(default=1800.0, gt=0)
    """Until the cluster has room and everything has started."""
    restarts: int = Field(default=8, ge=0)
    """How often each worker or engine that is lost is started again; a lost training process ends the run."""


RuntimeTable = LocalTable | RayTable


class Part(NamedTuple):
    """One kind of process that a run asks Ray for, in how many copies, with what each."""

    name: str
    copies: int
    cpus: float
    gpus: float

    @property
    def bundle(self) -> dict[str, float]:
        """What one copy asks for, as a placement group's bundle."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}

    def __str__(self) -> str:
        gpus = f" and {self.gpus:g} GPU" if self.gpus else ""
        return f"{counted(self.copies, self.name)} x {self.cpus:g} CPU{gpus}"


def total(parts: Iterable[Part]) -> tuple[float, float]:
    """CPUs and GPUs of all copies together."""
    every = tuple(parts)
    return sum(part.copies * part.cpus for part in every), sum(part.copies * part.gpus for part in every)


def parts_of(table: RayTable, *, device: str, served: bool) -> tuple[Part, ...]:
    """What a run asks the cluster for, in the order of its placement group.

    Args:
        table: counts and shares.
        device: of the training engine, as torch names it.
        served: whether vLLM samples.
    """

    def parts() -> Iterator[Part]:
        yield Part("training rank", max(table.ranks, 1), table.rank_cpus, float(not device.startswith("cpu")))
        yield Part("sampler", table.engines, table.engine_cpus, float(table.engine_gpus if served else 0))
        yield Part("environment worker", table.workers, table.worker_cpus, 0.0)

    return tuple(part for part in parts() if part.copies)
