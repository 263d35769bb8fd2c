"""What a run will need, by arithmetic: episodes, tokens, memory of each device and process, disk.

Counts of episodes and bytes of weights are exact; tokens and plays on disk are upper bounds; activations are rough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from spade_agents.policy.shape import ModelShape
from spade_agents.selfplay.settings import NoPool, RunSettings
from spade_agents.training.config import DeepSpeedEngineConfig, EngineSettings, Precision, TorchEngineConfig

__all__ = [
    "Counts",
    "Disk",
    "TrainerMemory",
    "count_work",
    "disk_needs",
    "smallest_ranks",
    "trained_parameters",
    "trainer_memory",
]

_FP32 = 4
_BYTES_PER_SAMPLED_TOKEN = 12
"""Of a play on disk, compressed: seen on runs of nano."""
_HEAD_CHUNK = 2**28
"""Logits that the trainer's head holds at once, at most."""
MOST_TURNS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What is played, designed and sampled over the whole run.

    Attributes:
        unhinted, hinted: episodes.
        slots, attempts: environments asked for; completions that may take, at most.
        play_tokens, design_tokens: sampled, at most.
        rollout_tokens: tokens that one update may have to train on, at most.
    """

    unhinted: int
    hinted: int
    slots: int
    attempts: int
    play_tokens: int
    design_tokens: int
    rollout_tokens: int

    @property
    def episodes(self) -> int:
        """Of both arms."""
        return self.unhinted + self.hinted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerMemory:
    """Bytes that one training process holds on its device.

    Attributes:
        weights, gradients, optimizer, reference: exact.
        activations: rough, and the logits of a chunk with them.
        gathered: the layers that a trainer which splits weights puts together.
        host: what is offloaded instead, in the host's memory.
    """

    weights: int
    gradients: int
    optimizer: int
    reference: int
    activations: int
    gathered: int = 0
    host: int = 0

    @property
    def fixed(self) -> int:
        """What is there before the first token."""
        return self.weights + self.gradients + self.optimizer + self.reference

    @property
    def total(self) -> int:
        """On the device."""
        return self.fixed + self.activations + self.gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Bytes.

    Attributes:
        checkpoint: one of them.
        checkpoints: as many as lie there at once, the one being written included.
        plays: of the whole run, at most.
    """

    checkpoint: int
    checkpoints: int
    plays: int


def count_work(settings: RunSettings, context: int) -> Counts:
    """Episodes and tokens of a run.

    Args:
        settings: of the run.
        context: tokens that a conversation may have.
    """
    selfplay, rollouts, call = settings.selfplay, settings.run.rollouts, settings.designer.call
    if isinstance(selfplay.pool, NoPool):
        return Counts(unhinted=0, hinted=0, slots=0, attempts=0, play_tokens=0, design_tokens=0, rollout_tokens=0)
    sets = ceil(rollouts / selfplay.period)
    designed = sets * selfplay.environments if selfplay.pool.type == "designed" else 0
    episode = min(context, MOST_TURNS * selfplay.play.sampling.max_tokens)
    unhinted = rollouts * selfplay.environments * selfplay.plays
    hinted = sets * selfplay.environments * selfplay.hint_plays
    attempts = designed * call.attempts
    longest_design = min(context, call.sampling.max_tokens)
    hints = designed * call.hint_tries * call.hint_sampling.max_tokens
    trained = selfplay.environments * selfplay.plays * context
    designs = selfplay.environments * call.attempts * longest_design if designed else 0
    return Counts(
        unhinted=unhinted,
        hinted=hinted,
        slots=designed,
        attempts=attempts,
        play_tokens=(unhinted + hinted) * episode,
        design_tokens=attempts * longest_design + hints,
        rollout_tokens=trained + (designs if settings.designer.policy.type == "self" else 0),
    )


