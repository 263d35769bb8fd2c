from __future__ import annotations

import json
import shutil

import pytest

from spade_agents.selfplay.pool import Pool
from spade_environments.registry import catalogue
from spade_evals.suites.environments import EnvironmentsSuite, trained_on


@pytest.fixture
def checkpoint(tmp_path):
    """A run with one environment in its pool, and a model's folder where a checkpoint has it."""
    trained = catalogue()[0]
    pool = Pool(tmp_path / "run" / "environments")
    pool.add(trained, None)
    pool.index((trained.id,))
    model = tmp_path / "run" / "checkpoints" / "step-1" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "spade.json").write_text(json.dumps({"trained_on": [trained.id]}))
    return model


def test_what_a_checkpoint_was_trained_on_is_found_by_identity(checkpoint):
    shutil.rmtree(checkpoint.parents[2] / "environments")
    assert trained_on(str(checkpoint), catalogue()) == {catalogue()[0].id}


def test_the_same_program_in_other_words_is_found_in_the_pool_of_the_run(checkpoint):
    (checkpoint / "spade.json").write_text("{}")
    first = catalogue()[0]
    renamed = first.with_source(first.source + "\n# the same program\n")
    assert renamed.id != first.id
    assert trained_on(str(checkpoint), [renamed, catalogue()[1]]) == {renamed.id}


def test_the_suite_names_how_many_environments_were_not_held_out(checkpoint):
    data = EnvironmentsSuite(source="catalogue", model=str(checkpoint)).load(["win_rate"])
    assert data.trained_on == {"win_rate": 1}
    assert EnvironmentsSuite(source="catalogue", model="scripted:gold").load(["win_rate"]).trained_on == {}


def test_tasks_carry_skill_and_difficulty_and_the_checksum_is_the_identity():
    data = EnvironmentsSuite(source="catalogue").load(["win_rate"])
    spec = catalogue()[0]
    assert data.tasks[0].id == spec.id
    assert data.tasks[0].tags["skill"] == spec.skill.value
    assert data.checksums[spec.name] == spec.id
