from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest

from spade_agents.designer.memory import MemoryRecord
from spade_agents.errors import InfrastructureError
from spade_agents.rewards import Regret
from spade_agents.rollout import EvalSummary, PartSummary, play_group
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.design_phase import make_set
from spade_agents.selfplay.loop import StopRequest, run_loop
from spade_agents.selfplay.state import EnvironmentSet, LoopState, SetMember, WaitingDesign
from spade_agents.selfplay.update_phase import agent_batch
from spade_agents.telemetry import SilentReporter
from spade_agents.training.advantages import group_advantages
from spade_agents.trajectory import Outcome, Role
from spade_environments import EnvironmentSpec, Skill
from spade_environments.sandbox import open_sandbox
from tests.agents.selfplay.scripted import Behaviour, run, scripted_resources, settings


def samples(batch, role):
    return [sample for sample in batch[0] if sample.role is role]


def without_seconds(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


async def count_evaluations(policy, *, step, seed):
    part = PartSummary(plays=4, missing=0, win_rate=0.5, low=0.1, high=0.9, wins={"a": 1.0})
    return EvalSummary(step=step, parts={"known": part})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run to its end: five rollouts, sets of three kept for two; its resources and last state."""
    path = tmp_path_factory.mktemp("finished") / "run"
    chosen = settings("run.rollouts=5", "evaluation.every=2")
    return asyncio.run(run(path, chosen, evaluator=count_evaluations))


def test_a_scripted_run_covers_the_whole_loop(finished):
    resources, state = finished
    assert state.finished
    assert state.rollout == 5
    rows = resources.directory.metrics.rows()
    assert [(row["kind"], row["rollout"]) for row in rows] == [
        ("evaluation", 0),
        ("rollout", 0),
        ("rollout", 1),
        ("evaluation", 2),
        ("rollout", 2),
        ("rollout", 3),
        ("evaluation", 4),
        ("rollout", 4),
        ("flush", 5),
        ("evaluation", 5),
    ]
    assert [("design" in row, "regret" in row) for row in rows if row["kind"] == "rollout"] == [
        (True, True),
        (False, False),
        (True, True),
        (False, False),
        (True, True),
    ]
    assert resources.directory.read_evaluation(4).parts["known"].wins == {"a": 1.0}
    assert state.metrics_rows == len(rows)


def test_every_environment_is_kept_with_certificate_hint_and_outcomes(finished):
    resources, state = finished
    pool = resources.pool
    assert pool.ids() == state.pool
    assert len(state.pool) == 9
    for number, identity in enumerate(state.pool):
        spec = pool.spec(identity)
        assert spec.id == identity
        assert spec.hint == "Set it first, then say so."
        first = number // 3 * 2
        assert spec.provenance["rollout"] == first
        assert pool.certificate(identity).admitted
        outcomes = pool.outcomes(identity)
        assert [row.rollout for row in outcomes] == [first, first + 1][: 5 - first]
        assert len(outcomes[0].hinted) == len(outcomes[0].unhinted) == 4
        assert all(row.hinted == () for row in outcomes[1:])
    assert {record.environment_id for record in resources.memory.records} == set(state.pool)


def test_both_arms_are_played_on_the_same_seeds_and_only_the_unhinted_one_is_trained_on(finished):
    resources, _ = finished
    plays = list(resources.directory.read_trajectories(0))
    hinted = [(play.environment_id, play.seed) for play in plays if play.hinted]
    unhinted = [(play.environment_id, play.seed) for play in plays if not play.hinted]
    assert hinted == unhinted
    assert len(set(unhinted)) == 12
    trained = samples(resources.engine.batches[0], Role.AGENT)
    assert [sample.token_ids for sample in trained] == [
        play.training_sample(advantage=0, group="").token_ids for play in plays if not play.hinted
    ]
    assert not any(play.hinted for play in resources.directory.read_trajectories(1))


def test_designs_are_trained_exactly_k_rollouts_later_and_the_last_set_is_flushed(finished):
    resources, _ = finished
    batches = resources.engine.batches
    assert [len(samples(batch, Role.DESIGNER)) > 0 for batch in batches] == [False, False, True, False, True, True]
    rows = [row for row in resources.directory.metrics.rows() if "design" in row]
    trained = [len(samples(batches[number], Role.DESIGNER)) for number in (2, 4, 5)]
    assert trained == [row["design"]["attempts"] for row in rows]
    assert samples(batches[5], Role.AGENT) == []
    assert [sample.weight_version for sample in samples(batches[4], Role.DESIGNER)] == [2] * trained[1]


async def test_rejected_attempts_enter_their_skills_mean_with_a_low_reward(tmp_path):
    resources, _ = await run(tmp_path / "run", settings("run.rollouts=1"), Behaviour(broken=0.8))
    last = samples(resources.engine.batches[1], Role.DESIGNER)
    row = resources.directory.metrics.rows()[0]["design"]
    assert row["verdicts"]["rejected"] > 0
    assert len(last) == row["attempts"]
    for skill in {sample.group for sample in last}:
        assert sum(sample.advantage for sample in last if sample.group == skill) == pytest.approx(0.0, abs=1e-9)


def member(name, **fields):
    return SetMember(
        spec=EnvironmentSpec(name=name, source=f"# {name}", skill=Skill.DATA_RETRIEVAL, hint="h"), **fields
    )


def test_a_design_earns_by_its_window_and_counts_as_rejected_where_it_faulted_in_play():
    good = member("good").played((1.0, 0.0), (1.0, 1.0)).played((0.0, None))
    bad = member("bad").played((1.0, None), (1.0, 1.0), fault="crash in step")
    assert good.arms == Regret(hinted=1.0, unhinted=0.5)
    assert good.win_rate == pytest.approx(1 / 3)
    current = EnvironmentSet(
        rollout=4,
        members=(good, bad),
        designs=tuple(WaitingDesign(skill="s", environment_id=i) for i in (good.spec.id, bad.spec.id, "")),
    )
    assert current.due(2) == 6
    assert current.active == (good,)
    results = current.results()
    assert [result.rejected for result in results] == [False, True, True]
    assert (results[0].regret, results[0].win_rate) == (0.5, pytest.approx(1 / 3))


def test_the_loop_state_survives_a_checkpoint():
    state = LoopState(
        rollout=3,
        current=EnvironmentSet(rollout=2, members=(member("a").played((1.0, None)),)),
        pool=("x",),
        evaluated=0,
    )
    assert LoopState.from_json(state.to_json()) == state


async def test_an_environment_that_faults_in_play_is_retired_and_its_design_counts_as_rejected(tmp_path):
    resources, _ = await run(tmp_path / "run", settings("run.rollouts=2"), Behaviour(broken=0.0, thirteen=1.0))
    rows = resources.directory.metrics.rows()
    assert rows[0]["play"]["retired"] == 3
    assert rows[0]["play"]["outcomes"] == {Outcome.ENVIRONMENT_FAULT.value: 24}
    assert rows[1]["play"]["environments"] == 0
    assert rows[2]["train"]["designer_reward"] == pytest.approx(-0.2)
    assert resources.memory.records == []
    assert "env_error" in resources.pool.outcomes(resources.pool.ids()[0])[0].fault


async def test_a_planted_environment_fault_and_an_infrastructure_fault_leave_the_rest_of_16_plays_as_they_are(tmp_path):
    behaviour = Behaviour(broken=0.0, skill=0.5)
    chosen = settings("selfplay.play.retries=0")
    async with scripted_resources(tmp_path / "run", chosen, behaviour) as resources:
        await run_loop(resources, LoopState(), StopRequest())
    spec = resources.pool.spec(resources.pool.ids()[0])

    class Planted:
        """Breaks the tool in its 4th play and the engine in its 9th."""

        info = behaviour.policy().info
        inner = behaviour.policy()
        begun = 0

        async def complete(self, conversation, sampling, *, seed, deadline=None):
            if len(conversation.messages) == 2:
                self.begun += 1
                behaviour.thirteen = float(self.begun == 4)
                if self.begun == 9:
                    raise InfrastructureError("the engine is gone")
            completion = await self.inner.complete(conversation, sampling, seed=seed)
            behaviour.thirteen = 0.0
            return completion

    play = replace(chosen.selfplay.play, concurrency=1)
    async with open_sandbox(chosen.sandbox) as sandbox:
        group = await play_group(spec, sandbox, Planted(), seeds=range(16), settings=play)
    outcomes = [trajectory.outcome for trajectory in group.trajectories]
    assert outcomes.index(Outcome.ENVIRONMENT_FAULT) == 3
    assert outcomes.index(Outcome.INFRASTRUCTURE_FAULT) == 8
    assert outcomes.count(Outcome.SCORED) == 14
    rest = replace(group, trajectories=tuple(t for t in group.trajectories if t.outcome is Outcome.SCORED))
    assert 0 < sum(rest.returns) < 14
    assert agent_batch(chosen, [group]) == agent_batch(chosen, [rest])
    assert tuple(sample.advantage for sample in agent_batch(chosen, [group])) == group_advantages(rest.returns)


async def test_hinted_plays_that_the_host_lost_leave_no_regret_no_reward_and_no_trained_design(tmp_path):
    class HintedPlaysAreLost(Behaviour):
        def play(self, conversation, rng):
            if "hint:" in conversation.messages[1].content:
                raise InfrastructureError("the engine is gone")
            return super().play(conversation, rng)

    chosen = settings("run.rollouts=2", "selfplay.play.retries=0")
    resources, _ = await run(tmp_path / "run", chosen, HintedPlaysAreLost(broken=0.0))
    rows = resources.directory.metrics.rows()
    told = rows[0]["regret"]
    assert [told[name] for name in ("raw", "floored", "hinted", "unhinted", "environments")] == [None] * 4 + [0]
    assert rows[0]["play"]["outcomes"][Outcome.INFRASTRUCTURE_FAULT.value] == 12
    assert [record.regret for record in resources.memory.records] == [None] * 3
    assert samples(resources.engine.batches[-1], Role.DESIGNER) == []
    assert rows[-1]["train"]["designer_reward"] is None


async def test_two_runs_of_one_seed_write_the_same_metrics_and_another_seed_does_not(tmp_path):
    first, _ = await run(tmp_path / "first", settings("run.rollouts=3"))
    second, _ = await run(tmp_path / "second", settings("run.rollouts=3"))
    other, _ = await run(tmp_path / "other", settings("run.rollouts=1", "run.seed=1"))
    rows = without_seconds(first.directory.metrics.rows())
    assert without_seconds(second.directory.metrics.rows()) == rows
    assert without_seconds(other.directory.metrics.rows())[0] != rows[0]


@pytest.mark.parametrize(
    "overrides",
    [
        ("selfplay.pool.type=static",),
        ("selfplay.pool.type=frontier",),
        ("designer.policy.type=frozen",),
        ("designer.memory.enabled=false",),
        ("designer.corpus=none",),
        ("novelty.enabled=false",),
        ("reward.type=anchor_only", "selfplay.hint_plays=0"),
        ("reward.type=learning_potential", "selfplay.hint_plays=0"),
        ("reward.type=regret_only",),
    ],
    ids=" ".join,
)
async def test_every_baseline_and_ablation_runs_to_its_end(tmp_path, overrides):
    quick = ("selfplay.environments=2", "selfplay.plays=2") if "pool" in overrides[0] else ()
    chosen = settings("run.rollouts=3", "selfplay.hint_plays=2", *quick, *overrides)
    behaviour = Behaviour()
    if "pool" in overrides[0]:
        behaviour.play = lambda conversation, rng: "I do not know."
    resources, state = await run(tmp_path / "run", chosen, behaviour)
    assert state.finished
    designer = [sample for batch in resources.engine.batches for sample in samples(batch, Role.DESIGNER)]
    has_learning_designer = chosen.selfplay.pool.type == "designed" and chosen.designer.policy.type == "self"
    assert bool(designer) is has_learning_designer


async def test_frontier_selection_prefers_environments_of_middling_win_rate(tmp_path):
    chosen = settings("selfplay.pool.type=frontier", "selfplay.pool.explore=0.0", "selfplay.environments=2")
    behaviour = Behaviour()
    behaviour.play = lambda conversation, rng: "no"
    async with scripted_resources(tmp_path / "run", chosen, behaviour) as resources:
        middling = resources.fixed_pool[5]
        for spec, rate in ((middling, 0.5), (resources.fixed_pool[6], 1.0), (resources.fixed_pool[7], 0.0)):
            resources.memory.add(
                MemoryRecord(environment_id=spec.id, source="", skill=spec.skill, win_rate=rate, regret=0.0, rollout=0)
            )
        made = await make_set(resources, LoopState())
    assert made.state.current.members[0].spec == middling
    assert len(made.state.current.members) == 2


async def test_the_control_takes_the_same_number_of_steps_of_replay_alone(tmp_path):
    on = ("training.replay.type=supervised", "training.replay.source=a:b", "training.replay.samples=3")
    control, _ = await run(tmp_path / "control", settings("selfplay.pool.type=none", *on))
    selfplay, _ = await run(tmp_path / "selfplay", settings(*on))
    assert len(control.engine.batches) == len(selfplay.engine.batches) == 5
    assert all(batch[0] == () for batch in control.engine.batches)
    replayed = [batch[1] for batch in control.engine.batches]
    assert replayed == [batch[1] for batch in selfplay.engine.batches]
    assert len(set(replayed)) == 5


class InterruptAt(SilentReporter):
    """Sends this process a Ctrl-C when a line begins so."""

    def __init__(self, text):
        self.text, self.said = text, []

    def say(self, text):
        self.said.append(text)
        if text.startswith(self.text):
            os.kill(os.getpid(), signal.SIGINT)


async def test_ctrl_c_stops_after_the_rollout_with_a_checkpoint_and_the_run_goes_on_as_if_unbroken(tmp_path):
    unbroken, _ = await run(tmp_path / "unbroken", settings("run.checkpoint_every=9"))
    chosen = settings("run.checkpoint_every=9")
    async with scripted_resources(tmp_path / "run", chosen) as resources:
        resources.progress = InterruptAt("rollout 1")
        stop = StopRequest()
        with stop.on_interrupt(resources.progress.say):
            state = await run_loop(resources, LoopState(), stop)
    assert 2 <= state.rollout <= 3
    assert not state.finished
    assert newest_stable(resources.directory.checkpoints).path.name == f"step-{state.rollout}"
    resumed, _ = await run(tmp_path / "run", chosen)
    assert without_seconds(resumed.directory.metrics.rows()) == without_seconds(unbroken.directory.metrics.rows())
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["versions"]["spade-agents"]
