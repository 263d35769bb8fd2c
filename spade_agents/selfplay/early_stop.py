"""When a run is over: all rollouts done, or held-out evaluations that have stopped getting better."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from spade_agents.rollout import EvalSummary
from spade_agents.selfplay.settings import HeldOutStop, RunSettings
from spade_agents.selfplay.state import LoopState

__all__ = ["is_over", "stopped_early", "with_evaluation"]


def is_over(settings: RunSettings, state: LoopState) -> bool:
    """Whether no rollout is left to do; the designs still waiting may be."""
    return state.rollout >= settings.run.rollouts or stopped_early(settings, state)


def stopped_early(settings: RunSettings, state: LoopState) -> bool:
    """Whether patience with the held-out evaluations is at an end."""
    stop = settings.run.early_stop
    return isinstance(stop, HeldOutStop) and state.stale >= stop.patience


def with_evaluation(settings: RunSettings, state: LoopState, summary: EvalSummary) -> LoopState:
    """The state after an evaluation; one without a valid play of what counts says nothing either way.

    The evaluation at the end does not count: a longer run would not have done it.
    """
    stop = settings.run.early_stop
    if not isinstance(stop, HeldOutStop) or state.finished:
        return state
    counted = [part.win_rate for name, part in summary.parts.items() if stop.part in ("", name)]
    rates = [rate for rate in counted if rate is not None]
    if not rates or len(rates) < len(counted):
        return state
    rate = fmean(rates)
    if state.best is None or rate > state.best + stop.min_gain:
        return replace(state, best=rate, stale=0)
    return replace(state, stale=state.stale + 1)
