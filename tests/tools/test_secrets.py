"""Every message that an agent's client can obtain, walked: no reward, seed, hint, solution or source is in any."""

from __future__ import annotations

import json
import re

import httpx2
import pytest
from mcp.types import methods as protocol

from spade_environments import Reply
from spade_environments.registry import catalogue
from spade_environments.sandbox import InlineSandboxSettings, open_sandbox
from spade_tools import EpisodeLimits, EpisodeRequest, Mode
from tests.tools.served import VAULT, in_memory, over_http
from tests.tools.walker import NEWER, OLDER, Walker

SEED = 918_273_645
MARKS = ("HINT-MARK", "CODE-MARK", "SOURCE-MARK", "PROVENANCE-MARK", "It was pulled", VAULT.id, str(SEED))
WORDS = ("reward", "score", "seed", "hint", "solution", "source", "outcome", "transcript", "traceback")
CALLS = (
    ("get_task", {}), ("get_task", {"seed": 1}), ("finish_turn", {}), ("reset", {"seed": 1}), ("hint", {}),
    ("score", {}), ("open_door", {}), ("pull", {"times": "x"}), ("pull", {}), ("pull", {"times": 0}),
    ("echo", {"text": "x", "parts": 3}),
)  # fmt: skip
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
OTHERS = {
    **{method: [{}, {"cursor": "1"}] for method in LISTS},
    "prompts/get": [{"name": "task"}, {"name": "hint"}],
    "resources/read": [{"uri": "spade://task"}, {"uri": "spade://manifest"}, {"uri": "spade://seed"}],
    "completion/complete": [{"ref": {"type": "ref/prompt", "name": "task"}, "argument": {"name": "a", "value": ""}}],
    "logging/setLevel": [{"level": "debug"}],
    "resources/subscribe": [{"uri": "spade://task"}],
    "resources/unsubscribe": [{"uri": "spade://task"}],
}


async def ask_everything(walker):
    """Every request that the protocol knows, in the state in which the episode is."""
    for method in sorted(protocol.SPEC_CLIENT_METHODS - {"tools/call", "subscriptions/listen", "initialize"}):
        for params in OTHERS.get(method, [{}]):
            await walker.ask(method, **params)
    for name, arguments in CALLS:
        await walker.call(name, arguments)


@pytest.mark.parametrize("version", [NEWER, OLDER])
async def test_no_message_of_an_agents_episode_tells_what_only_the_trainer_knows(version):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        many = EpisodeLimits(turns=100)
        created = await server.create(EpisodeRequest(environment="vault", seed=SEED, limits=many))
        walker = Walker(raw, created.url, version)
        await walker.say_hello()
        await ask_everything(walker)
        pulls = int(server.report(created.id).opening.split()[3])
        await walker.call("pull", {"times": pulls})
        await walker.call("finish_turn", {"message": ""})
        await ask_everything(walker)
        await walker.call("open_door", {})
        await walker.call("finish_turn", {"message": ""})
        await walker.call("finish_turn", {"message": f"{pulls}"})
        await ask_everything(walker)
        assert server.report(created.id).reward == 1.0
        check(walker, told=7)


@pytest.mark.parametrize("version", [NEWER, OLDER])
async def test_no_message_about_a_fault_quotes_the_environment(version):
    async with over_http() as server, httpx2.AsyncClient() as raw:
        created = await server.create(EpisodeRequest(environment="vault", seed=SEED))
        walker = Walker(raw, created.url, version)
        await walker.say_hello()
        await walker.call("explode", {})
        await ask_everything(walker)
        assert "CODE-MARK" in server.report(created.id).fault
        check(walker, told=3)


def check(walker, *, told):
    """Nothing privileged in what was heard, of which at least so many were results of calls that did something."""
    results = 0
    for head in walker.heads:
        assert not any(mark in head for mark in MARKS), head
    for method, text in walker.heard:
        for mark in MARKS:
            assert mark not in text, (method, text)
        message = json.loads(text)
        asked = {
            "reset",
            "hint",
            "score",
            "seed",
        }  # words that the walker itself sent, given back in "unknown tool ..." and "unknown resource"
        for word in WORDS:
            shown = text.lower()
            for own in asked:
                shown = shown.replace(f"'{own}'", "").replace(f'"uri":"spade://{own}"', "")
            assert not re.search(rf"\b{word}\b", shown), (method, word, text)
        results += "structuredContent" in message.get("result", {})
    assert results >= told


@pytest.mark.parametrize("spec", catalogue(), ids=lambda spec: spec.name)
async def test_no_catalogue_environment_tells_its_seed_hint_or_source_when_gold_is_played(spec):
    async with open_sandbox(InlineSandboxSettings()) as sandbox, await sandbox.open(spec) as env:
        await env.reset(SEED)
        gold = await env.solution()
    async with in_memory(spec, seed=SEED) as (episode, client):
        heard = [await client.list_tools(), await client.list_prompts(), await client.read_resource("spade://manifest")]
        for action in gold:
            heard += [await client.get_prompt("task"), await client.call_tool("get_task", {})]
            if isinstance(action, Reply):
                heard.append(await client.call_tool("finish_turn", {"message": action.text}))
            else:
                heard.append(await client.call_tool(action.name, dict(action.arguments)))
        assert episode.reward == 1.0
    code = re.compile(r"self\.|return |def |class |import |Goal\(|Call\(")
    lines = [line.strip() for line in spec.source.splitlines() if len(line.strip()) > 20 and code.search(line)]
    for message in heard:
        text = json.dumps(message.model_dump(mode="json"), ensure_ascii=False)
        for secret in (str(SEED), spec.hint, spec.id, '"reward"', '"score"', *lines):
            assert secret not in text, (secret, text)


async def test_the_walk_would_find_what_it_looks_for():
    """In play mode the same calls do tell of seed, hint and score, so the words above are the right ones."""
    async with in_memory(mode=Mode.PLAY, hint=True) as (_, client):
        text = (await client.list_tools()).model_dump_json()
        assert "seed" in text
        await client.call_tool("reset", {"seed": 3})
        assert "HINT-MARK" in (await client.call_tool("hint", {})).model_dump_json()
        assert "score" in (await client.call_tool("finish_turn", {"message": ""})).model_dump_json()
