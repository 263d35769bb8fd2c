"""What a run works with: policies, engine, sandbox, pool, memory and corpus, opened once and closed at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
import zstandard

from spade_agents.designer.corpus import Corpus
from spade_agents.designer.memory import Memory, MemoryMark
from spade_agents.errors import CheckpointError, InfrastructureError
from spade_agents.policy.protocol import Policy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.rollout import Evaluator
from spade_agents.rollout.groups import Sandbox as Plays
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.checkpoint import Checkpoint
from spade_agents.selfplay.pool import Pool
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings, SupervisedReplay
from spade_agents.selfplay.state import LoopState, SampledRollout
from spade_agents.settings import to_toml
from spade_agents.telemetry import ProgressReporter, Row
from spade_agents.tracking import Tracker
from spade_agents.training.engine import TrainingEngine
from spade_agents.training.samples import SupervisedSample
from spade_agents.trajectory import TrainingSample
from spade_environments import EnvironmentSpec
from spade_environments.certificate import NoveltyIndex
from spade_environments.sandbox import Sandbox

__all__ = ["Replay", "Resources", "ScoringPolicy", "TrainablePolicy"]

Replay = Callable[[int, int], tuple[SupervisedSample, ...]]
"""From a seed and a count to samples to imitate."""


class TrainablePolicy(Policy, Protocol):
    """A policy whose weights the loop replaces after each update."""

    def load_weights(self, state: Mapping[str, Any], version: int) -> None: ...


CANARY_TOKENS: Final = 128
"""How much of a canary is scored."""


@runtime_checkable
class ScoringPolicy(Protocol):
    """A policy that tells its own log-probabilities of given tokens."""

    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]: ...


@runtime_checkable
class RestingPolicy(Protocol):
    """A policy that can give the trainer's device up for an update."""

    def resting(self) -> AbstractContextManager[None]: ...


