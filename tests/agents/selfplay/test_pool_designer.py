"""Pools designed without training: a recorded designer, exact counts, kills, failing endpoints, budgets."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from spade_agents.designer.corpus import Corpus
from spade_agents.errors import ConfigurationError, InfrastructureError, UsageError
from spade_agents.messages import Message
from spade_agents.policy.endpoint import EndpointPolicy, EndpointSettings
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.selfplay.design_journal import alone_at, open_journal, read_slots
from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.selfplay.pool import Pool, trainable_specs
from spade_agents.selfplay.pool_designer import check_answered, design_pool, fill_pool
from spade_agents.selfplay.pool_figures import pool_figures
from spade_agents.settings import load_settings
from spade_agents.telemetry import SilentReporter
from spade_environments import EnvironmentSpec
from tests.agents.policy.endpoint_server import scripted_server
from tests.agents.selfplay.recorded import (
    DIAL,
    RecordedDesigner,
    block,
    cases,
    recorded_settings,
    signature,
    signature_of,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """The whole recorded set, designed once."""
    folder = tmp_path_factory.mktemp("recorded")
    recorded_cases = cases()
    design_pool(
        recorded_settings(folder, len(recorded_cases)),
        folder / "pool",
        policy=RecordedDesigner(recorded_cases).policy(),
    )
    return folder / "pool"


def told(pool: Path) -> dict[int, tuple[str, ...]]:
    return {found.slot: tuple(attempt.told for attempt in found.outcome.attempts) for found in read_slots(pool)}


def test_every_recorded_output_ends_as_it_must(recorded):
    found = told(recorded)
    for number, case in enumerate(cases()):
        assert found[number] == case.wanted, (number, case.outputs[len(found[number]) - 1][:300])
    assert sum(map(len, found.values())) == 89


def test_the_counts_of_the_recorded_set_are_exact(recorded):
    figures = pool_figures(recorded)
    counts = figures.attempts
    assert (counts["slots"], counts["admitted"], counts["attempts"]) == (41, 34, 89)
    assert counts["verdicts"] == {"certified": 34, "rejected": 54, "no_hint": 1}
    assert counts["gates"] == {
        "no_block": 4,
        "empty": 2,
        "unclosed_block": 1,
        "several_blocks": 1,
        "too_large": 1,
        "bad_manifest": 2,
        "bad_call": 3,
        "several_calls": 1,
        "duplicate": 1,
        "novelty": 2,
        "lint": 14,
        "load": 3,
        "reset": 6,
        "determinism": 1,
        "goals": 1,
        "floor": 3,
        "robustness": 4,
        "leak": 4,
    }
    assert counts["filled_by"] == [15, 18, 1]
    assert counts["repairs"] == {"asked": 48, "mended": 19}
    assert (figures.environments, figures.certified) == (34, 34)


def test_the_pool_holds_what_was_admitted_with_hint_certificate_and_lineage(recorded):
    slots = {found.slot: found.outcome for found in read_slots(recorded)}
    specs = {spec.id: spec for spec in trainable_specs(str(recorded))}
    assert list(specs) == [o.spec.id for o in slots.values() if o.spec is not None]
    assert all(spec.hint for spec in specs.values())
    spec = slots[13].spec
    assert spec.provenance["attempts"] == ["rejected: no_block", "certified"]
    assert spec.provenance["document"].startswith("d")
    assert spec.provenance["designer"] == "recorded"
    assert (slots[7].spec.domain, slots[7].spec.difficulty) == ("harbour", 0.35)
    assert (slots[12].spec.domain, slots[12].spec.difficulty) == ("harbours", 0.4)
    assert slots[31].spec is not None, "two empty hints and a long one cost a program, not the slot"


def test_every_attempt_is_a_sample_with_its_outcome(recorded):
    for found in read_slots(recorded):
        case = cases()[found.slot]
        attempts = found.outcome.attempts
        assert [attempt.repaired for attempt in attempts] == [number > 0 for number in range(len(attempts))]
        written = [signature(attempt.completion.text, attempt.completion.calls) for attempt in attempts]
        assert written == [signature_of(output) for output in case.outputs[: len(attempts)]]


FEW = 16


def process(folder: Path) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(str(Path.cwd() / room) for room in (".", "tools", "evals", "environments"))
    command = [sys.executable, "-m", "tests.agents.selfplay.recorded", str(folder), str(FEW)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True)


def lines(pool: Path) -> int:
    path = pool / "designs.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def asked(pool: Path) -> int:
    with closing(sqlite3.connect(pool / "completions.sqlite")) as connection:
        return connection.execute("select count(*) from completions").fetchone()[0]


@pytest.mark.parametrize("after", [1, 9])
def test_killed_half_way_and_started_again_it_neither_loses_nor_repeats(recorded, tmp_path, after):
    recorded_settings(tmp_path, FEW)
    running = process(tmp_path)
    pool = tmp_path / "pool"
    while running.poll() is None and lines(pool) < after:
        time.sleep(0.005)
    assert running.poll() is None, "it was over before it could be killed"
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = {found.slot: found.outcome for found in read_slots(pool)}
    paid = asked(pool)
    designer = RecordedDesigner(cases())
    result = design_pool(recorded_settings(tmp_path, FEW), pool, policy=designer.policy())
    assert after <= len(before) < FEW
    found = {each.slot: each.outcome for each in read_slots(pool)}
    assert sorted(found) == list(range(FEW))
    assert {slot: found[slot] for slot in before} == before, "what was decided before is as it was"
    assert told(pool) == {slot: how for slot, how in told(recorded).items() if slot < FEW}
    assert set(Pool(pool).ids()) == {outcome.spec.id for outcome in found.values() if outcome.spec}
    assert len(list(pool.glob("[0-9a-f]*/environment.py"))) == result.environments
    attempts = sum(len(outcome.attempts) for outcome in found.values())
    hints = sum(attempt.hints for outcome in found.values() for attempt in outcome.attempts)
    assert asked(pool) == attempts + hints == paid + designer.asked, "no answer was asked for twice"


def test_a_finished_pool_is_gone_on_with_to_more_slots_and_asks_nothing_again(tmp_path):
    designer = RecordedDesigner(cases())
    settings = recorded_settings(tmp_path, FEW)
    design_pool(settings.model_copy(update={"slots": 2}), tmp_path / "pool", policy=designer.policy())
    first = designer.asked
    result = design_pool(settings.model_copy(update={"slots": 3}), tmp_path / "pool", policy=designer.policy())
    assert (first, designer.asked, result.environments) == (4, 6, 3)


def test_other_settings_another_folder_and_a_second_process_are_refused(tmp_path):
    settings = recorded_settings(tmp_path, FEW).model_copy(update={"slots": 1})
    design_pool(settings, tmp_path / "pool", policy=RecordedDesigner(cases()).policy())
    with pytest.raises(ConfigurationError, match="seed was 0 and is 5; put that back"):
        design_pool(settings.model_copy(update={"seed": 5}), tmp_path / "pool")
    with (
        open_journal(tmp_path / "pool", settings),
        pytest.raises(UsageError, match="another process is at work"),
        open_journal(tmp_path / "pool", settings),
    ):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists and is no pool that was begun here"):
        design_pool(settings, tmp_path / "other", policy=RecordedDesigner(cases()).policy())
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["letter.txt"]


def test_an_environment_without_its_line_is_dropped_and_designed_again(tmp_path):
    settings = recorded_settings(tmp_path, FEW).model_copy(update={"slots": 2})
    pool = tmp_path / "pool"
    design_pool(settings, pool, policy=RecordedDesigner(cases()).policy())
    before, journal = read_slots(pool), (pool / "designs.jsonl").read_bytes()
    (pool / "designs.jsonl").write_bytes(journal[: journal.index(b"\n") + 50])
    designer = RecordedDesigner(cases())
    result = design_pool(settings, pool, policy=designer.policy())
    assert (result.environments, designer.asked, result.cached) == (2, 0, 2)
    after = read_slots(pool)
    assert [found.slot for found in after] == [found.slot for found in before] == [0, 1]
    assert after[0] == before[0]
    assert after[1].outcome.spec == before[1].outcome.spec


SMALL = ("slots=3", "at_once=2", "call.attempts=2", "corpus='none'", "certificate.seeds=2", "novelty.enabled=false")


def small(*overrides: str) -> PoolDesignSettings:
    return load_settings(PoolDesignSettings, None, [*SMALL, *overrides])


async def over_endpoint(path: Path, answer, chosen: PoolDesignSettings):
    fast = EndpointSettings(
        retries=1, backoff_seconds=0.001, request_seconds=5.0, prompt_price=1.0, completion_price=2.0
    )
    async with scripted_server(answer) as server:
        policy = EndpointPolicy(server.url, "model", settings=fast)
        try:
            return await fill_pool(chosen, path, policy, None, SilentReporter()), server
        finally:
            await policy.aclose()


def writes(text: str):
    """A server's answers: the hint to whoever asks for one, else `text`."""

    def answer(number, body):
        return {"content": "Halve what is left." if body["messages"][0]["content"].startswith("You see") else text}

    return answer


