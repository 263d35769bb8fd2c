"""Adapters: foreign classes play by the contract, in the child and nowhere else."""

from __future__ import annotations

import pytest

from spade_environments import ContractError, Reply, ToolCall
from spade_environments.certificate import Gate, Verdict, certify, certify_many
from spade_environments.importing import classes_in, imported
from spade_environments.inside.adapters.math_verify import parse, verify
from spade_environments.inside.adapters.written import written_steps
from spade_environments.inside.contract import Call
from spade_environments.inside.episode import Episode
from spade_environments.sandbox import open_sandbox
from tests.environments.importing import samples

PROVEN = {
    "MARKET_SUM": (1, 1),
    "VALVE_ROOM": (2, 6),
    "STOCK_COUNT": (5, 5),
    "SHELF_MOVES": (8, 8),
    "CAVE_TEXT": (7, 7),
    "LIFT_GYM": (5, 13),
}


def spec_of(source: str):
    (found,) = classes_in(source)
    return imported(source, found, origin="sample.py").spec


def begun(source: str, seed: int = 5) -> tuple[Episode, str]:
    episode = Episode(spec_of(source).source)
    return episode, episode.reset(seed)["observation"]


async def test_the_samples_are_certified_in_the_sandbox_and_one_without_a_solution_is_unproven():
    specs = [spec_of(getattr(samples, name)) for name in (*PROVEN, "MINE_WALK")]
    async with open_sandbox() as sandbox:
        *proven, unproven = await certify_many(specs, sandbox)
    for (name, (low, high)), certificate in zip(PROVEN.items(), proven, strict=True):
        assert certificate.verdict is Verdict.CERTIFIED, (name, certificate.reason)
        assert low <= min(certificate.gold_lengths) <= max(certificate.gold_lengths) <= high, name
    assert unproven.verdict is Verdict.UNPROVEN
    assert "no solution()" in unproven.reason.evidence


async def test_an_unproven_environment_can_be_played_and_a_goal_of_tools_comes_as_a_user_message():
    async with open_sandbox() as sandbox:
        async with await sandbox.open(spec_of(samples.MINE_WALK)) as env:
            first = await env.reset(3)
            assert "\\boxed{up}" in first.text
            result = await env.step(ToolCall(name="act", arguments={"action": "on"}))
            assert result.observation.text != "Say \\boxed{up}, \\boxed{down} or \\boxed{on}."
        async with await sandbox.open(spec_of(samples.SHELF_MOVES)) as env:
            first = await env.reset(3)
            *_, box, _, _, shelf = first.text.rstrip(".").split()
            moved = await env.step(ToolCall(name="move", arguments={"box": box, "shelf": int(shelf)}))
            assert moved.observation.text == f"moved {box} to {shelf}"
            after = await env.step(Reply(text="Done."))
            assert (after.observation.role, after.terminated) == ("user", False)
            assert after.observation.text.startswith("Look up where")


def test_rewards_are_clipped_and_one_that_is_no_number_is_a_breach():
    episode, _ = begun(samples.VALVE_ROOM)
    assert episode.step("act", {"action": "x"}, None)["reward"] == 0.0
    replies = [episode.step("act", action["arguments"], None) for action in episode.solution()]
    assert (replies[-1]["reward"], replies[-1]["terminated"], replies[-1]["info"]) == (1.0, True, {})
    for reward in ("float('nan')", "float('inf')", "'much'", "None"):
        broken, _ = begun(samples.VALVE_ROOM.replace("10.0", reward))
        *early, last = broken.solution()
        for action in early:
            broken.step("act", action["arguments"], None)
        with pytest.raises(ContractError, match="reward"):
            broken.step("act", last["arguments"], None)


def test_an_action_goes_into_a_box_unless_it_has_one():
    for action in ("turn 1", "\\boxed{turn 1}", "I think \\boxed{turn 1}"):
        episode, first = begun(samples.VALVE_ROOM)
        told = episode.step("act", {"action": action}, None)["observation"]
        assert told.startswith("Now: " + ("open" if first.split(": ")[1].startswith("shut") else "shut"))


