"""Plays a script of calls as a model inside an agent of the OpenAI Agents SDK; runs in an environment of its own."""

import asyncio
import json
import sys

from agents import Agent, ModelResponse, ModelSettings, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class Script(Model):
    """Makes the calls one after another, then says that it is done."""

    def __init__(self, calls):
        self.calls, self.made, self.offered, self.inputs = calls, 0, [], []

    async def get_response(self, system_instructions=None, input=None, model_settings=None, tools=(), *rest, **named):
        self.offered.append([tool.name for tool in tools])
        self.inputs = input
        if self.made == len(self.calls):
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            call = self.calls[self.made]
            self.made += 1
            output = ResponseFunctionToolCall(
                call_id=f"call_{self.made}", name=call["name"], arguments=json.dumps(call["arguments"]),
                type="function_call",
            )  # fmt: skip
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *arguments, **named):
        raise AssertionError("the runner was not asked to stream")


def connect(target):
    if "url" in target:
        return MCPServerStreamableHttp(
            {"url": target["url"]}, client_session_timeout_seconds=60, use_structured_content=True
        )
    return MCPServerStdio(
        {"command": target["command"], "args": target["args"]},
        client_session_timeout_seconds=60,
        use_structured_content=True,
    )


def results_of(inputs):
    outputs = [item["output"] for item in inputs if item.get("type") == "function_call_output"]
    return [read(output) for output in outputs]


def read(output):
    text = output if isinstance(output, str) else output[0]["text"]
    found = json.loads(text)
    return {"error": "error" in found, **found}


async def main(target, calls):
    set_tracing_disabled(True)
    model = Script([{"name": "get_task", "arguments": {}}, *calls])
    async with connect(target) as server:
        agent = Agent(name="player", model=model, mcp_servers=[server], model_settings=ModelSettings())
        await Runner.run(agent, "Begin.", max_turns=len(calls) + 3)
    print(
        json.dumps({"tools": model.offered[0], "tools_after": model.offered[-1], "results": results_of(model.inputs)})
    )


asyncio.run(main(json.loads(sys.argv[1]), json.loads(sys.argv[2])))
