"""Asynchronous rollouts: the next one is sampled during an update, one version behind and never more."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

import spade_agents
from spade_agents.errors import CheckpointError, ConfigurationError, InfrastructureError, PolicyError
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay import loop
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.loop import StopRequest, run_loop
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState, WaitingDesign
from spade_agents.selfplay.update_beside import together
from spade_agents.selfplay.update_phase import checked_versions
from spade_agents.settings import load_settings
from spade_agents.trajectory import Completion, Outcome, Role, Trajectory, TrajectoryGroup, Turn, sample_from
from tests.agents.selfplay.scripted import run, scripted_resources, settings
from tests.agents.selfplay.test_loop import InterruptAt, without_seconds
from tests.agents.selfplay.test_resume import back_to, records
from tests.agents.selfplay.test_run import REPLAY, overrides, tiny  # noqa: F401

AHEAD = "selfplay.asynchronous=true"
FAST = (AHEAD, "selfplay.environments=2", "selfplay.plays=2", "selfplay.hint_plays=2", "run.keep_checkpoints=9")


def versions(batch, role: Role) -> set[int]:
    return {sample.weight_version for sample in batch[0] if sample.role is role}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("ahead") / "run"
    return asyncio.run(run(path, settings(*FAST, "run.rollouts=5")))


def test_each_rollout_but_the_first_is_sampled_with_the_weights_of_one_update_before(finished):
    resources, state = finished
    assert state.finished and state.ahead is None
    agent = [versions(batch, Role.AGENT) for batch in resources.engine.batches]
    assert agent == [{0}, {0}, {1}, {2}, {3}, set()]
    rows = resources.directory.metrics.rows()
    assert [row["train"]["behind"] for row in rows if row["kind"] == "rollout"] == [0, 1, 1, 1, 1]
    assert [row["kind"] for row in rows if "train" in row][-1] == "flush"


def test_designs_wait_one_version_longer_and_the_last_set_is_flushed(finished):
    resources, _ = finished
    batches = resources.engine.batches
    # Sets made at rollouts 0, 2 and 4; the later ones with the weights of one update before.
    assert [versions(batch, Role.DESIGNER) for batch in batches] == [set(), set(), {0}, set(), {1}, {3}]
    designed = [row["design"]["attempts"] for row in resources.directory.metrics.rows() if "design" in row]
    trained = [sum(sample.role is Role.DESIGNER for sample in batches[number][0]) for number in (2, 4, 5)]
    assert trained == designed


def test_what_is_sampled_ahead_goes_on_during_the_update(finished):
    resources, _ = finished
    rows = [row for row in resources.directory.metrics.rows() if row["kind"] == "rollout"]
    assert [sorted(row["seconds"]) for row in rows] == [
        ["design", "design ahead", "play", "play ahead", "train"],
        *[["design ahead", "play ahead", "train"]] * 3,
        ["train"],
    ]


async def test_without_the_setting_nothing_is_behind_and_nothing_is_told_of_it(tmp_path):
    resources, _ = await run(tmp_path / "run", settings(*FAST[1:], "run.rollouts=2"))
    assert [versions(batch, Role.AGENT) for batch in resources.engine.batches] == [{0}, {1}, set()]
    assert not any("behind" in row.get("train", {}) for row in resources.directory.metrics.rows())
    assert not newest_stable(resources.directory.checkpoints).ahead.exists()


async def test_resumed_from_any_checkpoint_the_next_batches_are_the_same(tmp_path, finished):
    whole, _ = finished
    for number in (0, 1, 4):
        path = tmp_path / f"from-{number}"
        shutil.copytree(whole.directory.path, path)
        back_to(path, number)
        resumed, state = await run(path, whole.settings)
        assert state.finished
        assert records(path) == records(whole.directory.path)
        assert resumed.engine.batches == whole.engine.batches[number:]


async def test_ctrl_c_stops_with_the_sampled_rollout_in_the_checkpoint(tmp_path, finished):
    whole, _ = finished
    chosen = settings(*FAST, "run.rollouts=5", "run.checkpoint_every=9")
    async with scripted_resources(tmp_path / "run", chosen) as resources:
        resources.progress = InterruptAt("rollout 1")
        stop = StopRequest()
        with stop.on_interrupt(resources.progress.say):
            state = await run_loop(resources, LoopState(), stop)
    assert state.ahead is not None
    assert newest_stable(resources.directory.checkpoints).ahead.exists()
    await run(tmp_path / "run", chosen)
    assert records(tmp_path / "run") == records(whole.directory.path)


async def test_a_sampled_rollout_that_cannot_be_read_is_a_corrupt_checkpoint(tmp_path, finished):
    whole, _ = finished
    shutil.copytree(whole.directory.path, tmp_path / "run")
    back_to(tmp_path / "run", 1)
    saved = newest_stable(tmp_path / "run" / "checkpoints")
    saved.ahead.write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"ahead\.json\.zst is not what was written"):
        await run(tmp_path / "run", whole.settings)


async def never_better(policy, *, step, seed):
    return EvalSummary(step=step, parts={"known": PartSummary(plays=1, missing=0, win_rate=0.5, low=0.1, high=0.9)})


async def test_where_a_run_stops_early_what_was_sampled_ahead_and_its_designs_are_trained_first(tmp_path):
    stop = ("run.early_stop.type=held_out", "run.early_stop.patience=2", "evaluation.every=1")
    evaluator = ("evaluation.evaluator=a:b",)
    chosen = settings(*FAST, "run.rollouts=9", *stop, *evaluator)
    resources, state = await run(tmp_path / "run", chosen, evaluator=never_better)
    rows = resources.directory.metrics.rows()
    assert state.finished
    assert [(row["kind"], row["rollout"]) for row in rows] == [
        ("evaluation", 0),
        ("rollout", 0),
        ("evaluation", 1),
        ("rollout", 1),
        ("evaluation", 2),
        ("rollout", 2),
        ("flush", 3),
        ("evaluation", 3),
    ]
    designed = sum(row["design"]["attempts"] for row in rows if "design" in row)
    assert sum(row["train"]["designer"] for row in rows if "train" in row) == designed


async def test_a_fault_while_the_next_rollout_is_sampled_ends_the_run_at_the_last_checkpoint(
    tmp_path, finished, monkeypatch
):
    whole, _ = finished
    play_set = loop.play_set

    async def broken(resources, state):
        if state.rollout == 2:
            raise InfrastructureError("the sandbox is gone")
        return await play_set(resources, state)

    monkeypatch.setattr(loop, "play_set", broken)
    with pytest.raises(InfrastructureError, match="the sandbox is gone"):
        await run(tmp_path / "run", whole.settings)
    assert newest_stable(tmp_path / "run" / "checkpoints").number == 1
    monkeypatch.setattr(loop, "play_set", play_set)
    await run(tmp_path / "run", whole.settings)
    assert records(tmp_path / "run") == records(whole.directory.path)


async def test_a_fault_of_the_update_calls_off_the_plays_beside_it():
    ended = asyncio.Event()

    async def sampling():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def update():
        raise PolicyError("the loss is not finite")

    with pytest.raises(PolicyError, match="not finite"):
        await together(update, sampling())
    assert ended.is_set()


async def test_a_fault_beside_the_update_is_raised_once_the_update_is_done():
    done = threading.Event()

    async def sampling():
        raise InfrastructureError("the server is gone")

    with pytest.raises(InfrastructureError, match="server is gone"):
        await together(done.set, sampling())
    assert done.is_set()


def played(*played_with: int) -> TrajectoryGroup:
    turns = tuple(
        Turn(completion=Completion(text="", prompt_ids=(1,), token_ids=(2,), logprobs=(-1.0,), weight_version=version))
        for version in played_with
    )
    play = Trajectory(environment_id="e" * 64, seed=7, turns=turns, outcome=Outcome.SCORED, reward=1.0)
    return TrajectoryGroup(environment_id="e" * 64, hinted=False, trajectories=(play,))


def design(version: int) -> WaitingDesign:
    completion = Completion(text="", prompt_ids=(1,), token_ids=(2,), logprobs=(-1.0,), weight_version=version)
    return WaitingDesign(skill="s", sample=sample_from([completion], advantage=0.0, group="s", role=Role.DESIGNER))


@pytest.mark.parametrize(
    ("ahead", "plays", "designs", "told"),
    [
        (True, [played(5, 5)], [design(3)], None),
        (True, [played(4, 4)], [design(2)], None),
        (False, [played(5)], [design(3)], None),
        (False, [played(4)], [], "version 4, and the trainer is at 5; wanted at most 0 behind"),
        (True, [played(3)], [], "a play was sampled with weights of version 3"),
        (True, [played(6)], [], "version 6"),
        (True, [played(4, 5)], [], r"versions \[4, 5\]; wanted one"),
        (True, [], [design(1)], "a design was sampled with weights of version 1"),
        (False, [], [design(2)], "a design was sampled with weights of version 2"),
    ],
)
def test_no_play_mixes_versions_and_none_is_more_than_one_behind(ahead, plays, designs, told):
    chosen = settings(f"selfplay.asynchronous={str(ahead).lower()}")
    if told is None:
        found = checked_versions(chosen, plays, designs, step=5)
        assert found == 5 - plays[0].trajectories[0].turns[0].completion.weight_version
    else:
        with pytest.raises(PolicyError, match=told):
            checked_versions(chosen, plays, designs, step=5)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["sampler.type=vllm", "sampler.placement=colocated"], "whose server sleeps then"),
        (["training.engine.threads=1"], r"training\.engine\.threads is 1"),
    ],
)
def test_a_sampler_that_cannot_work_during_an_update_is_refused(more, told):
    with pytest.raises(ConfigurationError, match=told):
        load_settings(RunSettings, None, [AHEAD, *more])
    load_settings(RunSettings, None, more)


def test_a_separate_server_may_be_sampled_during_an_update():
    assert load_settings(RunSettings, None, [AHEAD, "sampler.type=vllm"]).selfplay.asynchronous


def test_a_real_model_is_trained_one_version_behind_and_resumes_to_the_bit(tmp_path, tiny):  # noqa: F811
    chosen = overrides(tiny, "run.rollouts=3", "run.keep_checkpoints=9", AHEAD, *REPLAY)
    whole = spade_agents.train(out=tmp_path / "whole", overrides=chosen)
    losses = [row["train"]["loss"] for row in whole.rows]
    assert len(set(losses)) == 4
    for number in (1, 2):
        path = tmp_path / f"from-{number}"
        shutil.copytree(whole.path, path)
        back_to(path, number)
        resumed = spade_agents.resume(path)
        assert without_seconds(resumed.rows) == without_seconds(whole.rows)
        assert weights(path) == weights(whole.path)


def weights(path: Path) -> bytes:
    return (newest_stable(path / "checkpoints").model / "model.safetensors").read_bytes()
