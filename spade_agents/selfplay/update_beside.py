"""An update in a thread of its own, while the event loop samples the next rollout with the weights of before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.state import LoopState, SampledRollout
from spade_agents.selfplay.update_phase import Trained, prepare_update

__all__ = ["together", "update_beside"]

T = TypeVar("T")
U = TypeVar("U")


async def update_beside(
    resources: Resources, state: LoopState, sampled: SampledRollout, sampling: Coroutine[Any, Any, LoopState]
) -> tuple[Trained, LoopState]:
    """Train on one rollout while the next is sampled, then give the policy the new weights.

    The weights change only when both are done: no play sees two versions of them, and a policy with completions in
    flight would refuse them.

    Args:
        resources: of the run.
        state: before the update.
        sampled: what is trained on.
        sampling: makes the state with the next rollout.
    """
    try:
        ready = prepare_update(resources, state, sampled.played.unhinted, sampled.closed)
    except BaseException:
        sampling.close()
        raise
    metrics, after = await together(lambda: resources.engine.update(ready.batch, replay=ready.replay), sampling)
    resources.send_weights(ready.canary)
    return ready.trained(metrics), after


async def together(work: Callable[[], T], beside: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Blocking work in a thread, and a coroutine beside it; a fault of either is raised once both have ended.

    Where the work fails, or this is cancelled, the coroutine is cancelled; a thread cannot be, and ends by itself.
    """
    task = asyncio.create_task(beside)
    try:
        done = await asyncio.to_thread(work)
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return done, await task