@dataclass(slots=True, kw_only=True)
class Resources:
    """Everything live that the phases of a rollout share.

    Attributes:
        policy: in training; plays both arms.
        designer: the same one, or a frozen one.
        corpus: `None` for the ablation without grounding.
        novelty: index of the pool's sources; `None` where the rule is off.
        fixed_pool: environments of a static or frontier pool.
        evaluator: `None` where nothing is evaluated.
        replay: `None` where it is off.
        plays: what training episodes are opened with; `sandbox` itself unless given.
        tracker: takes the rows of metrics too; `None` for none.
        take_losses: processes lost and started again since it was last called, by kind.
    """

    settings: RunSettings
    directory: RunDirectory
    policy: TrainablePolicy
    designer: Policy
    engine: TrainingEngine
    sandbox: Sandbox
    memory: Memory
    progress: ProgressReporter
    corpus: Corpus | None = None
    novelty: NoveltyIndex | None = None
    fixed_pool: tuple[EnvironmentSpec, ...] = ()
    evaluator: Evaluator | None = None
    replay: Replay | None = None
    plays: Plays | None = None
    tracker: Tracker | None = None
    take_losses: Callable[[], Mapping[str, int]] = dict
    _seconds: dict[str, float] = field(default_factory=dict)

    @property
    def pool(self) -> Pool:
        """The run's pool."""
        return Pool(self.directory.environments)

    def remember_novelty(self, spec: EnvironmentSpec) -> None:
        """Count an admitted environment among those that later ones must differ from."""
        if self.novelty is not None:
            self.novelty.add(spec.name, spec.source)

    def replay_samples(self, step: int) -> tuple[SupervisedSample, ...]:
        """What update `step` imitates: other samples at each step, the same ones in a resumed run."""
        table = self.settings.training.replay
        if self.replay is None or not isinstance(table, SupervisedReplay):
            return ()
        return self.replay(derive_seed(self.settings.run.seed, "replay", step), table.samples)

    def send_weights(self, canary: Sequence[int] = ()) -> None:
        """Give the policy the engine's weights, with the engine's step as their version, and see that they arrived.

        Args:
            canary: tokens of the kind that was just trained on, which both sides score; without any nothing is seen.

        Raises:
            InfrastructureError: a tensor did not arrive, or both disagree on the canary's log-probabilities.
        """
        # Imported here: it brings torch along, and light commands import this module.
        from spade_agents.policy.arrival import ArrivalError, ProvingPolicy, check_arrival, check_canary

        state = self.engine.state_dict()
        self.policy.load_weights(state, self.engine.step)
        if isinstance(self.policy, ProvingPolicy):
            check_arrival(state, self.engine.step, self.policy.arrival())
        if not isinstance(self.policy, ScoringPolicy) or len(canary) < 2:
            return
        tokens = tuple(canary[:CANARY_TOKENS])
        wanted = self.engine.logprobs([TrainingSample.canary(tokens)])[0][1:]
        sampler = self.settings.sampler
        tolerance = sampler.tolerance if isinstance(sampler, VllmSettings) else self.settings.training.arrival_tolerance
        try:
            check_canary(wanted, self.policy.score(tokens), tolerance=tolerance)
        except ArrivalError as error:
            raise InfrastructureError(
                f"after update {self.engine.step} the policy does not sample with the engine's weights: {error}; "
                "nothing was saved, so resume from the last checkpoint"
            ) from error

    def sampler_resting(self) -> AbstractContextManager[None]:
        """For an update: a sampler on the trainer's device makes room for it."""
        return self.policy.resting() if isinstance(self.policy, RestingPolicy) else nullcontext()

    def save(self, draft: Checkpoint, state: LoopState) -> None:
        """Fill a checkpoint."""
        draft.state.write_bytes(state.to_json())
        if state.ahead is not None:
            draft.ahead.write_bytes(zstandard.compress(msgspec.json.encode(state.ahead)))
        draft.config.write_text(to_toml(self.settings), encoding="utf-8")
        draft.memory.write_bytes(msgspec.json.encode(self.memory.mark()))
        self.engine.export(draft.model)
        about = {
            "template_family": getattr(getattr(self.policy, "renderer", None), "family", "hermes"),
            "template_deviation": str(getattr(self.policy, "deviation", "none")),
            "style": self.settings.selfplay.play.style,
            "run": self.settings.run.name,
            "step": state.step,
            "start": self.settings.model.start,
            "trained_on": list(state.pool),
            "trained_generators": self._generators(state.pool),
        }
        (draft.model / "spade.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        self.engine.save(draft.engine)

    def _generators(self, pool: Sequence[str]) -> list[str]:
        """The public generators that environments trained on come from."""
        found = (spec.provenance.get("generator") for spec in self.fixed_pool if spec.id in frozenset(pool))
        return sorted({str(name) for name in found if name})

    def load(self, saved: Checkpoint) -> LoopState:
        """Take up a run at a checkpoint: records cut back to it, memory, engine and policy as they were then.

        Raises:
            CheckpointError: it is another one than its name says, or its state or memory cannot be read.
            UsageError: records from before it are damaged.
        """
        state = LoopState.from_json(saved.read(saved.state))
        if state.rollout + state.finished != saved.number:
            raise CheckpointError(
                f"{saved.path} holds the state after {state.rollout} rollouts: it was renamed or mixed with another "
                "checkpoint; remove that folder to go on from the one before it"
            )
        mark = _mark(saved)
        state = replace(state, ahead=_ahead(saved))
        sampled = state.rollout + (state.ahead is not None)
        self.directory.truncate(rollout=state.rollout, designs=sampled, metrics_rows=state.metrics_rows)
        self.pool.truncate(state.pool, rollout=state.rollout)
        self.memory.cut_back(mark)
        for identity in state.pool:
            self.remember_novelty(self.pool.spec(identity))
        self.engine.load(saved.engine)
        self.send_weights()
        return state

    def logged(self, state: LoopState, row: Row) -> LoopState:
        """Append a row of metrics, counted in the state so that a resumed run can drop what came after."""
        self.directory.metrics.append(row)
        if self.tracker is not None:
            self.tracker.log(row, state.metrics_rows)
        return replace(state, metrics_rows=state.metrics_rows + 1)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Show and measure a phase; for people and metrics alone, no decision depends on it."""
        self.progress.phase(phase)
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - started

    def take_seconds(self) -> dict[str, float]:
        """Seconds by phase since the last call."""
        taken = {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}
        self._seconds.clear()
        return taken


def _mark(saved: Checkpoint) -> MemoryMark:
    try:
        return msgspec.json.decode(saved.read(saved.memory), type=MemoryMark)
    except msgspec.DecodeError as error:
        raise _unreadable(saved, saved.memory, error) from error


def _ahead(saved: Checkpoint) -> SampledRollout | None:
    if not saved.ahead.exists():
        return None
    try:
        return msgspec.json.decode(zstandard.decompress(saved.read(saved.ahead)), type=SampledRollout)
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise _unreadable(saved, saved.ahead, error) from error


def _unreadable(saved: Checkpoint, file: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{file} cannot be read: {error}; remove {saved.path} to go on from the one before it")
