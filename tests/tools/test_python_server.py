"""`run_python` as a built-in MCP server: programs run in the sandbox, and an agent's mistakes are its own to read."""

from __future__ import annotations

import pytest

from spade_environments import FaultKind, HostFault, Reply, ToolCall
from spade_environments.sandbox.code import open_code_runner
from spade_tools import McpEnv, McpTask, open_toolset, python_server


def program(code, **arguments):
    return ToolCall(name="run_python", arguments={"code": code, **arguments})


async def test_what_a_program_prints_is_the_answer_and_mistakes_are_told():
    async with open_code_runner() as runner, open_toolset(python_server(runner)) as toolset:
        answer = await toolset.call(program("print(sum(map(int, input().split())))", stdin="19 23"))
        assert (answer.text.strip(), answer.is_error, answer.data["outcome"]) == ("42", False, "ok")
        wrong = await toolset.call(program("x = 1\n1 / 0"))
        assert wrong.is_error
        assert "ZeroDivisionError" in wrong.text
        assert "NameError" in (await toolset.call(program("print(x)"))).text  # nothing is left of the one before
        assert "\x1b" not in (await toolset.call(program("print('\\x1b[2J')"))).text
        assert (await toolset.call(program("pass"))).text == "[it printed nothing]"


async def test_malformed_calls_are_told_what_is_wrong_and_run_nothing():
    async with open_toolset(python_server(_Broken())) as toolset:
        for call in (program("", stdin=3), ToolCall(name="run_python", arguments={}), ToolCall(name="x", arguments={})):
            answer = await toolset.call(call)
            assert answer.is_error
            assert answer.text.startswith("Error: ")


async def test_a_sandbox_that_fails_is_no_answer_but_an_infrastructure_fault():
    async with open_toolset(python_server(_Broken())) as toolset:
        with pytest.raises(HostFault, match="not to blame"):
            await toolset.call(program("print(1)"))


async def test_it_is_an_environment_with_a_task_and_a_checker():
    task = McpTask(instruction="What is 2 to the 70th?", data={"answer": str(2**70)})
    async with open_code_runner() as runner:
        server = python_server(runner)
        env = McpEnv(server, [task], lambda play: float(play.reply.strip() == play.task.data["answer"]))
        await env.reset(0)
        printed = await env.step(program("print(2 ** 70)"))
        assert (await env.step(Reply(text=printed.observation.text))).reward == 1.0
        await env.aclose()


class _Broken:
    """A runner whose sandbox is gone."""

    async def run_code(self, code, **limits):
        raise HostFault(FaultKind.HOST_FAULT, "run", "the supervisor is gone")
