"""Plays a script of calls with mcp 1.30, the SDK of the protocol with sessions; runs in an environment of its own."""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


def connect(target):
    if "url" in target:
        return streamablehttp_client(target["url"])
    return stdio_client(StdioServerParameters(command=target["command"], args=target["args"]))


async def main(target, calls):
    results = []
    async with connect(target) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        for call in [{"name": "get_task", "arguments": {}}, *calls]:
            result = await session.call_tool(call["name"], call["arguments"])
            results.append({"error": result.isError, **result.structuredContent})
        after = [tool.name for tool in (await session.list_tools()).tools]
    print(json.dumps({"tools": tools, "tools_after": after, "results": results}))


asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