async def test_an_endpoint_that_fails_half_of_the_time_costs_retries_and_nothing_else(tmp_path):
    answer = writes(block(DIAL))
    result, server = await over_endpoint(
        tmp_path / "pool", lambda n, body: "500" if n % 2 == 0 else answer(n, body), small("at_once=1")
    )
    assert (result.environments, sum(result.undone.values())) == (1, 0), "one program, three times: two are duplicates"
    assert result.retries == len(server.bodies) // 2 > 0
    assert result.spent.completions == len(server.bodies) - result.retries


@pytest.mark.parametrize("fault", ["500", "429", "empty", "html", "half"])
async def test_an_endpoint_that_is_down_leaves_the_slots_open_for_another_day(tmp_path, fault):
    result, _ = await over_endpoint(tmp_path / "pool", lambda n, body: fault, small())
    assert (result.environments, result.undone) == (0, Counter(infrastructure=3))
    with pytest.raises(InfrastructureError, match=r"3 slots got no answer, last: .* failed 2 times"):
        check_answered(result)
    again, _ = await over_endpoint(tmp_path / "pool", writes(block(DIAL)), small())
    assert (again.environments, sum(again.undone.values())) == (1, 0)


async def test_what_was_certified_before_an_endpoint_went_down_is_saved(tmp_path):
    answer = writes(block(DIAL))
    result, _ = await over_endpoint(
        tmp_path / "pool", lambda n, body: answer(n, body) if n < 2 else "500", small("at_once=1")
    )
    assert (result.environments, result.undone) == (1, Counter(infrastructure=2))
    assert [found.slot for found in read_slots(tmp_path / "pool")] == [0]