def trainer_memory(engine: EngineSettings, shape: ModelShape, parameters: int, ranks: int) -> TrainerMemory:
    """Memory of one of `ranks` training processes.

    Weights, gradients and both moments are fp32 unless the precision is `bf16_weights`; under DeepSpeed's stages 1 and
    2 a process holds a second copy of the weights that it updates. Stage 1 splits moments over the processes, stage 2
    gradients too, stage 3 weights and reference too. With adapters the model itself has neither gradients nor moments,
    and is its own reference.
    """
    stage = engine.zero_stage if isinstance(engine, DeepSpeedEngineConfig) else 0
    number = _FP32 if engine.precision is not Precision.BF16_WEIGHTS else 2
    trained = trained_parameters(engine, shape, parameters)
    frozen = parameters if engine.lora else 0
    frozen_number = 2 if isinstance(engine, TorchEngineConfig) and engine.precision is not Precision.FP32 else _FP32
    weights = number * trained + frozen_number * frozen
    copy = number * trained / ranks if stage >= 1 else 0
    is_referred = engine.loss.kl_coefficient > 0 and engine.lora is None
    product = _FP32 if engine.precision is Precision.FP32 else 2
    per_layer = shape.hidden if engine.gradient_checkpointing else shape.activations_per_layer
    layers = shape.layers * per_layer + (shape.activations_per_layer if engine.gradient_checkpointing else 0)
    logits = min(engine.token_budget * shape.vocabulary, _HEAD_CHUNK) * 2 * product
    held = TrainerMemory(
        weights=int(weights / (ranks if stage == 3 else 1)),
        gradients=int(number * trained / (ranks if stage >= 2 else 1)),
        optimizer=int(2 * number * trained / (ranks if stage >= 1 else 1) + copy),
        reference=int(number * parameters / (ranks if stage == 3 else 1)) if is_referred else 0,
        activations=engine.token_budget * layers * product + logits,
        gathered=2 * shape.largest_layer * _FP32 if stage == 3 else 0,
    )
    offload = engine.offload if isinstance(engine, DeepSpeedEngineConfig) else "none"
    if offload == "none":
        return held
    moved = held.optimizer + (held.weights if offload == "all" else 0)
    return replace(held, optimizer=0, weights=0 if offload == "all" else held.weights, host=moved)


def trained_parameters(engine: EngineSettings, shape: ModelShape, parameters: int) -> int:
    """Numbers that have a gradient: all of them, or those of the adapters on every linear layer."""
    if engine.lora is None:
        return parameters
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    # The sums of both widths of each layer's matrices: queries and output, keys and values, and the dense three.
    widths = 2 * (shape.hidden + queries) + 2 * (shape.hidden + keys)
    widths += 0 if shape.experts else 3 * (shape.hidden + shape.inner)
    return engine.lora.rank * shape.layers * widths


def smallest_ranks(engine: EngineSettings, shape: ModelShape, parameters: int, room: int) -> int | None:
    """The fewest processes, a power of two up to 1,024, of `room` bytes each, that the trainer fits on."""
    most = 10 if isinstance(engine, DeepSpeedEngineConfig) else 0
    tries = (2**power for power in range(most + 1))
    return next((ranks for ranks in tries if trainer_memory(engine, shape, parameters, ranks).total <= room), None)


def disk_needs(settings: RunSettings, shape: ModelShape, parameters: int, counts: Counts) -> Disk:
    """Disk of a run's checkpoints and plays.

    A checkpoint holds the model as fp32, and for the engine its weights once more, both moments of what is trained, and
    the reference where there is one.
    """
    engine = settings.training.engine
    memory = trainer_memory(engine, shape, parameters, 1)
    moments = 2 * memory.gradients
    checkpoint = _FP32 * parameters + memory.weights + moments + memory.reference
    return Disk(
        checkpoint=checkpoint,
        checkpoints=(settings.run.keep_checkpoints + 1) * checkpoint,
        plays=(counts.play_tokens + counts.design_tokens) * _BYTES_PER_SAMPLED_TOKEN,
    )
