"""Training processes elsewhere: rank 0 is called as an engine is, the others follow it, and none may be lost."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.runtime.remote import Answer, losing, told
from spade_agents.training import EngineConfig, SupervisedSample, TrainingEngine, UpdateMetrics, open_engine
from spade_agents.trajectory import TrainingSample

__all__ = ["RemoteEngine", "RemoteWeights", "TrainingRank"]

_CLOSE_SECONDS = 30.0


class TrainingRank:
    """What runs in a training process: an engine, in the group that a launcher would have made."""

    def __init__(self) -> None:
        self._engine: TrainingEngine | None = None

    def address(self) -> tuple[str, int]:
        """Where the group may meet, if this is rank 0: this machine, and a port that is free now."""
        import ray

        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def open(
        self, config: EngineConfig, folder: str, shared: str, rank: int, ranks: int, address: tuple[str, int]
    ) -> Answer[int]:
        """Open the engine with the others; its step.

        Args:
            config: of the engine.
            folder: of the model.
            shared: a file beside the run, which this machine must see too.
            rank: of this process.
            ranks: in all.
            address: where they meet.
        """
        if not Path(shared).is_file():
            return Answer(
                error=UsageError(
                    f"{socket.gethostname()} does not see {Path(shared).parent}, where the run is to lie: checkpoints "
                    "are written by all training processes; give an --out on a disk that all machines share"
                )
            )
        host, port = address
        # Ray shows each process its own device alone, so that it is the first one there.
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=str(port))
        return told(lambda: self._open(config, Path(folder)))

    def _open(self, config: EngineConfig, folder: Path) -> int:
        self._engine = open_engine(config, folder)
        return self._engine.step

    def follow(self) -> Answer[None]:
        """See `TrainingEngine`."""
        return told(self._opened.follow)

    def call(self, method: str, *arguments: Any, **named: Any) -> Answer[tuple[Any, int]]:
        """What a method of rank 0's engine gives, and the engine's step after it."""
        return told(lambda: (getattr(self._opened, method)(*arguments, **named), self._opened.step))

    def weights(self) -> Answer[dict[str, Any]]:
        """The engine's state dict, as arrays."""
        from spade_agents.policy.arrays import to_arrays

        return told(lambda: to_arrays(self._opened.state_dict()))

    @property
    def _opened(self) -> TrainingEngine:
        if self._engine is None:
            raise UsageError("open() comes first")
        return self._engine


class RemoteWeights(dict[str, Any]):
    """Weights by their names, and where Ray's object store has them, so that engines fetch them from there."""

    def __init__(self, arrays: Mapping[str, Any], reference: Any) -> None:
        from spade_agents.policy.arrays import from_arrays

        super().__init__(from_arrays(arrays))
        self.reference = reference


class RemoteEngine:
    """A `TrainingEngine` whose processes are elsewhere.

    Args:
        ranks: handles of remote `TrainingRank`s, rank 0 first.
        config: of the engine.
        folder: of the model; at the same place on every machine.
        shared: a file beside the run, to see that every machine has that disk.
        seconds: until all must be up.

    Raises:
        UsageError: a machine lacks the model or the run's disk.
        InfrastructureError: a process was lost.
    """

    def __init__(
        self, ranks: Sequence[Any], config: EngineConfig, folder: Path, shared: Path, *, seconds: float
    ) -> None:
        self._ranks, self._closed = list(ranks), False
        self._following: list[Any] = []
        address = self._answered(ranks[0].address.remote())
        opened = [
            rank.open.remote(config, str(folder.absolute()), str(shared.absolute()), number, len(ranks), address)
            for number, rank in enumerate(ranks)
        ]
        self._step = self._all_open(opened, seconds)
        self._following = [rank.follow.remote() for rank in ranks[1:]]

    def _all_open(self, opened: Sequence[Any], seconds: float) -> int:
        """Rank 0's step, once all are open; one that fails would leave the others waiting for it."""
        import ray

        waiting, ends = list(opened), time.monotonic() + seconds
        while waiting:
            done, waiting = ray.wait(waiting, timeout=max(0.0, ends - time.monotonic()))
            if not done:
                raise InfrastructureError(
                    f"{len(waiting)} of {len(opened)} training processes were not up within {seconds:g} s "
                    "(runtime.start_seconds)"
                )
            self._answered(done[0], opened.index(done[0])).opened()
        step: int = self._answered(opened[0]).opened()
        return step

    @property
    def step(self) -> int:
        return self._step

    @property
    def rank(self) -> int:
        return 0

    def update(self, samples: Sequence[TrainingSample], *, replay: Sequence[SupervisedSample] = ()) -> UpdateMetrics:
        metrics: UpdateMetrics = self._call("update", tuple(samples), replay=tuple(replay))
        return metrics

    def logprobs(self, samples: Sequence[TrainingSample]) -> tuple[tuple[float, ...], ...]:
        found: tuple[tuple[float, ...], ...] = self._call("logprobs", tuple(samples))
        return found

    def state_dict(self) -> Mapping[str, Any]:
        reference = self._ranks[0].weights.remote()
        return RemoteWeights(self._led(reference).opened(), reference)

    def export(self, folder: Path) -> None:
        self._call("export", folder.absolute())

    def save(self, folder: Path) -> None:
        self._call("save", folder.absolute())

    def load(self, folder: Path) -> None:
        self._call("load", folder.absolute())

    def follow(self) -> None:
        raise UsageError("this process leads; the training processes follow of themselves")

    def close(self) -> None:
        import ray

        if not self._closed:
            self._closed = True
            ray.wait([self._ranks[0].call.remote("close")], timeout=_CLOSE_SECONDS)
        for rank in self._ranks:
            ray.kill(rank)

    def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        result, self._step = self._led(self._ranks[0].call.remote(method, *arguments, **named)).opened()
        return result

    def _led(self, reference: Any) -> Any:
        """Rank 0's answer; a follower that ends before it never lets it come."""
        import ray

        done, _ = ray.wait([reference, *self._following])
        if reference in done:
            return self._answered(reference)
        number = self._following.index(done[0]) + 1
        self._answered(done[0], number).opened()
        self._closed = True
        raise self._lost(number, "it stopped to follow")

    def _answered(self, reference: Any, number: int = 0) -> Any:
        import ray

        try:
            with losing(lambda why: self._lost(number, why)):
                return ray.get(reference)
        except Exception:
            self._closed = True  # what is left of the group waits for the lost one, and is ended with its process
            raise

    def _lost(self, number: int, why: str) -> InfrastructureError:
        return InfrastructureError(
            f"training process {number} of {len(self._ranks)} was lost, and the run cannot go on without its part of "
            f"the optimiser's state: {why}\n"
            "Go on from the last checkpoint with: spade train --resume RUN"
        )