async def test_an_endpoint_that_answers_nonsense_is_counted_attempt_by_attempt(tmp_path):
    result, server = await over_endpoint(tmp_path / "pool", writes("ok ok ok"), small())
    assert (result.environments, sum(result.undone.values()), len(server.bodies)) == (0, 0, 6)
    assert pool_figures(tmp_path / "pool").attempts["gates"] == {"no_block": 6}


async def test_an_endpoint_is_offered_the_call_and_a_refused_one_is_answered(tmp_path):
    def answer(number, body):
        if "tools" not in body:
            return {"content": "Halve what is left."}
        is_repair = any(message["role"] == "tool" for message in body["messages"])
        arguments = {"source": DIAL if is_repair else "class A: pass", "skill": "causal inference", "domain": "locks"}
        call = {"name": "submit_environment", "arguments": json.dumps({**arguments, "difficulty": 0.7})}
        return {"content": None, "tool_calls": [{"id": "x", "type": "function", "function": call}]}

    result, server = await over_endpoint(tmp_path / "pool", answer, small("slots=1", "call.output=call"))
    assert result.environments == 1
    (spec,) = trainable_specs(str(tmp_path / "pool"))
    assert (spec.domain, spec.difficulty) == ("locks", 0.7)
    assert server.bodies[0]["tools"][0]["function"]["name"] == "submit_environment"
    asked, answered = server.bodies[1]["messages"][-2:]
    assert answered["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert answered["content"].startswith("That was not accepted (lint)")


async def test_a_refused_key_ends_it_at_once(tmp_path):
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        await over_endpoint(tmp_path / "pool", lambda n, body: "401 no", small())


async def test_the_budget_is_not_exceeded_and_a_larger_one_goes_on(tmp_path):
    prices = ("endpoint.prompt_price=1.0", "endpoint.completion_price=2.0", "call.sampling.max_tokens=100")
    chosen = small("at_once=1", "budget=0.004", *prices)
    result, server = await over_endpoint(tmp_path / "pool", writes("no program"), chosen)
    assert 0 < len(server.bodies) < 6
    assert result.undone["budget"] > 0
    assert "go on with a larger --budget" in result.told
    assert result.spent.price <= 0.004
    more = chosen.model_copy(update={"budget": 10.0})
    again, other = await over_endpoint(tmp_path / "pool", writes("no program"), more)
    assert len(server.bodies) + len(other.bodies) == 6
    assert again.spent.completions == 6


def test_a_budget_without_prices_and_a_sandbox_without_walls_are_refused():
    with pytest.raises(ConfigurationError, match="budget needs prices"):
        small("budget=1.0")
    with pytest.raises(ConfigurationError, match="no isolation"):
        small("sandbox.type='inline'")


async def test_seeds_from_a_runs_memory_are_named_as_parents(tmp_path):
    from spade_agents.designer.memory import Memory
    from tests.agents.designer.test_memory import record

    memory = Memory.open(tmp_path / "memory.sqlite")
    memory.add(record(7, source=DIAL))
    memory.close()

    def respond(conversation, rng: random.Random) -> Message:
        hint = "Halve what is left."
        return Message(role="assistant", content=hint if len(conversation.messages[0].content) < 600 else block(DIAL))

    chosen = small("slots=1", "skills=['data retrieval']", f"memory_file='{tmp_path / 'memory.sqlite'}'")
    await fill_pool(chosen, tmp_path / "pool", ScriptedPolicy(respond), None, SilentReporter())
    (spec,) = trainable_specs(str(tmp_path / "pool"))
    assert isinstance(spec, EnvironmentSpec)
    assert spec.provenance["parents"] == ["7"]


def test_slot_and_case_stand_side_by_side(tmp_path):
    from spade_agents.designer.corpus import load_corpus

    recorded_settings(tmp_path, 5)
    corpus: Corpus = load_corpus(tmp_path / "cases.jsonl")
    assert [corpus.at(slot).text for slot in range(5)] == [f"recorded case {slot}" for slot in range(5)]


@pytest.mark.parametrize("left", [["lock"], ["lock", ".design.toml.77.draft"]])
def test_a_folder_in_which_a_kill_left_nothing_but_a_beginning_is_begun_again(tmp_path, left):
    for name in left:
        (tmp_path / name).touch()
    settings = recorded_settings(tmp_path.parent, FEW).model_copy(update={"slots": 1})
    with open_journal(tmp_path, settings) as journal:
        assert journal.slots == {}
    (tmp_path / "design.toml").unlink()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UsageError, match="no pool that was begun here"), open_journal(tmp_path, settings):
        pass


def test_the_card_is_not_written_while_another_process_designs(tmp_path):
    with open_journal(tmp_path, small()), pytest.raises(UsageError, match="another process"), alone_at(tmp_path):
        pass
    with alone_at(tmp_path):
        pass


@pytest.mark.parametrize("name", ["design.toml", "lock", "designs.jsonl", "completions.sqlite", "pool.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pool_of_which_a_file_is_a_pipe_or_a_folder_is_refused_with_its_name(tmp_path, name, kind):
    settings = recorded_settings(tmp_path, FEW).model_copy(update={"slots": 1})
    pool = tmp_path / "pool"
    design_pool(settings, pool, policy=RecordedDesigner(cases()).policy())
    (pool / name).unlink()
    (pool / name).mkdir() if kind == "folder" else os.mkfifo(pool / name)
    try:
        design_pool(settings, pool, policy=RecordedDesigner(cases()).policy())
    except (UsageError, OSError) as error:
        assert name in str(error)
    else:
        assert (name, kind) == ("pool.json", "pipe"), "an index is written anew"
        assert (pool / name).is_file()
