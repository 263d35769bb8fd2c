"""What a run carries from one rollout to the next: all that a checkpoint keeps beside weights and optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import msgspec

from spade_agents.errors import CheckpointError
from spade_agents.rewards import DesignResult, PotentialState, Regret, mean_return, regret
from spade_agents.selfplay.design_figures import DesignFigures
from spade_agents.trajectory import TrainingSample, Trajectory, TrajectoryGroup
from spade_environments import EnvironmentSpec

__all__ = [
    "NOTHING_CLOSED",
    "ClosedSet",
    "EnvironmentSet",
    "LoopState",
    "Played",
    "SampledRollout",
    "SetMember",
    "WaitingDesign",
]

Returns = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One environment of the set in play, and its plays so far.

    Attributes:
        spec: hint included.
        hinted: returns of the hinted plays at the regeneration rollout, by seed; `None` where a play is missing.
        unhinted: returns of the unhinted plays at the same rollout, on the same seeds.
        window: returns of all unhinted plays since, that rollout included.
        fault: why it was retired in play; empty while it is in play.
    """

    spec: EnvironmentSpec
    hinted: Returns = ()
    unhinted: Returns = ()
    window: Returns = ()
    fault: str = ""

    @property
    def arms(self) -> Regret | None:
        """Both arm means, or `None` where either arm has no valid play."""
        return regret(self.hinted, self.unhinted)

    @property
    def win_rate(self) -> float | None:
        """Mean return of the valid unhinted plays over the window."""
        return mean_return(self.window)

    def played(self, unhinted: Returns, hinted: Returns | None = None, *, fault: str = "") -> Self:
        """The member after one more rollout; `hinted` only at its regeneration."""
        member = replace(self, window=self.window + unhinted, fault=self.fault or fault)
        return member if hinted is None else replace(member, hinted=hinted, unhinted=unhinted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDesign:
    """One attempt of the designer that waits until its set's window is over.

    Attributes:
        skill: asked for.
        environment_id: of the environment it became; empty for a rejected attempt.
        sample: its tokens, advantage still 0; `None` where the designer's completions hold none.
    """

    skill: str
    environment_id: str = ""
    sample: TrainingSample | None = None

    def result(self, members: Mapping[str, SetMember]) -> DesignResult:
        """What the reward is computed from; an environment that faulted in play counts as rejected."""
        member = members.get(self.environment_id)
        if member is None or member.fault:
            return DesignResult(skill=self.skill, rejected=True)
        arms = member.arms
        return DesignResult(skill=self.skill, regret=arms.raw if arms else None, win_rate=member.win_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSet:
    """The environments kept for k rollouts, and the designs they came from.

    Attributes:
        rollout: at which the set was made.
        members: in slot order; slots that got no environment are absent.
        designs: every attempt that is a designer sample; empty for a fixed pool or a frozen designer.
    """

    rollout: int
    members: tuple[SetMember, ...] = ()
    designs: tuple[WaitingDesign, ...] = ()

    def due(self, period: int) -> int:
        """The rollout whose update trains the designs: exactly k after the set was made."""
        return self.rollout + period

    @property
    def active(self) -> tuple[SetMember, ...]:
        """Members that have not faulted."""
        return tuple(member for member in self.members if not member.fault)

    def with_plays(self, played: Mapping[str, SetMember]) -> Self:
        """The set with some members replaced, by environment id."""
        return replace(self, members=tuple(played.get(member.spec.id, member) for member in self.members))

    def results(self) -> tuple[DesignResult, ...]:
        """One result for each design, in order."""
        members = {member.spec.id: member for member in self.members}
        return tuple(design.result(members) for design in self.designs)


class ClosedSet(NamedTuple):
    """What a set leaves when its window is over: its designs with their raw rewards, and the averages after it."""

    raw: tuple[float | None, ...]
    designs: tuple[WaitingDesign, ...]
    potential: PotentialState


NOTHING_CLOSED = ClosedSet((), (), PotentialState())


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The plays of one rollout.

    Attributes:
        current: the set, returns added, faulting environments retired.
        unhinted: one group for each environment played; trained on.
        hinted: the other arm, at a regeneration only; never trained on.
    """

    current: EnvironmentSet
    unhinted: tuple[TrajectoryGroup, ...] = ()
    hinted: tuple[TrajectoryGroup, ...] = ()

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """All plays, unhinted ones first."""
        return tuple(play for group in (*self.unhinted, *self.hinted) for play in group.trajectories)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRollout:
    """A rollout that was sampled and not yet trained on.

    Attributes:
        played: both arms.
        closed: the set whose window it ended, its designs waiting for this rollout's update.
        figures: of the designs it began with.
    """

    played: Played
    closed: ClosedSet = NOTHING_CLOSED
    figures: DesignFigures = field(default_factory=DesignFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """Where a run stands between two rollouts.

    There are no generators among it: every random choice is drawn from a seed derived from the run's seed, the rollout
    and the purpose, so that position and seed are the random state.

    Attributes:
        rollout: rollouts done, and so the number of the next one.
        step: optimiser updates done.
        current: the set in play, its designs waiting; `None` before the first rollout and after the last update.
        corpus_position: documents drawn so far.
        skill_position: slots filled so far, for the round robin over skills.
        potential: averages of the learning-potential reward.
        recent: programs of the newest designs, newest last; the alarm for a collapse looks at them.
        pool: ids of all environments admitted so far, in order.
        metrics_rows: rows of metrics written so far.
        evaluated: rollouts done at the last evaluation; `None` before the first one.
        best: highest solve rate that counted for an early stop; `None` before one did.
        stale: evaluations in a row that did not beat it.
        finished: whether the last designs were trained and the last evaluation was done.
        ahead: the next rollout, where it was sampled already; the set, the positions and the pool are then those after
            its plays. A checkpoint keeps it in a file of its own.
    """

    rollout: int = 0
    step: int = 0
    current: EnvironmentSet | None = None
    corpus_position: int = 0
    skill_position: int = 0
    potential: PotentialState = field(default_factory=PotentialState)
    recent: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    metrics_rows: int = 0
    evaluated: int | None = None
    best: float | None = None
    stale: int = 0
    finished: bool = False
    ahead: SampledRollout | None = None

    def to_json(self) -> bytes:
        """JSON that `from_json` reads back to an equal state, but for `ahead`."""
        return msgspec.json.encode(replace(self, ahead=None))

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: not a state, or one of another version of this package.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise CheckpointError(
                f"the loop state cannot be read: {error}; resume from an earlier checkpoint"
            ) from error
