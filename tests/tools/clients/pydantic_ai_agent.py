"""Plays a script of calls as a model inside an agent of Pydantic AI; runs in an environment of its own."""

import asyncio
import json
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits


async def main(target, calls):
    script = [{"name": "get_task", "arguments": {}}, *calls]
    offered, made = [], []

    def respond(messages, info):
        offered.append([tool.name for tool in info.function_tools])
        if len(made) == len(script):
            return ModelResponse(parts=[TextPart("done")])
        made.append(script[len(made)])
        return ModelResponse(parts=[ToolCallPart(made[-1]["name"], made[-1]["arguments"])])

    where = target["url"] if "url" in target else StdioTransport(command=target["command"], args=target["args"])
    toolset = MCPToolset(where, tool_error_behavior="error", cache_tools=False, init_timeout=60.0, read_timeout=60.0)
    agent = Agent(FunctionModel(respond), toolsets=[toolset])
    async with agent:
        run = await agent.run("Begin.", usage_limits=UsageLimits(request_limit=100))
    returns = [part for message in run.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
    results = [{"error": "error" in part.content, **part.content} for part in returns]
    print(json.dumps({"tools": offered[0], "tools_after": offered[-1], "results": results}))


asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
