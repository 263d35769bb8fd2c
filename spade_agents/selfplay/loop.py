"""The self-play loop: design, play both arms, score, update on both roles, remember; one rollout after another."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from spade_agents.selfplay.checkpoint import Checkpoint, prune, save_checkpoint
from spade_agents.selfplay.design_figures import DesignFigures
from spade_agents.selfplay.design_phase import close_set, make_set
from spade_agents.selfplay.early_stop import is_over, stopped_early, with_evaluation
from spade_agents.selfplay.play_phase import play_set
from spade_agents.selfplay.records import AHEAD, evaluation_row, flush_row, record_outcomes, rollout_row, told
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.state import NOTHING_CLOSED, LoopState, SampledRollout
from spade_agents.selfplay.update_beside import update_beside
from spade_agents.selfplay.update_phase import update

__all__ = ["StopRequest", "run_loop"]


class StopRequest:
    """Whether a person asked the run to stop; it stops between two rollouts, after a checkpoint."""

    def __init__(self) -> None:
        self.wanted = False

    @contextmanager
    def on_interrupt(self, say: Callable[[str], None]) -> Iterator[None]:
        """Let the first Ctrl-C ask for a stop; a second one interrupts at once, as it would without this.

        Outside the main thread there are no signals, and nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def asked() -> None:
            self.wanted = True
            loop.remove_signal_handler(signal.SIGINT)
            say("Stopping after this rollout. Press Ctrl-C again to stop at once, back at the last checkpoint.")

        loop.add_signal_handler(signal.SIGINT, asked)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


async def run_loop(resources: Resources, state: LoopState, stop: StopRequest) -> LoopState:
    """Go on from `state` until the run is over (see `is_over`), or a stop is asked for.

    Every random choice depends on the run's seed and the rollout alone, never on the clock: a resumed run takes the
    steps that the unbroken one would have taken.

    Returns:
        The state reached; `finished` unless a stop was asked for.
    """
    settings, run = resources.settings, resources.settings.run
    resources.progress.begin(run.name, run.rollouts)
    resources.progress.advance(state.rollout)
    if state.evaluated is None:
        checkpoint(resources, state)
        state = await evaluate(resources, state)
    elif not state.finished and _evaluation_is_due(resources, state):
        # A run that ended here, and so evaluated after its last update, is being lengthened.
        state = await evaluate(resources, state)
    # What was sampled ahead is trained on even where the run has ended early: designs wait in it.
    while not (state.finished or stop.wanted) and (state.ahead is not None or not is_over(settings, state)):
        state = await one_rollout(resources, state)
        state = await evaluate(resources, state) if _evaluation_is_due(resources, state) else state
        if state.rollout % run.checkpoint_every == 0 or stop.wanted:
            checkpoint(resources, state)
        resources.progress.advance()
    if is_over(settings, state) and not (state.finished or stop.wanted):
        if stopped_early(settings, state):
            resources.progress.say(
                f"Held out no better than {state.best:.3f} for {state.stale} evaluations: that is all."
            )
        checkpoint(resources, state)  # from here a longer run goes on
        state = await finish(resources, state)
        checkpoint(resources, state)
    return state


async def one_rollout(resources: Resources, state: LoopState) -> LoopState:
    """One cycle of the method: a new set where one is due, its plays, one update on the samples of both roles.

    Asynchronously the next rollout is sampled during the update, with the weights of before it.
    """
    state = state if state.ahead is not None else await sample(resources, state)
    assert state.ahead is not None
    rollout, sampled = state.rollout, state.ahead
    with resources.timed("train"):
        if resources.settings.selfplay.asynchronous and not is_over(resources.settings, _after(state)):
            trained, state = await update_beside(
                resources, state, sampled, sample(resources, _after(state), suffix=AHEAD)
            )
        else:
            trained = update(resources, state, sampled.played.unhinted, sampled.closed)
            state = _after(state)
    state = replace(state, step=trained.metrics.step)
    resources.directory.write_trajectories(rollout, sampled.played.trajectories)
    record_outcomes(resources, rollout, sampled.played)
    row = rollout_row(resources, rollout, sampled.figures, sampled.played, trained)
    resources.progress.say(told(row))
    return resources.logged(state, row)


async def sample(resources: Resources, state: LoopState, *, suffix: str = "") -> LoopState:
    """The state with its next rollout sampled, by the weights that the policy has; `suffix` names the phases apart."""
    closed, figures = NOTHING_CLOSED, DesignFigures()
    with resources.timed(f"design{suffix}"):
        if state.rollout % resources.settings.selfplay.period == 0:
            closed = close_set(resources, state)
            state, figures = await make_set(resources, replace(state, current=None, potential=closed.potential))
    with resources.timed(f"play{suffix}"):
        played = await play_set(resources, state)
    return replace(state, current=played.current, ahead=SampledRollout(played=played, closed=closed, figures=figures))


def _after(state: LoopState) -> LoopState:
    """The state once its sampled rollout is trained on, but for the engine's step."""
    return replace(state, rollout=state.rollout + 1, ahead=None)


async def finish(resources: Resources, state: LoopState) -> LoopState:
    """Train the designs still waiting, so that the last set is not lost, and evaluate for the last time."""
    closed = close_set(resources, state)
    with resources.timed("train"):
        trained = update(resources, state, (), closed)
    state = replace(state, step=trained.metrics.step, current=None, potential=closed.potential)
    state = resources.logged(state, flush_row(state.rollout, trained))
    return await evaluate(resources, replace(state, finished=True))


async def evaluate(resources: Resources, state: LoopState) -> LoopState:
    """Held-out plays of the policy as it stands: the same ones every time."""
    if resources.evaluator is None:
        return replace(state, evaluated=state.rollout)
    with resources.timed("evaluate"):
        seed = resources.settings.evaluation.seed
        summary = await resources.evaluator(resources.policy, step=state.rollout, seed=seed)
    resources.directory.write_evaluation(state.rollout, summary)
    row = evaluation_row(resources, state.rollout, summary)
    resources.progress.say(told(row))
    state = with_evaluation(resources.settings, state, summary)
    return replace(resources.logged(state, row), evaluated=state.rollout)


def checkpoint(resources: Resources, state: LoopState) -> Checkpoint:
    """Write all that the run needs to go on from here, and drop the oldest checkpoints."""
    folder = resources.directory.checkpoints
    saved = save_checkpoint(folder, state.rollout + state.finished, lambda draft: resources.save(draft, state))
    # Of a finished run the one before its last update stays too: a longer run goes on from there.
    prune(folder, max(resources.settings.run.keep_checkpoints, 1 + state.finished))
    return saved


def _evaluation_is_due(resources: Resources, state: LoopState) -> bool:
    every = resources.settings.evaluation.every
    is_new = state.evaluated is None or state.evaluated < state.rollout
    if stopped_early(resources.settings, state):
        return False  # only what was sampled ahead is left, and the evaluation at the end
    return every > 0 and is_new and state.rollout % every == 0 and state.rollout < resources.settings.run.rollouts
