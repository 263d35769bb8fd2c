"""Puzzle libraries as fixed pools: behind the contract, scored by the library, told of by what is trained on them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import spade_evals
from spade_agents.errors import UsageError
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.rollout import PlaySettings, WithOwn, play_groups
from spade_agents.rollout.groups import GroupRequest
from spade_agents.selfplay.preflight import examine
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from spade_environments import EnvironmentFault, HostFault, Reply, ToolCall
from spade_evals.pools import is_program, reasoning_gym, reasoning_gym_hard, rlve
from spade_evals.suites.checkpoints import trained_generators
from spade_evals.suites.reasoning import ReasoningSuite

pytest.importorskip("reasoning_gym")


class NoSandbox:
    """Puzzles are opened by their owners; nothing else may be asked for."""

    async def open(self, spec):
        raise AssertionError(f"{spec.name} was sought in a sandbox")


def named(pool, *names):
    by_name = {environment.name: environment for environment in pool}
    return [by_name[name] for name in names]


@asynccontextmanager
async def opened(environment, seed: int):
    env = environment.open()
    try:
        yield env, await env.reset(seed)
    finally:
        await env.aclose()


ROOT = Path(spade_evals.__file__).parent / "suites"
TASKS = ("chain_sum", "countdown", "spell_backward", "syllogism", "rotate_matrix", "leg_counting")


async def test_gold_wins_every_puzzle_and_silence_none_through_the_loop_that_trains():
    pool = named(reasoning_gym(), *(f"reasoning_gym/{task}" for task in TASKS))
    requests = [GroupRequest(spec=environment.spec, seeds=(1, 2**47 + 5)) for environment in pool]
    sandbox, settings = WithOwn(pool, NoSandbox()), PlaySettings(seconds=300.0)
    gold = await play_groups(requests, sandbox, ScriptedPolicy.gold(), settings=settings)
    silent = await play_groups(requests, sandbox, ScriptedPolicy.silent(), settings=settings)
    assert [group.returns for group in gold] == [(1.0, 1.0)] * len(TASKS)
    assert [group.returns for group in silent] == [(0.0, 0.0)] * len(TASKS)


async def test_a_seed_is_one_puzzle_and_a_wrong_answer_ends_it_unpaid():
    (task,) = named(reasoning_gym(), "reasoning_gym/chain_sum")
    async with opened(task, 3) as (env, first), opened(task, 3) as (_, again), opened(task, 4) as (_, other):
        assert first == again != other
        reply = await env.step(Reply(text="17"))
        assert (reply.terminated, "by the tool answer" in reply.observation.text) == (False, True)
        bad = await env.step(ToolCall(name="answer", arguments={"text": "17"}, id="1"))
        assert bad.info["error"] == "missing_argument"
        result = await env.step(ToolCall(name="answer", arguments={"answer": "no idea"}, id="2"))
        assert (result.reward, result.terminated) == (0.0, True)
        assert (await env.step(Reply(text="again"))).info == {"error": "episode_over"}


async def test_an_answer_that_is_a_program_is_not_run_and_pays_nothing():
    (task,) = named(reasoning_gym(), "reasoning_gym/countdown")
    async with opened(task, 1) as (env, _):
        attack = "__import__('os').system('true')"
        assert is_program(attack)
        result = await env.step(ToolCall(name="answer", arguments={"answer": attack}, id="1"))
        assert result.reward == 0.0


async def test_what_the_library_cannot_set_is_the_environments_fault():
    (task,) = named(reasoning_gym(), "reasoning_gym/chain_sum")
    broken = task.open()._task
    broken.parameters["no_such_parameter"] = 1
    with pytest.raises(EnvironmentFault, match="env_error in reset: UnsetPuzzle"):
        await task.open().reset(1)
    with pytest.raises(HostFault, match="a puzzle that was set before"):
        await broken.ask(1, answer="7")


@pytest.mark.slow
async def test_rlves_environments_are_a_pool_where_they_are_installed():
    pytest.importorskip("Gym")
    pool = rlve()
    assert len(pool) > 300
    chosen = named(pool, "rlve/Multiplication", "rlve/Sorting")
    requests = [GroupRequest(spec=environment.spec, seeds=(0, 1, 2)) for environment in chosen]
    groups = await play_groups(requests, WithOwn(chosen, NoSandbox()), ScriptedPolicy.gold())
    assert [group.returns for group in groups] == [(1.0,) * 3] * 2


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install rlve-gym"):
        rlve()


def test_a_run_takes_the_library_as_its_fixed_pool():
    source = "spade_evals.pools:reasoning_gym_hard"
    chosen = load_settings(
        RunSettings, None, ["selfplay.pool.type=frontier", f"selfplay.pool.source={source}", "selfplay.hint_plays=0"]
    )
    found = examine(chosen)
    assert found.faults == ()
    assert len(found.parts.own) == len(found.parts.fixed_pool) == len(reasoning_gym_hard()) == 98
    assert found.parts.fixed_pool[0].provenance["generator"].startswith("reasoning_gym/")


def test_columns_of_tasks_that_a_checkpoint_was_trained_on_are_not_held_out(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "spade.json").write_text(
        json.dumps({"trained_generators": ["reasoning_gym/chain_sum", "reasoning_gym/syllogism", "rlve/Sorting"]})
    )
    assert trained_generators("scripted:gold") == frozenset()
    suite = ReasoningSuite(part="rg", model=str(tmp_path))
    names = list(suite.columns)
    marked = suite.load(names).trained_on
    hard = json.loads((ROOT / "reasoning_gym_hard.json").read_text())
    assert marked == {f"rg_{hard['chain_sum']['column']}": 1, f"rg_{hard['syllogism']['column']}": 1}
    (tmp_path / "spade.json").unlink()
    assert suite.load(names).trained_on == {}
