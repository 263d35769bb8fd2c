"""A finished run that is resumed with more rollouts is the run that it would have been with that number at once."""

from __future__ import annotations

import json
import shutil

import pytest

from spade_agents.errors import CheckpointError
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.preflight import continued_from
from spade_agents.selfplay.run_directory import RunDirectory
from tests.agents.selfplay.scripted import run, settings
from tests.agents.selfplay.test_loop import count_evaluations, without_seconds

FAST = ("selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2", "evaluation.every=2")


def left_by(path):
    directory = RunDirectory(path)
    plays = [list(directory.read_trajectories(number)) for number in range(5)]
    pool = {folder.name: (folder / "outcomes.jsonl").read_text() for folder in (path / "environments").glob("*/")}
    saved = newest_stable(directory.checkpoints)
    remembered = json.loads(saved.memory.read_bytes())["rows"]  # not their digest: certificates hold seconds
    return without_seconds(directory.metrics.rows()), plays, pool, saved.state.read_bytes(), remembered


# Of checkpoint_every = 3 none falls on the end of the short run: the one before its last update is made all the same.
@pytest.mark.parametrize("more", [(), ("run.checkpoint_every=3", "run.keep_checkpoints=1")], ids=["each", "sparse"])
async def test_a_lengthened_run_equals_one_of_that_length(tmp_path, more):
    await run(tmp_path / "long", settings(*FAST, *more, "run.rollouts=4"), evaluator=count_evaluations)
    for rollouts in (1, 2, 4):
        chosen = settings(*FAST, *more, f"run.rollouts={rollouts}")
        _, state = await run(tmp_path / "run", chosen, evaluator=count_evaluations)
        assert (state.rollout, state.finished) == (rollouts, True)
    assert left_by(tmp_path / "run") == left_by(tmp_path / "long")
    assert RunDirectory(tmp_path / "run").settings.run.rollouts == 4


async def test_a_finished_run_without_the_checkpoint_before_its_last_update_is_not_lengthened(tmp_path):
    await run(tmp_path / "run", settings(*FAST, "run.rollouts=1"))
    checkpoints = tmp_path / "run" / "checkpoints"
    assert continued_from(checkpoints, settings(*FAST, "run.rollouts=1")).path.name == "step-2"
    shutil.rmtree(checkpoints / "step-1")
    with pytest.raises(CheckpointError, match=r"finished after 1 rollouts, and step-1 .* model\.start=RUN"):
        continued_from(checkpoints, settings(*FAST, "run.rollouts=2"))
    assert continued_from(checkpoints, settings(*FAST, "run.rollouts=1")).path.name == "step-2"
