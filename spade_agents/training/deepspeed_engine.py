"""The DeepSpeed engine: ZeRO 0 to 3 on one process, or data-parallel on the several that a launcher started."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from spade_agents.errors import CheckpointError, SpadeError, UsageError
from spade_agents.training.config import DeepSpeedEngineConfig
from spade_agents.training.folder import export_model, full_precision, load_model, make_optimizer, prepare_model
from spade_agents.training.forward import TrainableForward
from spade_agents.training.metrics import UpdateMetrics
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.schedule import set_learning_rate
from spade_agents.training.torch_engine import open_reference, read_state, trainable
from spade_agents.training.update import run_update, sample_logprobs, using_threads
from spade_agents.training.zero3 import load_parts, load_split, save_parts, whole_state
from spade_agents.trajectory import TrainingSample

__all__ = ["DeepSpeedEngine"]

T = TypeVar("T")
_TAG, _RECORD, _REFERENCE, _PART = "zero", "engine.json", "reference.pt", "reference-{}.pt"
_PATIENCE = timedelta(days=7)
"""How long followers wait for the next command: a rollout in between may take hours."""


class DeepSpeedEngine:
    """A model under DeepSpeed; rank 0 is called as any engine, the other ranks `follow`.

    Several processes come from `python -m torch.distributed.run --nproc-per-node N` or `deepspeed --no_local_rank`.

    Args:
        model: a transformers causal language model, from now on the engine's own.
        config: settings.
        source: the folder it came from, whose tokenizer files travel with `export`.
        reference: another copy of the model, for the KL penalty; made of `model` unless given.
    """

    def __init__(
        self, model: Any, config: DeepSpeedEngineConfig, *, source: Path | None = None, reference: Any = None
    ) -> None:
        self.config = config
        self._source = source
        self._step = 0
        self._closed = False
        with _launched():
            deepspeed = _start(config)
            # DeepSpeed takes one type of weights, frozen ones included.
            self._model = prepare_model(model, config, narrow=False)
            forward = trainable(self._model, config)
            self._reference = self._held(deepspeed, forward, reference)
            self._optimizer = optimizer = make_optimizer(self._model, config.optimizer)
            self._zero, *_ = deepspeed.initialize(model=forward, optimizer=optimizer, config=_settings(config))
        self._zero.eval()

    def _held(self, deepspeed: Any, forward: TrainableForward, model: Any) -> Callable[..., Tensor] | None:
        """The reference; at stage 3 it is split over the processes as the weights are."""
        config = self.config
        if model is not None:
            found: Any = trainable(model.to(config.device).eval().requires_grad_(False), config)
        else:
            found = open_reference(forward, config)
        if config.zero_stage < 3 or not isinstance(found, nn.Module):
            return cast("Callable[..., Tensor] | None", found)
        engine, *_ = deepspeed.initialize(model=found, config=_settings(config, trains=False))
        engine.eval()
        return cast("Callable[..., Tensor]", engine)

    @classmethod
    def open(cls, config: DeepSpeedEngineConfig, folder: Path) -> DeepSpeedEngine:
        """See `open_engine`."""
        if config.zero_stage < 3:
            return cls(load_model(folder), config, source=folder)
        with _launched():
            _start(config)
            needs_copy = config.loss.kl_coefficient > 0.0 and config.lora is None
            model, other = (load_split(folder, _settings(config)) if wanted else None for wanted in (True, needs_copy))
        return cls(model, config, source=folder, reference=other)

    @property
    def step(self) -> int:
        return self._step

    @property
    def rank(self) -> int:
        return dist.get_rank()

    @property
    def ranks(self) -> int:
        """Processes that share the work."""
        return dist.get_world_size()

    @property
    def in_step(self) -> bool:
        """See `Backend`: weights are split at stage 3."""
        return self.config.zero_stage == 3

    @property
    def forward(self) -> Callable[..., Tensor]:
        """The forward pass of an update."""
        zero: Callable[..., Tensor] = self._zero
        return zero

    def update(self, samples: Sequence[TrainingSample], *, replay: Sequence[SupervisedSample] = ()) -> UpdateMetrics:
        self._lead("update", tuple(samples), tuple(replay))
        return self._update(samples, replay)

    def _update(self, samples: Sequence[TrainingSample], replay: Sequence[SupervisedSample]) -> UpdateMetrics:
        set_learning_rate(self._optimizer, self.config.optimizer, self._step)
        with _local_rank(), using_threads(self.config.threads):
            metrics = run_update(
                self, samples, replay, config=self.config, reference=self._reference, step=self._step + 1
            )
        self._step += 1
        return metrics

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Add to the gradient; DeepSpeed averages over ranks, the step's loss is a sum: hence the factor."""
        self._zero.set_gradient_accumulation_boundary(last)
        self._zero.backward(loss * self.ranks, scale_wrt_gas=False)

    def apply(self) -> float:
        """Clip and step; see `Backend`."""
        # Stage 0 reports no norm; there the gradient lies whole on the parameters.
        grads = [p.grad for p in self._model.parameters() if p.grad is not None] if self.config.zero_stage == 0 else []
        norm = nn.utils.get_total_norm(grads).item()
        self._zero.step()
        return norm if grads else float(self._zero.get_global_grad_norm() or 0.0)

    def gather(self, value: T) -> list[T]:
        """All ranks' values; see `Backend`."""
        values: list[Any] = [None] * self.ranks
        dist.all_gather_object(values, value)
        return values

    def logprobs(self, samples: Sequence[TrainingSample]) -> tuple[tuple[float, ...], ...]:
        # Stages 0 to 2 keep whole weights on every rank, so rank 0 scores alone.
        if self.in_step:
            self._lead("logprobs", tuple(samples))
        return self._logprobs(samples)

    def _logprobs(self, samples: Sequence[TrainingSample]) -> tuple[tuple[float, ...], ...]:
        config = self.config
        with _local_rank(), using_threads(config.threads):
            return sample_logprobs(
                self._zero.module,
                samples,
                token_budget=config.token_budget,
                packing=config.packing,
                device=config.device,
            )

    def state_dict(self) -> Mapping[str, Tensor]:
        if not self.in_step:
            return full_precision(self._model)
        self._lead("state")
        return self._state()

    def _state(self) -> Mapping[str, Tensor]:
        with _local_rank():
            return whole_state(self._model, keep=self.rank == 0)

    def export(self, folder: Path) -> None:
        export_model(self._model, folder, source=self._source, state=self.state_dict() if self.in_step else None)

    def save(self, folder: Path) -> None:
        self._lead("save", folder)
        self._save(folder)

    def _save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with _local_rank():
            self._zero.save_checkpoint(str(folder), tag=_TAG)
        if self.in_step and isinstance(self._reference, nn.Module):
            save_parts(self._reference, folder / _PART.format(self.rank))
        if self.rank == 0:
            if isinstance(self._reference, nn.Module) and not self.in_step:
                torch.save(self._reference.state_dict(), folder / _REFERENCE)
            (folder / _RECORD).write_text(json.dumps(self._record() | {"step": self._step}) + "\n")
        dist.barrier()

    def _record(self) -> dict[str, Any]:
        """What a checkpoint must agree with to be loaded."""
        return {
            "type": self.config.type,
            "zero_stage": self.config.zero_stage,
            "processes": self.ranks,
            "reference": self._reference is not None,
        }

    def load(self, folder: Path) -> None:
        record = self._read_record(folder)
        self._lead("load", folder, record)
        self._load(folder, record)

    def _read_record(self, folder: Path) -> dict[str, Any]:
        path = folder / _RECORD
        try:
            record: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError as error:
            raise CheckpointError(f"found no {_RECORD} in {folder}; give a folder that this engine saved") from error
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} is corrupt ({error}); resume from an earlier checkpoint") from error
        for key, wanted in self._record().items():
            if record.get(key) != wanted:
                raise CheckpointError(
                    f"{path}: found {key} = {record.get(key)}, wanted {wanted}; resume with the settings and the "
                    "number of processes that saved it"
                )
        return record

    def _load(self, folder: Path, record: Mapping[str, Any]) -> None:
        # One rank alone must not give up while the others go on: all learn of any failure.
        failures = [failure for failure in self.gather(self._try_load(folder)) if failure]
        if failures:
            raise CheckpointError(f"{folder} does not load into this model: {failures[0]}; resume from an earlier one")
        self._step = int(record["step"])

    def _try_load(self, folder: Path) -> str | None:
        try:
            with _local_rank():
                path, _ = self._zero.load_checkpoint(str(folder), tag=_TAG)
            if self.in_step and isinstance(self._reference, nn.Module):
                load_parts(self._reference, folder / _PART.format(self.rank))
            elif isinstance(self._reference, nn.Module):
                self._reference.load_state_dict(read_state(folder / _REFERENCE))
        except Exception as error:  # Corrupt bytes make the unpickler raise nearly anything.
            return str(error) or type(error).__name__
        return None if path else "it holds no DeepSpeed checkpoint"

    def follow(self) -> None:
        if self.rank == 0:
            raise UsageError("rank 0 leads; call follow() on the other ranks only")
        actions: dict[str, Callable[..., Any]] = {
            "update": self._update,
            "save": self._save,
            "load": self._load,
            "logprobs": self._logprobs,
            "state": self._state,
        }
        with _deaf_to_interrupts():
            while True:
                name, *arguments = _broadcast(None)
                if name == "close":
                    return
                # Rank 0 meets the same error, reports it, and closes.
                with suppress(SpadeError):
                    actions[name](*arguments)

    def close(self) -> None:
        if self._closed:
            return
        if self.rank == 0:
            self._lead("close")
        if self.ranks > 1 and dist.is_initialized():
            # Left to the interpreter's end, a thread of the group can abort the process.
            dist.destroy_process_group()
        self._closed = True

    def _lead(self, *command: Any) -> None:
        """Tell the followers what to do next."""
        if self.rank != 0:
            raise UsageError(f"rank {self.rank} was asked to {command[0]}; only rank 0 is, the others follow()")
        if self.ranks > 1:
            _broadcast(command)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ctrl-C reaches every process of a launcher; rank 0 alone decides how the run stops."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _broadcast(command: tuple[Any, ...] | None) -> tuple[Any, ...]:
    box: list[Any] = [command]
    dist.broadcast_object_list(box, src=0)
    received: tuple[Any, ...] = box[0]
    return received


