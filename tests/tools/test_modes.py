"""What an agent's client and a player's client are offered and told, in both protocol eras."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import ToolListChangedNotification

from spade_tools import EpisodeRequest, EpisodeServer, Mode
from tests.tools.served import ERAS, FIRST, PULLS, VAULT, in_memory, over_http, said

AT_FIRST = ["pull", "echo", "work", "explode"]


async def names(client):
    return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_plays_to_the_end_and_a_tool_appears_when_its_goal_unlocks_it(era):
    async with in_memory(era=era) as (episode, client):
        assert await names(client) == [*AT_FIRST, "get_task", "finish_turn"]
        assert said(await client.call_tool("get_task", {})) == (FIRST, False, False)
        assert (await client.call_tool("open_door", {})).structured_content["error"] == "unknown_tool"
        await client.call_tool("pull", {"times": PULLS})
        unlocked = await client.call_tool("finish_turn", {"message": ""})
        assert unlocked.structured_content["observation"] == "Open the door."
        assert [tool["name"] for tool in unlocked.structured_content["new_tools"]] == ["open_door"]
        assert "open_door" in unlocked.content[1].text
        assert await names(client) == [*AT_FIRST, "open_door", "get_task", "finish_turn"]
        assert said(await client.call_tool("get_task", {})) == ("Open the door.", False, False)
        await client.call_tool("open_door", {})
        await client.call_tool("finish_turn", {"message": ""})
        assert said(await client.call_tool("finish_turn", {"message": str(PULLS)})) == (
            "Everything is done. Thank you.", True, False,
        )  # fmt: skip
        assert (episode.report().outcome, episode.reward) == ("scored", 1.0)


async def test_an_agent_is_offered_neither_reset_nor_hint_and_cannot_call_them():
    async with in_memory() as (_, client):
        for tool in ("reset", "hint"):
            text, over, is_error = said(await client.call_tool(tool, {}))
            assert (over, is_error) == (False, True)
            assert text.startswith(f"Error: unknown tool '{tool}'")


async def test_task_and_manifest_can_be_read_by_clients_that_show_prompts_and_resources():
    async with in_memory() as (_, client):
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["task"]
        assert (await client.get_prompt("task")).messages[0].content.text == FIRST
        uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert uris == ["spade://task", "spade://manifest"]
        assert (await client.read_resource("spade://task")).contents[0].text == FIRST
        assert json.loads((await client.read_resource("spade://manifest")).contents[0].text) == {
            "name": "vault", "skill": "state modification", "domain": "doors", "mode": "agent", "max_turns": 8,
            "takes_replies": True,
        }  # fmt: skip
        for wrong in (client.get_prompt("other"), client.read_resource("spade://other")):
            with pytest.raises(MCPError, match="unknown"):
                await wrong


async def test_a_player_begins_anew_reads_the_score_and_asks_for_the_hint():
    async with in_memory(mode=Mode.PLAY, hint=True) as (_, client):
        assert await names(client) == [*AT_FIRST, "get_task", "finish_turn", "reset", "hint"]
        for tool in ("pull", "get_task", "finish_turn"):
            arguments = {"pull": {"times": 1}, "finish_turn": {"message": ""}}.get(tool, {})
            assert said(await client.call_tool(tool, arguments))[0] == (
                "Error: the episode has not begun; call reset first."
            )
        assert said(await client.call_tool("reset", {"seed": 3})) == (FIRST, False, False)
        assert said(await client.call_tool("hint", {}))[0] == VAULT.hint
        lost = await client.call_tool("finish_turn", {"message": ""})
        assert lost.structured_content["score"] == 0.0
        assert lost.content[-1].text == "The episode is over. Score: 0"
        assert said(await client.call_tool("pull", {"times": 1}))[0] == (
            "Error: the episode is over; call reset to play again."
        )
        await client.call_tool("reset", {"seed": 3})
        await client.call_tool("pull", {"times": PULLS})
        for message in ("", "", str(PULLS)):
            await client.call_tool("open_door", {})
            last = await client.call_tool("finish_turn", {"message": message})
        assert last.structured_content["score"] == 1.0


async def test_a_player_who_names_no_seed_gets_the_instance_that_the_server_was_started_for():
    async with in_memory(mode=Mode.PLAY) as (episode, client):
        for _ in range(2):
            assert said(await client.call_tool("reset", {}))[0] == FIRST
            assert episode.report().seed == 3
        await client.call_tool("reset", {"seed": 4})
        assert episode.report().seed == 4


async def test_a_player_of_a_server_that_was_started_for_no_seed_gets_a_new_instance_each_time():
    async with in_memory(mode=Mode.PLAY, seed=None) as (episode, client):
        seeds = set()
        for _ in range(4):
            await client.call_tool("reset", {})
            seeds.add(episode.report().seed)
        assert len(seeds) > 1


async def test_a_player_without_the_hint_is_not_offered_it():
    async with in_memory(mode=Mode.PLAY) as (_, client):
        assert "hint" not in await names(client)
        assert said(await client.call_tool("reset", {}))[2] is False


async def test_an_older_client_is_notified_of_new_tools_in_memory():
    heard = []

    async def listen(message):
        heard.append(message)

    async with (
        in_memory(era="legacy") as (episode, _),
        Client(EpisodeServer(episode).server, mode="legacy", message_handler=listen) as client,
    ):
        assert client.server_capabilities.tools.list_changed
        await client.call_tool("pull", {"times": PULLS})
        await client.call_tool("finish_turn", {"message": ""})
        assert [type(message) for message in heard] == [ToolListChangedNotification]


async def test_an_older_client_is_notified_of_new_tools_over_http():
    heard = anyio.Event()

    async def listen(message):
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    async with over_http() as server:
        url = (await server.create(EpisodeRequest(environment="vault", seed=3))).url
        async with Client(url, mode="legacy", message_handler=listen) as client:
            await client.call_tool("pull", {"times": PULLS})
            await client.call_tool("finish_turn", {"message": ""})
            with anyio.fail_after(10):
                await heard.wait()


async def test_a_newer_client_that_subscribed_is_notified_of_new_tools_over_http():
    async with over_http() as server:
        url = (await server.create(EpisodeRequest(environment="vault", seed=3))).url
        async with Client(url) as client, Client(url) as listener, listener.listen(tools_list_changed=True) as events:
            await client.call_tool("pull", {"times": PULLS})
            await client.call_tool("finish_turn", {"message": ""})
            with anyio.fail_after(10):
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged"
                    break


@pytest.mark.parametrize("era", ERAS)
async def test_results_fit_the_declared_output_schema_in_every_state(era):
    from jsonschema import Draft202012Validator

    async with in_memory(era=era, mode=Mode.PLAY, hint=True) as (_, client):
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for name, arguments in (
            ("pull", {"times": PULLS}), ("reset", {"seed": 3}), ("pull", {"times": "x"}), ("pull", {"times": PULLS}),
            ("hint", {}), ("finish_turn", {"message": ""}), ("finish_turn", {"message": ""}), ("get_task", {}),
        ):  # fmt: skip
            result = await client.call_tool(name, arguments)
            assert list(Draft202012Validator(schemas[name]).iter_errors(result.structured_content)) == []
