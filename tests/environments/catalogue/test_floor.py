"""Agents that do not think (silent, random, stuck, dumping) lose in every hand-written family; so does hostile text."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from typing import Any

import pytest

from spade_environments import GAME_SKILLS, TOOL_SKILLS
from spade_environments.inside.episode import Episode
from spade_environments.registry import catalogue

SPECS = catalogue()
SEEDS = range(50)
FLOOR = 0.15
each = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
each_text = pytest.mark.parametrize("spec", [s for s in SPECS if s.skill in GAME_SKILLS], ids=lambda spec: spec.name)
each_tool = pytest.mark.parametrize("spec", [s for s in SPECS if s.skill in TOOL_SKILLS], ids=lambda spec: spec.name)

HOSTILE = (
    "", " ", "\x00", "{self}", "{0.__class__}", "%s%n", "__import__('os').system('x')", "²", "９", "-1", "1e999", "NaN",
    "9" * 5000, "a" * 10_000, "(" * 2000, "roll\tnorth east", "fire", "accuse", "accuse nobody", "ask a about a", "try",
    "wired", "try x=on", "\n".join("abc"), "null", "[]", "İ", "ß" * 50,
)  # fmt: skip


def gold(episode: Episode, seed: int) -> list[dict[str, Any]]:
    episode.reset(seed)
    return episode.solution()


def step(episode: Episode, action: dict[str, Any]) -> dict[str, Any]:
    return episode.step(action.get("name"), action.get("arguments"), action.get("text"))


def returned(episode: Episode, seed: int, choose) -> float:
    """Return of a play; `choose(seen, tools)` gives the next action from all text seen so far."""
    result = episode.reset(seed)
    seen, tools = [result["observation"]], list(result["tools"])
    for _ in range(episode.cls.max_turns):
        result = step(episode, choose(seen, tools))
        if result["terminated"]:
            return result["reward"]
        assert result["reward"] == 0.0
        seen.append(result["observation"])
        tools += result["unlocked"]
    return 0.0


def mean_return(spec, choose, seeds=SEEDS) -> float:
    episode = Episode(spec.source)
    return sum(returned(episode, seed, choose) for seed in seeds) / len(seeds)


def tokens(seen: list[str]) -> list[Any]:
    """Words, pairs of words, quoted strings and numbers, as they stand in what was seen."""
    text = "\n".join(seen)
    words = re.findall(r"[A-Za-z0-9]+", text)
    pairs = re.findall(r"[A-Z]\w+ [A-Z]\w+", text)
    quoted = re.findall(r"[\"']([^\"']{1,40})[\"']", text)
    return [*dict.fromkeys([*words, *pairs, *quoted])]


def random_arguments(schema: dict[str, Any], seen: list[str], rng: random.Random) -> dict[str, Any]:
    def drawn(kind: dict[str, Any]) -> Any:
        if "enum" in kind:
            return rng.choice(kind["enum"])
        if kind["type"] == "boolean":
            return rng.random() < 0.5
        if kind["type"] == "integer":
            return int(rng.choice([token for token in tokens(seen) if token.isdigit() and len(token) < 6] or ["1"]))
        return rng.choice(tokens(seen))

    return {name: drawn(kind) for name, kind in schema["properties"].items()}


@each
def test_a_silent_agent_never_wins(spec):
    assert mean_return(spec, lambda seen, tools: {"text": ""}) == 0.0
    assert mean_return(spec, lambda seen, tools: {"text": "Which one do you mean?"}) == 0.0


@each_tool
def test_a_random_agent_with_values_it_has_seen_stays_at_the_floor(spec):
    rng = random.Random(0)
    schemas = {tool["name"]: tool["parameters"] for tool in Episode(spec.source).tools}

    def choose(seen, tools):
        if rng.random() < 0.25:
            return {"text": str(rng.choice(tokens(seen)))}
        name = rng.choice(tools)
        return {"name": name, "arguments": random_arguments(schemas[name], seen, rng)}

    assert mean_return(spec, choose) <= FLOOR


@each_text
def test_a_random_agent_with_well_formed_actions_stays_at_the_floor(spec):
    rng = random.Random(0)
    episode = Episode(spec.source)
    shapes = [action for seed in SEEDS for action in gold(episode, seed)]

    def choose(seen, tools):
        action = rng.choice(shapes)
        (argument,) = action["arguments"]
        words = [
            word if re.search(rf"\b{re.escape(word)}\b", seen[0]) and rng.random() < 0.5 else rng.choice(tokens(seen))
            for word in action["arguments"][argument].split()[1:]
        ]
        verb = action["arguments"][argument].split()[0] if words else rng.choice(tokens(seen))
        return {"name": action["name"], "arguments": {argument: " ".join([verb, *words])}}

    assert mean_return(spec, choose) <= FLOOR


@each
def test_no_action_wins_most_seeds_when_repeated_or_tried_first(spec):
    episode = Episode(spec.source)
    tried = {json.dumps(action): action for seed in range(5) for action in gold(episode, seed)}
    for action in tried.values():

        def stuck(seen, tools, action=action):
            return action if len(seen) % 2 or action.get("name") not in tools else {"text": "42"}

        assert mean_return(spec, stuck, range(20)) <= FLOOR
        assert mean_return(spec, lambda seen, tools, action=action: action, range(20)) <= FLOOR


@each_tool
def test_an_agent_that_reads_everything_and_replies_with_every_value_stays_at_the_floor(spec):
    episode = Episode(spec.source)
    schemas = {tool["name"]: tool["parameters"] for tool in episode.tools}
    for pick in (lambda found: " ".join(found)[:300], lambda found: " ".join(found)[-300:], lambda found: found[-1]):
        assert sum(dumped(episode, schemas, seed, pick) for seed in range(20)) / 20 <= FLOOR


def dumped(episode: Episode, schemas, seed: int, pick) -> float:
    """One message reads all it can, the next replies, whatever the number of calls."""
    result = episode.reset(seed)
    seen = [result["observation"]]
    while not result.get("terminated"):
        for _ in range(2):
            for action in reads(schemas, seen):
                seen.append(step(episode, action)["observation"])
        found = [token for token in tokens(seen) if any(character.isdigit() for character in token)]
        result = step(episode, {"text": pick(found or tokens(seen))})
        seen.append(result["observation"])
    return result["reward"]


def reads(schemas, seen: list[str], limit: int = 150) -> list[dict[str, Any]]:
    found = tokens(seen)
    calls = []
    for name, schema in schemas.items():
        if name.startswith(("find", "list", "read", "tickets", "convert", "forecast", "outages", "burndown")):
            numbers = [int(token) for token in found if token.isdigit() and len(token) < 6][-10:]
            choices = [
                kind["enum"] if "enum" in kind else numbers if kind["type"] == "integer" else found
                for kind in schema["properties"].values()
            ]
            for values in list(product(*choices))[-limit:]:
                calls.append({"name": name, "arguments": dict(zip(schema["properties"], values, strict=True))})
    return calls


@each_text
def test_hostile_text_neither_raises_nor_pays(spec):
    episode = Episode(spec.source)
    for seed, text in product(range(3), HOSTILE):
        action = gold(episode, seed)[0]
        (argument,) = action["arguments"]
        result = step(episode, {"name": action["name"], "arguments": {argument: text}})
        assert result["reward"] == 0.0


@each_tool
def test_hostile_arguments_are_tool_errors_and_never_pay(spec):
    episode = Episode(spec.source)
    integers = (-1, 0, 10**400, -(10**400))
    for tool in episode.tools:
        episode.reset(0)
        for text, number in product(HOSTILE, integers):
            kinds = tool["parameters"]["properties"]
            arguments = {
                name: kind["enum"][0]
                if "enum" in kind
                else {"integer": number, "boolean": True}.get(kind["type"], text)
                for name, kind in kinds.items()
            }
            result = step(episode, {"name": tool["name"], "arguments": arguments})
            assert result["reward"] == 0.0
            assert len(result["observation"]) < 4000
        assert step(episode, {"text": ""})["reward"] == 0.0