@contextmanager
def _launched() -> Iterator[None]:
    """What a launcher would have set, for one process; without it DeepSpeed looks for MPI. Gone again afterwards."""
    if "RANK" in os.environ:
        yield
        return
    address = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    address["MASTER_PORT"] = str(_free_port())
    before = {name: os.environ.get(name) for name in address}
    os.environ.update(address)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def _local_rank() -> Iterator[None]:
    """What ZeRO-3 asks for whenever it is at work; a launcher has set it for as long as the process lives."""
    if "LOCAL_RANK" in os.environ:
        yield
        return
    os.environ["LOCAL_RANK"] = "0"
    try:
        yield
    finally:
        os.environ.pop("LOCAL_RANK")


def _start(config: DeepSpeedEngineConfig) -> Any:
    """Import DeepSpeed and join the process group."""
    cpu = torch.device(config.device).type == "cpu"
    if cpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed
    from deepspeed.utils import logger

    logger.setLevel(logging.WARNING)
    if cpu:
        # Its shared-memory all-reduce wants a C++ compiler and a minute or more at the first start; gloo does the same.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if not cpu:
        torch.get_device_module(config.device).set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        deepspeed.init_distributed("gloo" if cpu else "nccl", timeout=_PATIENCE, verbose=False)
    return deepspeed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _settings(config: DeepSpeedEngineConfig, *, trains: bool = True) -> dict[str, Any]:
    """DeepSpeed's own configuration; batch sizes are formal, since boundaries are set micro-batch by micro-batch."""
    zero: dict[str, Any] = {"stage": config.zero_stage, "overlap_comm": False, **config.zero}
    if config.offload != "none" and trains:
        zero["offload_optimizer"] = {"device": "cpu"}
    if config.offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": config.optimizer.gradient_clip,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        # The optimiser is torch's own also where its state is offloaded: DeepSpeed's would be compiled first.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,
    }
