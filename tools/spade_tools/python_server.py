"""`run_python`: a built-in MCP server whose one tool runs a program in the sandbox, each call afresh."""

from __future__ import annotations

from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, Tool

from spade_environments import HostFault, ToolCall, ToolSpec
from spade_environments.sandbox.code import CodeRunner, open_code_runner
from spade_environments.sandbox.code_settings import CodeSettings
from spade_environments.sandbox.execution import Execution
from spade_environments.validation import ArgumentValidator, clean_text
from spade_tools.pipes import standard_streams

__all__ = ["RUN_PYTHON", "SANDBOX_FAILED", "python_server", "serve_python"]

RUN_PYTHON = ToolSpec(
    name="run_python",
    description=(
        "Run a Python program and read what it prints. Each call starts afresh: no variable or file is left from the "
        "one before. The standard library's harmless modules and numpy can be imported; there are no files and no "
        "network."
    ),
    parameters={
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "The whole program; print what you want to read."},
            "stdin": {"type": "string", "description": "What the program finds on its standard input."},
        },
        "required": ["code"],
        "additionalProperties": False,
    },
)
_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {"type": "string", "description": "ok, error, exit, timeout_cpu, memory and the like."},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "error": {"type": "string", "description": "The end of the traceback; empty where the outcome is ok."},
        "truncated": {"type": "boolean", "description": "Whether a stream was cut."},
    },
    "required": ["outcome", "stdout", "stderr", "error", "truncated"],
    "additionalProperties": False,
}
SANDBOX_FAILED = -32050
"""The JSON-RPC error that tells of our own fault, not the program's."""


def python_server(runner: CodeRunner, *, timeout: float = 5.0, memory: int = 256 * 1024 * 1024) -> Server[Any]:
    """A server with the tool `run_python`; what the program does wrong is in the answer, with `is_error`.

    Args:
        runner: runs the programs; stays open.
        timeout: CPU seconds of one program.
        memory: bytes of one program.

    >>> async with open_code_runner() as runner, open_toolset(python_server(runner)) as toolset:    # doctest: +SKIP
    ...     print((await toolset.call(ToolCall(name="run_python", arguments={"code": "print(6 * 7)"}))).text)
    """
    validator = ArgumentValidator([RUN_PYTHON])

    async def list_tools(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        tool = Tool(
            name=RUN_PYTHON.name,
            description=RUN_PYTHON.description,
            input_schema=dict(RUN_PYTHON.parameters),
            output_schema=_OUTPUT,
        )
        return ListToolsResult(tools=[tool])

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        error = validator.check(ToolCall(name=params.name, arguments=arguments))
        if error is not None:
            return CallToolResult(content=[TextContent(type="text", text=f"Error: {error.text}.")], is_error=True)
        try:
            execution = await runner.run_code(
                arguments["code"], stdin=arguments.get("stdin", ""), timeout=timeout, memory=memory
            )
        except HostFault as fault:
            raise MCPError(
                SANDBOX_FAILED, f"the sandbox failed ({fault.kind.value}); the program is not to blame"
            ) from fault
        return _result(execution)

    return Server("run_python", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_python(settings: CodeSettings | None = None) -> None:
    """Serve `run_python` over standard input and output until the client hangs up."""
    async with open_code_runner(settings) as runner, standard_streams() as (read, write):
        server = python_server(runner)
        await server.run(read, write, server.create_initialization_options())


def _result(execution: Execution) -> CallToolResult:
    stdout, stderr, error = map(clean_text, (execution.stdout, execution.stderr, execution.error))
    parts = [stdout]
    if stderr and error not in stderr:
        parts.append(f"stderr:\n{stderr}")
    if execution.truncated:
        parts.append(f"[cut: it wrote {execution.stdout_bytes + execution.stderr_bytes} bytes]")
    if not execution.ok:
        parts.append(f"[{execution.outcome.value}] {error}".rstrip())
    text = "\n".join(part for part in parts if part) or "[it printed nothing]"
    structured = {"outcome": execution.outcome.value, "stdout": stdout, "stderr": stderr, "error": error,
                  "truncated": execution.truncated}  # fmt: skip
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=not execution.ok
    )
