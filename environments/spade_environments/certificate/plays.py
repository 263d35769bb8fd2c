"""Plays inside one certification: few children, reused from play to play, and what was seen in each play."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from spade_environments.faults import EnvironmentFault, FaultKind, SandboxFault
from spade_environments.spec import EnvironmentSpec
from spade_environments.types import Action, Observation, StepResult

from .findings import shown

if TYPE_CHECKING:
    from spade_environments.sandbox import EpisodeEnv, Sandbox

__all__ = ["REPLACEMENTS", "Children", "Player", "Slot", "Step", "Transcript", "scripted"]

T = TypeVar("T")
REPLACEMENTS = 2
_USED_UP = (FaultKind.BUDGET_EPISODE, FaultKind.MEMORY)


@dataclass(frozen=True, slots=True)
class Step:
    """One action and what came of it."""

    action: Action
    result: StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One play; two are equal when an agent could not tell them apart."""

    seed: int
    first: Observation
    tools: tuple[str, ...]
    steps: tuple[Step, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        return tuple(step.action for step in self.steps)

    @property
    def terminated(self) -> bool:
        return bool(self.steps) and self.steps[-1].result.terminated

    @property
    def ended(self) -> bool:
        return self.terminated or (bool(self.steps) and self.steps[-1].result.truncated)

    @property
    def value(self) -> float:
        """The return: reward of the final step, 0 if the episode did not terminate."""
        return self.steps[-1].result.reward if self.terminated else 0.0

    @property
    def texts(self) -> tuple[str, ...]:
        """Every observation, the first one first."""
        return (self.first.text, *(step.result.observation.text for step in self.steps))


Player = Callable[[Transcript], Action | None]
"""Chooses the next action from the play so far; `None` leaves it there."""


def scripted(actions: Sequence[Action]) -> Player:
    """A player that takes `actions` in order, whatever it sees."""

    def player(play: Transcript) -> Action | None:
        return actions[len(play.steps)] if len(play.steps) < len(actions) else None

    return player


class Slot(StrEnum):
    """A child's place: what it is used for fixes its zygote."""

    FIRST = "first"
    GOLD = "gold"
    OTHER = "other"

    @property
    def zygote(self) -> int:
        return 1 if self is Slot.OTHER else 0


class Children:
    """The children of one certification, one in each slot, opened when first used.

    A child plays many episodes, which saves forks and shows whether an episode leaves something behind for the next.
    Limits hold for a child's whole life, so one that reaches a limit after its first episode is replaced, and what it
    was at is tried once more: at most `replacements` times in all, or a slow environment would be certified for hours.
    """

    def __init__(self, spec: EnvironmentSpec, sandbox: Sandbox, *, replacements: int = REPLACEMENTS) -> None:
        self._replacements = replacements
        self._spec = spec
        self._sandbox = sandbox
        self._envs: dict[Slot, EpisodeEnv] = {}
        self._episodes: dict[Slot, int] = {}

    async def env(self, slot: Slot) -> EpisodeEnv:
        """The child in `slot`, opened if there is none."""
        if slot not in self._envs:
            self._envs[slot] = await self._sandbox.open(self._spec, zygote=slot.zygote)
            self._episodes[slot] = 0
        return self._envs[slot]

    async def reset(self, slot: Slot, seed: int) -> Transcript:
        """Begin the instance of `seed`; nothing is played yet.

        Raises:
            EnvironmentFault: with the seed in its notes; the child is then gone.
            HostFault: our fault.
        """
        env = await self.env(slot)
        try:
            first = await env.reset(seed, fresh=False)
        except EnvironmentFault as fault:
            again = self._episodes[slot] > 0 and self._may_replace(fault)
            await self.drop(slot)
            if again:
                return await self.reset(slot, seed)
            fault.add_note(f"seed {seed}")
            raise
        self._episodes[slot] += 1
        return Transcript(seed=seed, first=first, tools=tuple(tool.name for tool in env.tools))

    async def play(self, slot: Slot, seed: int, player: Player, *, limit: int) -> Transcript:
        """Play the instance of `seed` until it ends, `player` leaves, or `limit` actions are taken.

        Raises:
            EnvironmentFault: with seed and action in its notes; the child is then gone.
            HostFault: our fault.
        """
        play = await self.reset(slot, seed)
        env = self._envs[slot]
        while not play.ended and len(play.steps) < limit and (action := player(play)) is not None:
            try:
                result = await env.step(action)
            except EnvironmentFault as fault:
                again = self._episodes[slot] > 1 and self._may_replace(fault)
                await self.drop(slot)
                if again:
                    return await self.play(slot, seed, player, limit=limit)
                fault.add_note(f"seed {seed}, action {len(play.steps) + 1}: {shown(action)}")
                raise
            steps = (*play.steps, Step(action, result))
            play = Transcript(seed=seed, first=play.first, tools=play.tools, steps=steps)
        return play

    async def solution(self, slot: Slot, seed: int) -> tuple[Action, ...]:
        """The gold actions of the instance of `seed`, just begun; faults as in `play`."""
        return tuple(await self._ask(slot, seed, lambda env: env.solution()))

    async def hidden_values(self, slot: Slot, seed: int) -> dict[str, str]:
        """What `hidden` names in the instance of `seed`, just begun; faults as in `play`."""
        return await self._ask(slot, seed, lambda env: env.hidden_values())

    async def _ask(self, slot: Slot, seed: int, question: Callable[[EpisodeEnv], Awaitable[T]]) -> T:
        await self.reset(slot, seed)
        try:
            return await question(self._envs[slot])
        except EnvironmentFault as fault:
            again = self._episodes[slot] > 1 and self._may_replace(fault)
            await self.drop(slot)
            if again:
                return await self._ask(slot, seed, question)
            fault.add_note(f"seed {seed}")
            raise

    def _may_replace(self, fault: EnvironmentFault) -> bool:
        """Whether to open another child for the one that this fault ended; counted."""
        if fault.kind not in _USED_UP or self._replacements == 0:
            return False
        self._replacements -= 1
        return True

    async def drop(self, slot: Slot) -> None:
        """Close the child in `slot`; the next use opens a fresh one."""
        env = self._envs.pop(slot, None)
        if env is not None:
            await env.aclose()

    async def aclose(self) -> None:
        """Close all children, and then raise the first fault that closing one met."""
        faults: list[SandboxFault] = []
        for slot in tuple(self._envs):
            try:
                await self.drop(slot)
            except SandboxFault as fault:
                faults.append(fault)
        if faults:
            raise faults[0]
