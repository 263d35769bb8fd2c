"""ServedEpisode: the state machine between whatever carries a client's calls and an `Env`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec

from spade_environments import (
    Env,
    EnvironmentFault,
    EnvironmentSpec,
    Observation,
    Reply,
    SandboxFault,
    StepResult,
    ToolCall,
    ToolSpec,
)
from spade_environments.sandbox import Sandbox
from spade_environments.validation import ARGUMENTS_LIMIT, CallErrorKind
from spade_tools.carried import Carried
from spade_tools.types import (
    Answer,
    EpisodeLimits,
    EpisodeOutcome,
    EpisodeReport,
    EpisodeRequest,
    Exchange,
    Mode,
    Phase,
)

__all__ = ["RequestError", "ServedEpisode", "open_episode"]

T = TypeVar("T")
K = TypeVar("K")

_ERROR_KINDS = frozenset({*CallErrorKind, "reply"})
_TURNS_LIMIT = 10_000
_SEED_LIMIT = 2**63
_NOT_RESET = "Error: the episode has not begun; call reset first."
_FAILED = "Error: the environment failed; the episode is over."
_AGENT_OVER = "Error: the episode is over; nothing more can be done in it."
_PLAY_OVER = "Error: the episode is over; call reset to play again."


class RequestError(ValueError):
    """A request for an episode that cannot be."""


class ServedEpisode:
    """One episode, one action at a time; every wrong-state call gets a clear error and changes nothing.

    In agent mode the episode starts on first contact with `seed`; in play mode `reset` starts it, as often as wished.
    An action that has begun is carried through even if its caller is cancelled. A fault ends the episode.

    Args:
        env: not reset yet; closed by `aclose`, and when an agent's episode is over.
        spec: what `env` is an episode of.
        takes_replies: whether the environment has a user to reply to (a ToolEnv).
        seed: of the instance in agent mode, and of every one that a player asks for without a seed; each of those is
            drawn at random where `None`, and so is the agent's.
        mode: agent or play.
        limits: turns and idle time.
        hint: what a player may ask for, or `None`.
        identity: shown in the report.
    """

    def __init__(
        self,
        env: Env,
        spec: EnvironmentSpec,
        *,
        takes_replies: bool,
        seed: int | None,
        mode: Mode = Mode.AGENT,
        limits: EpisodeLimits | None = None,
        hint: str | None = None,
        identity: str = "",
    ) -> None:
        self.spec, self.mode, self.takes_replies, self.hint = spec, mode, takes_replies, hint
        self.identity = identity
        self.limits = limits or EpisodeLimits()
        self.phase = Phase.NEEDS_RESET
        self.task = ""
        self.tools: tuple[ToolSpec, ...] = ()
        self.own_max_turns = env.max_turns
        self.max_turns = env.max_turns if self.limits.turns is None else self.limits.turns
        self._env = env
        self._wanted_seed = seed
        self._first_seed = self._seed = _drawn() if seed is None else seed
        self._lock = asyncio.Lock()
        self._work: Carried[Any] | None = None
        self._begin(None)
        self._closed = False

    @property
    def reward(self) -> float | None:
        """The return, once there is one; never for the client of an agent's episode."""
        return self._reward

    @property
    def is_acting(self) -> bool:
        """Whether an action or a reset is under way."""
        return self._lock.locked()

    async def start(self) -> None:
        """First contact: begins an agent's episode; a player's is only looked into, for the tools that it starts with.

        A fault on the way ends it.
        """
        if self.phase is not Phase.NEEDS_RESET or self.tools:
            return
        await self._carried(_apart(self._look()))

    async def reset(self, seed: int | None = None) -> Answer:
        """Begin the instance of `seed`, or the one that was asked for, or any: play mode only."""
        chosen = self._wanted_seed if seed is None else seed
        return await self._carried(_apart(self._reset(_drawn() if chosen is None else chosen)))

    async def act(self, action: ToolCall | Reply) -> Answer:
        """Take one action, which counts as one turn, or say why it cannot be taken."""
        return await self._carried(self._step(action))

    def current_task(self) -> Answer:
        """The current instruction."""
        if self.phase is Phase.NEEDS_RESET or not self.task:
            return self._refused()
        return Answer(text=self.task, over=self.phase is Phase.OVER, score=self._score())

    def report(self) -> EpisodeReport:
        """All that is known of it: for the trainer alone."""
        return EpisodeReport(
            id=self.identity,
            environment=self.spec.name,
            environment_id=self.spec.id,
            seed=self._seed,
            mode=self.mode,
            phase=self.phase,
            outcome=self._outcome,
            reward=self._reward,
            fault=self._fault,
            opening=self._opening,
            turns=self._turns,
            transcript=self._told(),
        )

    async def aclose(self) -> None:
        """End the episode and its process; one that was running has no outcome."""
        self._closed, self.phase = True, Phase.OVER
        await self._env.aclose()

    def _begin(self, opening: str | None) -> None:
        self._opening = opening
        self._turns = 0
        self._transcript: list[Exchange] = []
        self._untold: list[tuple[ToolCall | Reply, StepResult]] = []
        self._outcome: EpisodeOutcome | None = None
        self._reward: float | None = None
        self._fault: str | None = None

    async def _carried(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work` when its turn has come, to its end even if the caller is cancelled meanwhile."""
        try:
            await self._lock.acquire()
        except BaseException:
            work.close()
            raise
        self._work = carried = Carried(self._released(work))
        return await carried

    async def _released(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await work
        finally:
            self._lock.release()

    async def _look(self) -> None:
        if self.phase is not Phase.NEEDS_RESET or self.tools:
            return
        found = await self._reset(self._first_seed)
        if self.mode is Mode.PLAY and not found.is_error:
            self.phase, self.task = Phase.NEEDS_RESET, ""

    async def _reset(self, seed: int) -> Answer:
        if self._closed:
            return self._refused()
        try:
            first = await self._env.reset(seed)
        except SandboxFault as fault:
            return self._failed(fault)
        self._begin(first.text)
        self._seed, self.task, self.tools, self.phase = seed, first.text, self._env.tools, Phase.RUNNING
        return Answer(text=first.text)

    async def _step(self, action: ToolCall | Reply) -> Answer:
        if self.phase is not Phase.RUNNING:
            return self._refused()
        try:
            result = await self._env.step(action)
        except SandboxFault as fault:
            return self._failed(fault)
        self._book(action, result)
        self._settle(result)
        observation = result.observation
        if isinstance(action, Reply) and self.takes_replies and "error" not in result.info:
            self.task = observation.text
        if observation.tools:
            self.tools += observation.tools
        answer = self._answer(observation, result)
        if answer.over and self.mode is Mode.AGENT:
            await self._env.aclose()
        return answer

    def _book(self, action: ToolCall | Reply, result: StepResult) -> None:
        """Keep what happened: as it is, and as an exchange once somebody asks; what may be huge is cut down at once."""
        self._turns += 1
        self._untold.append((action, result))
        if "error" in result.info:
            self._told()

    def _told(self) -> tuple[Exchange, ...]:
        self._transcript += [_exchange(action, result) for action, result in self._untold]
        self._untold.clear()
        return tuple(self._transcript)

    def _settle(self, result: StepResult) -> None:
        """Whether that was the end, and how."""
        if result.terminated:
            self.phase, self._outcome, self._reward = Phase.OVER, EpisodeOutcome.SCORED, result.reward
        elif result.truncated or self._turns >= self.max_turns:
            self.phase, self._outcome, self._reward = Phase.OVER, EpisodeOutcome.AGENT_ERROR, 0.0

    def _answer(self, observation: Observation, result: StepResult) -> Answer:
        kind = result.info.get("error")
        known = kind if isinstance(kind, str) and kind in _ERROR_KINDS else None
        return Answer(
            text=observation.text,
            over=self.phase is Phase.OVER,
            is_error=known is not None or (self.takes_replies and result.info.get("ok") is False),
            error=known,
            new_tools=observation.tools,
            score=self._score(),
        )

    def _failed(self, fault: SandboxFault) -> Answer:
        """The client learns that it failed; why, stands in the report, for it may quote the source."""
        self.phase = Phase.OVER
        if not self._closed and self._outcome is None:
            ours = not isinstance(fault, EnvironmentFault)
            self._outcome = EpisodeOutcome.INFRASTRUCTURE_FAULT if ours else EpisodeOutcome.ENVIRONMENT_FAULT
            self._fault = str(fault)
        return Answer(text=_FAILED, over=True, is_error=True)

    def _refused(self) -> Answer:
        over = self.phase is Phase.OVER
        agent = _AGENT_OVER if self._fault is None else _FAILED
        play = _PLAY_OVER if not self._closed else agent
        told = (play if self.mode is Mode.PLAY else agent) if over else _NOT_RESET
        return Answer(text=told, over=over, is_error=True, score=self._score())

    def _score(self) -> float | None:
        return self._reward if self.mode is Mode.PLAY else None


def _drawn() -> int:
    return secrets.randbelow(2**31)


async def _apart(work: Coroutine[Any, Any, T]) -> T:
    """In a task of its own: a process is started on the way, with deadlines that hold on to the task they began in."""
    return await asyncio.create_task(work)


def _exchange(action: ToolCall | Reply, result: StepResult) -> Exchange:
    call = action if isinstance(action, ToolCall) else None
    name, arguments = (None, None) if call is None else (call.name, call.arguments)
    text = action.text if isinstance(action, Reply) else None
    if "error" in result.info:  # malformed, so that anything may stand in it
        name, arguments, text = _kept(name), _kept(arguments), _kept(text)
    return Exchange(
        tool="?" if call is not None and name is None else name,
        arguments=arguments,
        text=text,
        observation=result.observation.text,
        role=result.observation.role,
        reward=result.reward,
        terminated=result.terminated,
        truncated=result.truncated,
        info=result.info,
        new_tools=tuple(tool.name for tool in result.observation.tools),
    )


def _kept(value: K) -> K | None:
    """`value`, or `None` where it is too large to be kept or cannot be told in JSON."""
    try:
        size = len(msgspec.json.encode(value))
    except (ValueError, OverflowError, RecursionError, TypeError, msgspec.MsgspecError):
        return None
    return value if size <= ARGUMENTS_LIMIT else None


async def open_episode(
    sandbox: Sandbox, spec: EnvironmentSpec, request: EpisodeRequest, *, identity: str = ""
) -> ServedEpisode:
    """Open the process of an episode; nothing is reset yet.

    Raises:
        RequestError: what is asked for does not fit together, or a value is out of its range.
        EnvironmentFault: the source was refused, or broke a limit while it was loaded.
        HostFault: no process could be had.
    """
    _check(request, spec)
    env = await sandbox.open(spec)
    return ServedEpisode(
        env,
        spec,
        takes_replies=env.description.base == "tool",
        seed=request.seed,
        mode=request.mode,
        limits=request.limits,
        hint=spec.hint if request.hint and request.mode is Mode.PLAY else None,
        identity=identity,
    )


def _check(request: EpisodeRequest, spec: EnvironmentSpec) -> None:
    limits = request.limits
    if request.seed is not None and not -_SEED_LIMIT < request.seed < _SEED_LIMIT:
        raise RequestError(f"seed is {request.seed}; wanted a whole number of at most 63 bits")
    if limits.turns is not None and not 1 <= limits.turns <= _TURNS_LIMIT:
        raise RequestError(f"limits.turns is {limits.turns}; wanted 1 to {_TURNS_LIMIT}")
    if limits.idle_seconds is not None and not 0 < limits.idle_seconds <= 86_400:
        raise RequestError(f"limits.idle_seconds is {limits.idle_seconds:g}; wanted more than 0, at most 86400")
    if request.hint and request.mode is not Mode.PLAY:
        raise RequestError("hint goes with mode play only: an agent never sees it")
    if request.hint and spec.hint is None:
        raise RequestError(f"{spec.name} has no hint")
