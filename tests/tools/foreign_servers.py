"""MCP servers as a user may have them: a shelf of notes in memory, and one over stdio that can be told to fail."""

from __future__ import annotations

import sys

from mcp.server import Server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

from spade_tools import McpCommand

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}


class Shelf:
    """A server whose tools add, read and (for resets) clear notes; `tools` can be changed while it runs."""

    def __init__(self):
        self.notes = []
        self.tools = {"add_note": TEXT, "read_notes": NOTHING, "clear": NOTHING}
        self.server = Server("shelf", on_list_tools=self.list_tools, on_call_tool=self.call_tool)

    async def list_tools(self, context, params):
        return ListToolsResult(
            tools=[Tool(name=name, description=f"{name}.", input_schema=schema) for name, schema in self.tools.items()]
        )

    async def call_tool(self, context, params):
        if params.name not in self.tools:
            return said(f"unknown tool {params.name}", is_error=True)
        if params.name == "add_note":
            self.notes.append(params.arguments["text"])
        elif params.name == "clear":
            self.notes.clear()
        elif params.arguments:
            raise ValueError("a secret of the server's own")
        return said("\n".join(self.notes))


def said(text, *, is_error=False):
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


SCRIPT = """
import json, os, sys, time

def answer(message, result):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        answer(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                         "serverInfo": {"name": "brittle", "version": "1"}})
    elif method == "tools/list":
        answer(message, TOOLS)
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "die":
            sys.stderr.write("out of \\x1b[31mcheese"); sys.stderr.flush()
            os._exit(7)
        if name == "hang":
            time.sleep(60)
        if name == "babble":
            print("this is no JSON", flush=True)
            answer(message, {"content": "not a list"})
        answer(message, {"content": [{"type": "text", "text": "fi\\u0000ne"}]})
    elif "id" in message:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


def brittle(tools=None):
    """A stdio server of the older protocol with the tools fine, die, hang and babble, or those given."""
    listed = tools or [{"name": name, "inputSchema": NOTHING} for name in ("fine", "die", "hang", "babble")]
    return McpCommand(command=sys.executable, arguments=("-c", SCRIPT.replace("TOOLS", repr({"tools": listed}))))
