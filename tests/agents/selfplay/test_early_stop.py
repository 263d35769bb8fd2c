"""A run ends once held-out evaluations have stopped getting better, its waiting designs trained."""

from __future__ import annotations

import pytest

from spade_agents.errors import ConfigurationError
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay.early_stop import stopped_early, with_evaluation
from spade_agents.selfplay.state import LoopState
from tests.agents.selfplay.scripted import run, settings

STOP = ("run.early_stop={type='held_out', patience=2, min_gain=0.1}", "evaluation.evaluator=a:b", "evaluation.every=1")


def summary(**rates: float | None) -> EvalSummary:
    parts = {
        name: PartSummary(plays=4 if rate is not None else 0, missing=0, win_rate=rate, low=None, high=None)
        for name, rate in rates.items()
    }
    return EvalSummary(step=0, parts=parts)


def after(chosen, *evaluations: EvalSummary) -> LoopState:
    state = LoopState()
    for evaluation in evaluations:
        state = with_evaluation(chosen, state, evaluation)
    return state


def test_only_a_gain_above_the_least_one_counts_and_patience_is_for_evaluations_in_a_row():
    chosen = settings(*STOP)
    rates = (0.2, 0.25, 0.35, 0.3, 0.4)
    states = [after(chosen, *(summary(known=rate) for rate in rates[:count])) for count in range(1, 6)]
    assert [(state.best, state.stale) for state in states] == [(0.2, 0), (0.2, 1), (0.35, 0), (0.35, 1), (0.35, 2)]
    assert [stopped_early(chosen, state) for state in states] == [False, False, False, False, True]


def test_the_mean_of_the_parts_counts_or_the_part_that_is_named():
    both = settings(*STOP)
    one = settings(*STOP, "run.early_stop.part=known", "evaluation.parts={known='catalogue', other='catalogue'}")
    assert after(both, summary(known=0.2, other=0.6)).best == pytest.approx(0.4)
    assert after(one, summary(known=0.2, other=0.6)).best == 0.2


def test_an_evaluation_that_misses_a_part_says_nothing():
    chosen = settings(*STOP)
    assert after(chosen, summary(known=0.5), summary(known=None), summary(known=None)).stale == 0


async def test_a_run_that_stops_early_trains_its_last_designs_and_stays_finished(tmp_path):
    async def worse(policy, *, step, seed):
        return summary(known=0.5 - step / 100)

    chosen = settings(*STOP, "run.rollouts=6", "selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2")
    _, state = await run(tmp_path / "run", chosen, evaluator=worse)
    assert (state.rollout, state.finished, state.best, state.stale) == (2, True, 0.5, 2)
    resources, again = await run(tmp_path / "run", chosen, evaluator=worse)
    assert again == state
    assert [row["kind"] for row in resources.directory.metrics.rows()][-2:] == ["flush", "evaluation"]
    on = settings(*STOP[1:], "run.rollouts=3", "selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2")
    _, longer = await run(tmp_path / "run", on, evaluator=worse)
    assert (longer.rollout, longer.finished) == (3, True)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("evaluation.every=0",), "evaluation.every above 0"),
        (("evaluation.evaluator=none",), "set evaluation.evaluator"),
        (("run.early_stop.part=knwon",), "wanted one of evaluation.parts"),
    ],
)
def test_an_early_stop_without_evaluations_is_refused(more, told):
    with pytest.raises(ConfigurationError, match=told):
        settings(*STOP, *more)
