"""A policy over copies of the sampler in other processes: the same completions, wherever they are sampled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spade_agents.messages import Conversation
from spade_agents.policy import PolicyInfo, Sampling, open_policy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.runtime.ranks import RemoteWeights
from spade_agents.runtime.remote import Answer, LostError, Member, answering, losing
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion

if TYPE_CHECKING:
    from spade_agents.policy.arrival import Arrival

__all__ = ["ProvingRemotePolicy", "RemotePolicy", "SamplingEngine", "remote_policy"]

_TRIES = 3
"""How often a completion is sampled before a loss of engines is told."""


class SamplingEngine:
    """What runs beside the model: a policy, opened when first asked for, and the weights that it was given."""

    def __init__(self, folder: str, vllm: VllmSettings | None) -> None:
        self._folder, self._vllm = folder, vllm
        self._stack = AsyncExitStack()
        self._changing = asyncio.Lock()
        self._policy: Any = None

    @answering
    async def restore(self, weights: Answer[Any] | None, version: int) -> tuple[PolicyInfo, bool]:
        """Open the policy and give it the weights in use, unless it has them; what it is, and if it proves arrival."""
        async with self._changing:
            policy = await self._opened()
            if weights is not None and policy.info.weight_version != version:
                self._load(weights, version)
        return policy.info, hasattr(policy, "arrival")

    @answering
    async def load(self, weights: Answer[Any], version: int) -> None:
        """See `TrainablePolicy.load_weights`."""
        async with self._changing:
            await self._opened()
            self._load(weights, version)

    @answering
    async def complete(
        self, conversation: Conversation, sampling: Sampling, seed: int, seconds: float | None, version: int
    ) -> Completion | None:
        """A completion with weights of `version`; none where Ray has started this engine again without them.

        Args:
            conversation: see `Policy`.
            sampling: see `Policy`.
            seed: see `Policy`.
            seconds: until the deadline, since clocks of machines differ.
            version: of the weights.
        """
        if self._policy is None or self._policy.info.weight_version != version:
            return None
        deadline = None if seconds is None else time.monotonic() + seconds
        found: Completion = await self._policy.complete(conversation, sampling, seed=seed, deadline=deadline)
        return found

    @answering
    async def arrival(self) -> Any:
        """See `ProvingPolicy`."""
        return self._policy.arrival()

    @answering
    async def score(self, token_ids: Sequence[int], temperature: float) -> Any:
        """See `ScoringPolicy`."""
        return self._policy.score(token_ids, temperature=temperature)

    async def close(self) -> None:
        """End the policy, and the server that it may have started."""
        await self._stack.aclose()

    async def _opened(self) -> Any:
        if self._policy is None:
            opened = open_policy(self._folder, backend="vllm" if self._vllm else "auto", vllm=self._vllm)
            self._policy = await self._stack.enter_async_context(opened)
        return self._policy

    def _load(self, weights: Answer[Any], version: int) -> None:
        from spade_agents.policy.arrays import from_arrays

        self._policy.load_weights(from_arrays(weights.opened()), version)


class RemotePolicy:
    """A policy in training over several engines; plays of one instance go to one engine, which has their prefix.

    A completion whose engine is lost is sampled again, by another one or by the same once it is back with its weights:
    the same seed, weights and conversation give the same tokens.

    Args:
        engines: handles of remote `SamplingEngine`s.
        info: of their policies.
        folder: of the model, for its renderer.
        tolerance: mean difference of log-probabilities between two engines that is rounding.
        lost: told whenever an engine is lost.
    """

    def __init__(
        self, engines: Sequence[Any], info: PolicyInfo, folder: Path, *, tolerance: float, lost: Callable[[], None]
    ) -> None:
        from spade_agents.policy.model_files import renderer_of

        found = renderer_of(folder)
        self.renderer, self.deviation, self.style = found.renderer, found.deviation, found.renderer.style
        self.info = info
        self.members = [
            Member(handle, f"sampler {number}", restore=self._in_use, lost=lost)
            for number, handle in enumerate(engines)
        ]
        self._tolerance = tolerance
        self._weights: Any = None

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """See `Policy`."""
        for _ in range(_TRIES):
            member = self._chosen(conversation)
            try:
                await member.back()
                seconds = None if deadline is None else max(0.0, deadline - time.monotonic())
                arguments = (conversation, sampling, seed, seconds, self.info.weight_version)
                found: Completion | None = await member.ask("complete", *arguments)
            except LostError:
                continue
            if found is not None:
                return found
            member.renew()
        raise LostError(f"samplers were lost {_TRIES} times over one completion")

    def load_weights(self, state: Mapping[str, Any], version: int) -> None:
        """Hand weights to every engine, through Ray's object store, where they stay until the next ones.

        Raises:
            InfrastructureError: an engine does not come back, or cannot load them.
        """
        import ray

        from spade_agents.policy.arrays import to_arrays

        kept = state.reference if isinstance(state, RemoteWeights) else ray.put(Answer(value=to_arrays(state)))
        self._weights, self.info = kept, replace(self.info, weight_version=version)
        self._each("load", *self._in_use())

    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """The first engine's log-probabilities of given tokens, once all engines were seen to agree.

        Raises:
            ArrivalError: they do not.
        """
        from spade_agents.policy.arrival import check_canary

        first, *others = self._each("score", tuple(token_ids), temperature)
        for scores in others:
            check_canary(first, scores, tolerance=self._tolerance)
        scored: list[float] = first
        return scored

    def _in_use(self) -> tuple[Any, int]:
        return self._weights, self.info.weight_version

    def _chosen(self, conversation: Conversation) -> Member:
        there = [member for member in self.members if not member.away] or self.members
        opening = (message.content for message in conversation.messages[:2])
        return there[derive_seed(0, "engine", *opening) % len(there)]

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Ask all engines at once, from outside the event loop; one that was lost is restored and asked again."""
        import ray

        def asked(member: Member) -> Any:
            return getattr(member.handle, method).options(max_task_retries=-1).remote(*arguments)

        if method not in ("restore", "load"):
            self._each("restore", *self._in_use())
        references = [asked(member) for member in self.members]
        with losing(lambda why: LostError(f"a sampler was lost in {method} and did not come back: {why}")):
            return [answer.opened() for answer in ray.get(references)]


class ProvingRemotePolicy(RemotePolicy):
    """One whose engines tell what weights they hold."""

    def arrival(self) -> Arrival:
        """What all engines hold.

        Raises:
            ArrivalError: they hold different weights.
        """
        from spade_agents.policy.arrival import ArrivalError

        first, *others = self._each("arrival")
        for number, other in enumerate(others, start=1):
            if (other.version, other.sums) != (first.version, first.sums):
                raise ArrivalError(f"sampler {number} holds other weights than sampler 0; resume the run")
        found: Arrival = replace(first, prefixes=max(each.prefixes for each in (first, *others)))
        return found


async def remote_policy(
    engines: Sequence[Any], folder: Path, *, tolerance: float, lost: Callable[[], None]
) -> RemotePolicy:
    """The policy over started engines.

    Raises:
        InfrastructureError: an engine does not come up.
    """
    with losing(lambda why: LostError(f"a sampler was lost before it was up: {why}")):
        answers = await asyncio.gather(*(engine.restore.remote(None, 0) for engine in engines))
    (info, proves), *_ = [answer.opened() for answer in answers]
    kind = ProvingRemotePolicy if proves else RemotePolicy
    return kind(engines, info, folder, tolerance=tolerance, lost=lost)
