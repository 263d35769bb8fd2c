"""What to paste into the configuration of common MCP clients, so that they start `spade serve`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Snippet", "client_snippets", "snippets_page"]


class Snippet(NamedTuple):
    """A piece of configuration: which clients read it, and from where; its language; the text."""

    clients: str
    language: str
    text: str


def client_snippets(name: str, arguments: Sequence[str], *, command: str = "spade") -> tuple[Snippet, ...]:
    """One snippet for each form of configuration.

    Args:
        name: of the server, in the client.
        arguments: of `spade`.
        command: where `spade` is; a client may not have the PATH of a shell.
    """
    server = {"command": command, "args": list(arguments)}
    quoted = ", ".join(json.dumps(argument) for argument in arguments)
    return (
        Snippet(
            "Claude Desktop (claude_desktop_config.json), Claude Code (.mcp.json), Cursor (.cursor/mcp.json), "
            "Gemini CLI (.gemini/settings.json)",
            "json",
            json.dumps({"mcpServers": {name: server}}, indent=2),
        ),
        Snippet(
            "VS Code (.vscode/mcp.json)",
            "json",
            json.dumps({"servers": {name: {"type": "stdio", **server}}}, indent=2),
        ),
        Snippet(
            "Codex (.codex/config.toml)",
            "toml",
            f"[mcp_servers.{json.dumps(name)}]\ncommand = {json.dumps(command)}\nargs = [{quoted}]",
        ),
    )


def snippets_page(snippets: Sequence[Snippet]) -> str:
    """The snippets as Markdown, as they stand in the README."""
    return "\n\n".join(f"{told.clients}:\n\n```{told.language}\n{told.text}\n```" for told in snippets)
