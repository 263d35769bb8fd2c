"""What every hand-written family must be: won by its own gold, told apart by seed, a proper example for a designer."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from spade_environments import GAME_SKILLS, TOOL_SKILLS, EnvironmentSpec, Skill
from spade_environments.certificate import CertificateSettings, Verdict, certify, certify_hint, fingerprint
from spade_environments.inside.contract import ToolEnv
from spade_environments.inside.episode import Episode
from spade_environments.registry import catalogue
from spade_environments.sandbox import LocalSandboxSettings, open_sandbox
from spade_environments.types import Reply, ToolCall
from spade_environments.variants import parameters, variant

SEEDS = range(50)
SPECS = catalogue()
TEXT = [spec for spec in SPECS if spec.skill in GAME_SKILLS]
TOOLS = [spec for spec in SPECS if spec.skill in TOOL_SKILLS]
each = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)

EASIER_AND_HARDER: dict[str, tuple[dict[str, Any], ...]] = {
    "bell_towers": ({"N_BELLS": 2, "MAX_PERIOD": 9}, {"N_BELLS": 4, "MAX_PERIOD": 25}),
    "island_liars": ({"N_PEOPLE": 5}, {"N_PEOPLE": 16, "SPARE": 0}),
    "die_walk": ({"SIZE": 3, "N_HOLES": 0, "MIN_ROLLS": 4}, {"SIZE": 7, "N_HOLES": 10, "MIN_ROLLS": 10, "SLACK": 0}),
    "word_machine": ({"DEPTH": 1, "LENGTH": 5}, {"DEPTH": 3, "LENGTH": 8}),
    "kiln_queue": ({"N_PIECES": 4, "N_LINKS": 0}, {"N_PIECES": 8, "N_LINKS": 2}),
    "signal_box": ({"N_LAMPS": 5, "N_CAUSES": 2}, {"N_LAMPS": 9, "N_TRIES": 18}),
    "rail_trip": ({"N_TRAINS": 3, "N_RETURNING": 1}, {"N_TRAINS": 10, "N_RETURNING": 4}),
    "phone_usage": ({"N_LINES": 2, "N_NAMESAKES": 1}, {"N_LINES": 5, "N_NAMESAKES": 4}),
    "house_evening": ({"N_ROOMS": 2, "N_LAMPS": 1, "N_LIT": 1}, {"N_ROOMS": 5, "N_LAMPS": 3, "N_LIT": 6}),
    "bank_transfers": ({"N_TRANSFERS": 1, "N_OBSTACLES": 1}, {"N_TRANSFERS": 2, "N_OBSTACLES": 3}),
    "ticket_desk": ({"N_ORDERS": 1, "N_TICKETS": 2}, {"N_ORDERS": 5, "N_TICKETS": 8}),
    "release_board": ({"CHAIN": 1, "N_TASKS": 4}, {"CHAIN": 3, "N_TASKS": 12}),
}


def play(episode: Episode, seed: int, actions: list[dict[str, Any]]) -> tuple[float, list[str]]:
    """Return (0 if the episode did not terminate) and all observations."""
    seen = [episode.reset(seed)["observation"]]
    for action in actions[: episode.cls.max_turns]:
        result = episode.step(action.get("name"), action.get("arguments"), action.get("text"))
        seen.append(result["observation"])
        if result["terminated"]:
            return result["reward"], seen
        assert result["reward"] == 0.0, "only the end pays"
    return 0.0, seen


def gold(episode: Episode, seed: int) -> list[dict[str, Any]]:
    episode.reset(seed)
    return episode.solution()


def values(action: dict[str, Any]) -> list[str]:
    return [str(value) for value in action.get("arguments", {}).values()]


def holds(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


def goal_kinds(spec: EnvironmentSpec, seed: int = 0) -> list[str]:
    episode = Episode(spec.source)
    episode.reset(seed)
    return [goal.kind for goal in episode.env._goals]


@each
def test_gold_wins_on_every_seed_within_the_turns(spec):
    episode = Episode(spec.source)
    for seed in SEEDS:
        actions = gold(episode, seed)
        reward, seen = play(episode, seed, actions)
        assert (seed, reward) == (seed, 1.0)
        assert len(actions) == len(seen) - 1 <= episode.cls.max_turns


@each
def test_the_gold_of_one_seed_does_not_win_another(spec):
    episode = Episode(spec.source)
    scripts = [gold(episode, seed) for seed in SEEDS]
    wins = sum(play(episode, seed, scripts[seed - 1])[0] for seed in SEEDS)
    assert wins <= 1


@each
def test_instances_differ_by_seed_and_repeat_with_it(spec):
    episode = Episode(spec.source)
    first = [(episode.reset(seed)["observation"], str(episode.solution())) for seed in SEEDS]
    assert len(set(first)) == len(SEEDS)
    assert len({observation for observation, _ in first}) >= 20
    again = Episode(spec.source)
    assert first == [(again.reset(seed)["observation"], str(again.solution())) for seed in SEEDS]


@each
@pytest.mark.parametrize("harder", [0, 1], ids=["easier", "harder"])
def test_gold_wins_at_easier_and_harder_parameters(spec, harder):
    other = variant(spec, **EASIER_AND_HARDER[spec.name][harder])
    assert other.id != spec.id
    assert other.provenance["kind"] == "catalogue"
    episode = Episode(other.source)
    assert [play(episode, seed, gold(episode, seed))[0] for seed in range(10)] == [1.0] * 10


def test_parameters_that_leave_no_instance_are_an_error_and_not_a_hang():
    (spec,) = (spec for spec in SPECS if spec.name == "die_walk")
    with pytest.raises(ValueError, match="no instance fits these parameters"):
        Episode(variant(spec, SIZE=2, N_HOLES=0, MIN_ROLLS=30).source).reset(0)


@each
def test_what_is_hidden_does_not_show_at_the_start(spec):
    episode = Episode(spec.source)
    assert bool(episode.cls.hidden) == (episode.cls.observability == "partial")
    for seed in SEEDS:
        observation = episode.reset(seed)["observation"]
        assert not [value for value in episode.hidden_values().values() if holds(observation, value)]


@each
def test_no_tool_description_and_no_hint_gives_an_argument_away(spec):
    episode = Episode(spec.source)
    told = " ".join(tool["description"] for tool in episode.tools)
    for seed in SEEDS:
        actions = gold(episode, seed)
        first, *later = play(episode, seed, actions)[1]
        given = " ".join([first, *(text for action, text in zip(actions, later, strict=True) if "text" in action)])
        for value in {value for action in actions for value in values(action)}:
            assert holds(given, value) or not holds(f"{told} {spec.hint}", value), value


@each
def test_a_hint_is_short_and_says_more_than_the_task(spec):
    assert spec.hint is not None
    assert 200 <= len(spec.hint) <= 600
    assert "\n" not in spec.hint


@each
def test_a_source_begins_as_a_designer_must_begin_it(spec):
    assert spec.source.startswith("from spade_environments import ")
    assert parameters(spec.source)
    assert Episode(spec.source).cls.__doc__


def test_the_answer_of_a_single_turn_family_does_not_stand_in_its_question():
    single = [spec for spec in TEXT if Episode(spec.source).cls.max_turns == 1]
    assert len(single) == 2
    for spec in single:
        episode = Episode(spec.source)
        assert episode.cls.tool_name == "answer"
        for seed in SEEDS:
            (action,) = gold(episode, seed)
            assert not holds(episode.reset(seed)["observation"], action["arguments"]["answer"])


def test_the_catalogue_has_one_family_for_each_skill():
    assert [spec.skill for spec in SPECS] == list(Skill)
    assert all(not issubclass(Episode(spec.source).cls, ToolEnv) for spec in TEXT)
    assert all(issubclass(Episode(spec.source).cls, ToolEnv) for spec in TOOLS)
    assert len({spec.domain for spec in SPECS}) == len(SPECS)
    assert len({fingerprint(spec.source) for spec in SPECS}) == len(SPECS)


def test_file_class_and_spec_bear_the_same_name():
    for spec in SPECS:
        assert Episode(spec.source).cls.__name__ == spec.name.title().replace("_", "")


def test_no_multi_turn_family_is_won_by_one_action():
    for spec in TEXT:
        episode = Episode(spec.source)
        if episode.cls.max_turns > 1:
            assert min(len(gold(episode, seed)) for seed in SEEDS) >= 5


def test_at_least_three_families_take_ten_messages():
    shortest = [min(len(gold(Episode(spec.source), seed)) for seed in range(10)) for spec in SPECS]
    assert sum(length >= 10 for length in shortest) >= 3


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_a_tool_family_has_few_instructions_some_tools_and_a_distractor(spec):
    episode = Episode(spec.source)
    used = {action["name"] for seed in SEEDS for action in gold(episode, seed) if "name" in action}
    assert 2 <= len(goal_kinds(spec)) <= 5
    assert 3 <= len(episode.tools) <= 8
    assert len(used) < len(episode.tools), "a distractor is a tool that no gold needs"


@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_gold_calls_fit_the_schemas_and_touch_no_locked_tool(spec):
    episode = Episode(spec.source)
    schemas = {tool["name"]: tool["parameters"] for tool in episode.tools}
    for seed in range(10):
        actions = gold(episode, seed)
        unlocked = set(episode.reset(seed)["tools"])
        for action in actions:
            if "name" in action:
                assert action["name"] in unlocked
                jsonschema.validate(action["arguments"], schemas[action["name"]])
            unlocked |= set(episode.step(action.get("name"), action.get("arguments"), action.get("text"))["unlocked"])


def test_the_tool_families_use_every_kind_of_goal_and_unlock_tools():
    kinds = Counter(kind for spec in TOOLS for kind in goal_kinds(spec))
    assert set(kinds) == {"state", "called", "replied", "asked", "declined"}
    locked = [
        spec.name for spec in TOOLS if len(Episode(spec.source).reset(0)["tools"]) < len(Episode(spec.source).tools)
    ]
    assert locked == ["release_board"]


def test_every_error_in_bank_transfers_names_the_tool_that_mends_it():
    (spec,) = (spec for spec in SPECS if spec.skill is Skill.ERROR_RECOVERY)
    episode = Episode(spec.source)
    names = {tool["name"] for tool in episode.tools}
    for seed in SEEDS:
        errors = [text for text in play(episode, seed, gold(episode, seed))[1] if text.startswith("Error: ")]
        assert len(errors) == 4, "two transfers, two causes each"
        assert all(names & set(re.findall(r"\w+", error)) for error in errors)


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_every_family_with_its_variants_and_hint_is_certified(spec):
    async with open_sandbox(LocalSandboxSettings()) as sandbox:
        for changes in ({}, *EASIER_AND_HARDER[spec.name]):
            settings = CertificateSettings(seeds=8 if changes else len(SEEDS))
            certificate = await certify(variant(spec, **changes), sandbox, settings=settings)
            assert certificate.verdict is Verdict.CERTIFIED, certificate.to_json()
        hinted = await certify_hint(spec, spec.hint, sandbox)
        assert hinted.verdict is Verdict.CERTIFIED, hinted.to_json()


async def test_every_family_is_won_in_the_sandbox():
    async with open_sandbox(LocalSandboxSettings()) as sandbox:
        for spec in SPECS:
            assert await won(sandbox, spec) == 1.0


async def won(sandbox, spec):
    async with await sandbox.open(spec) as env:
        await env.reset(seed=7)
        actions = await env.solution()
    async with await sandbox.open(spec, zygote=1) as env:
        await env.reset(seed=7)
        assert all(isinstance(action, ToolCall | Reply) for action in actions)
        results = [await env.step(action) for action in actions]
    assert [result.reward for result in results[:-1]] == [0.0] * (len(results) - 1)
    return results[-1].reward if results[-1].terminated else 0.0


def test_every_source_has_its_spec_beside_it():
    import spade_environments.catalogue

    folder = Path(spade_environments.catalogue.__file__).parent
    sources = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert sources == {path.name.removesuffix(".spec.json") for path in folder.glob("*.spec.json")}
    assert sources == {spec.name for spec in SPECS}