def test_numbered_actions_are_read_from_text_and_others_are_an_error_that_can_be_read():
    episode, first = begun(samples.LIFT_GYM)
    assert first.startswith('{"floor":')
    for action in ("open", "3", "-1", "1.0", "٣", ""):
        told = episode.step("act", {"action": action}, None)
        assert told["observation"] == "Error: an action is a whole number from 0 to 2."
    assert episode.step("act", {"action": " 1 "}, None)["observation"].startswith('{"floor":')


def test_an_exception_in_a_foreign_tool_is_its_error():
    episode, _ = begun(samples.STOCK_COUNT)
    told = episode.step("count", {"site": "Atlantis", "sku": "nuts"}, None)
    assert told["observation"] == "Error: KeyError: 'Atlantis'"
    schema = {tool["name"]: tool["parameters"] for tool in episode.describe()["tools"]}
    assert schema["count"]["properties"]["sku"] == {"enum": ["bolts", "nails", "nuts"]}
    assert schema["order"]["required"] == ["site", "amount"]
    assert "site: where" in episode.describe()["tools"][1]["description"]


async def test_a_first_instruction_that_is_fulfilled_at_reset_is_rejected():
    broken = samples.SHELF_MOVES.replace('s["place"][first] == target', 's["place"][first] > 0')
    broken = broken.replace("move(box='{first}', shelf={target}) -> moved 2.", "where(box='{first}')")
    async with open_sandbox() as sandbox:
        certificate = await certify(spec_of(broken), sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.GOALS
    assert "met by an empty reply at once" in certificate.repair


async def test_an_import_that_hangs_dies_in_the_sandbox():
    async with open_sandbox() as sandbox:
        certificate = await certify(spec_of(samples.MINE_WALK + "\n\nwhile True:\n    pass\n"), sandbox)
    assert certificate.verdict is not Verdict.CERTIFIED
    assert certificate.reason.gate is Gate.LOAD


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("self._user_messages = [", "self._user_messages = ['More.',", "wanted as many"),
        ('"where": {', '"who": {', "no method tool_who"),
        ('"type": "integer"', '"type": "whatever"', "wanted a type"),
        ('"where": {', '"goals": {', "rename it"),
        ("max_turns=15, **kwargs", "size, max_turns=15, **kwargs", "cannot be made without size"),
    ],
)
def test_what_an_adapter_cannot_play_is_told(old, new, words):
    with pytest.raises(ContractError, match=words):
        begun(samples.SHELF_MOVES.replace(old, new))


@pytest.mark.parametrize(
    ("solution", "steps"),
    [
        ("1. go(to='a b') -> went 2. look() ANSWER: 4, 5", [Call("go", to="a b"), Call("look"), "4, 5"]),
        ("tool_go('x)y') then <answer> done </answer>", [Call("go", to="x)y"), "done"]),
        ('<tool_call>{"name": "go", "arguments": {"to": "a"}}</tool_call>', [Call("go", to="a")]),
        ([{"name": "go", "arguments": {"to": "a"}}, "<answer>7</answer>"], [Call("go", to="a"), "7"]),
        ([("look", {}), ("tool_go", {"to": [1, 2]})], [Call("look"), Call("go", to=[1, 2])]),
        ("go(to=null, fast=true) but regoing(1) and going(2)", [Call("go", to=None, fast=True)]),
        ("just do it", []),
    ],
)
def test_calls_and_answers_are_read_from_a_written_solution(solution, steps):
    assert written_steps(solution, {"go": ("to", "fast"), "look": ()}) == steps


@pytest.mark.parametrize(
    "solution", [None, 5, [7], "go(to=self.x)", "go(to='a'", "<tool_call>{}</tool_call>", [("fly", {})]]
)
def test_a_solution_that_cannot_be_run_is_a_breach(solution):
    with pytest.raises(ContractError, match=r"solution\(\)"):
        written_steps(solution, {"go": ("to",)})


def test_answers_are_compared_by_value_and_by_words():
    assert verify(parse("1,204.50"), parse("$1204.5$"))
    assert verify(parse("1/2"), parse("0.5"))
    assert verify(parse(" North  East."), parse("north east"))
    assert not verify(parse("12"), parse("120"))
    assert not verify(parse(""), parse(""))
    assert parse("1/0") == ["1/0"]
    assert parse("1e999999999") == ["1e999999999"]
