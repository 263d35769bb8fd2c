from __future__ import annotations

from dataclasses import replace

import pytest

from spade_evals.log import Samples
from spade_evals.summary import pass_at, pass_hat, summarise
from spade_evals.types import ColumnSettings, SampleOutcome
from tests.evals.logs import HEADER, failed, sample


def summary(samples, doubled=(), **changes):
    header = replace(HEADER, **{"asked": {"right": len({one.id for one in samples})}, **changes})
    return summarise(header, Samples({one.key: one for one in samples}, doubled))


def test_all_counts_stand_beside_the_mean_and_no_fault_is_a_zero():
    found = summary([sample("a"), sample("b", 0.0), failed("c"), sample("d", outcome=SampleOutcome.UNSCORABLE)])
    column = found.columns["right"]
    assert (column.scored, column.infrastructure, column.unscorable, column.missing, column.asked) == (2, 1, 1, 0, 4)
    assert column.mean == 0.5


def test_the_overall_mean_is_withheld_until_every_sample_was_taken():
    assert summary([sample("a"), sample("b", 0.0)]).overall == 0.5
    broken = summary([sample("a"), failed("b")])
    assert broken.overall is None
    assert "1 infrastructure errors" in broken.withheld
    short = summary([sample("a")], asked={"right": 2})
    assert short.overall is None
    assert "1 not taken" in short.withheld
    assert not short.is_complete
    assert summary([sample("a")], doubled=(("a", 0, 0),)).overall is None
    assert summary([sample("a")], not_run={"left": "no file"}).withheld == "left was not run"
    many = dict.fromkeys("abcdef", "no file")
    assert summary([sample("a")], not_run=many).withheld == "a, b, c, d and 2 more were not run"


def test_what_could_not_run_counts_as_0_in_a_partial_mean_that_tells_its_coverage():
    found = summary([sample("a"), sample("b", 0.0)], not_run={"left": "no file"}, weights={"right": 30, "left": 10})
    assert (found.overall, found.partial, found.coverage) == (None, 0.375, 0.75)
    equal = summary([sample("a"), sample("b", 0.0)], not_run={"left": "no file"})
    assert (equal.partial, equal.coverage) == (0.25, 0.5)
    assert summary([sample("a"), failed("b")], not_run={"left": "no file"}).partial is None
    assert summary([sample("a")]).partial is None


def test_a_column_that_the_model_was_trained_on_has_no_mean():
    found = summary([sample("a"), sample("b")], trained_on={"right": 1})
    assert found.columns["right"].mean is None
    assert found.columns["right"].withheld == "the model was trained on 1 of these tasks"
    assert found.overall is None
    assert found.groups == {}


def test_repetitions_of_a_task_are_one_cluster_and_give_pass_at_k():
    wins = {"a": (1.0, 1.0), "b": (1.0, 0.0), "c": (0.0, 0.0)}
    samples = [sample(name, score, epoch=epoch) for name, scores in wins.items() for epoch, score in enumerate(scores)]
    column = summary(samples, columns={"right": ColumnSettings(n=2)}).columns["right"]
    assert column.mean == 0.5
    # Deviations by task: +1, 0, -1; sqrt(3/2 * 2) / 6.
    assert column.standard_error == pytest.approx(3**0.5 / 6)
    assert column.pass_at == {"2": pytest.approx(2 / 3)}
    assert column.pass_hat == {"2": pytest.approx(1 / 3)}


def test_pass_at_k_and_pass_hat_k_by_hand():
    assert pass_at(3, 1, 2) == pytest.approx(2 / 3)
    assert pass_hat(3, 2, 2) == pytest.approx(1 / 3)
    assert pass_at(4, 0, 4) == 0.0
    assert pass_hat(4, 4, 4) == 1.0


def test_weights_make_the_overall_mean_and_a_part_alone_makes_none():
    samples = [sample("a"), sample("b", 0.0, column="left")]
    columns = {"right": ColumnSettings(), "left": ColumnSettings()}
    whole = summary(samples, columns=columns, asked={"right": 1, "left": 1}, weights={"right": 0.75, "left": 0.25})
    assert whole.overall == 0.75
    part = summary([sample("a")], weights={"right": 0.75, "left": 0.25})
    assert part.overall is None
    assert part.withheld == "partial: left not asked for"


def test_reasons_and_groups_are_counted():
    samples = [sample("a", 0.0, reason="context"), sample("b", 0.0), sample("c", tags={"skill": "x"})]
    found = summary(samples)
    assert found.columns["right"].reasons == {"context": 1, "wrong": 1}
    assert found.groups["skill"]["x"].mean == 1.0
