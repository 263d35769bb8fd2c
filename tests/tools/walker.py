"""A client on the wire, in either era of the protocol, that sends what it is told to and keeps all that it hears."""

from __future__ import annotations

NEWER, OLDER = "2026-07-28", "2025-11-25"
ENVELOPE = {"io.modelcontextprotocol/protocolVersion": NEWER, "io.modelcontextprotocol/clientCapabilities": {}}


class Walker:
    """Speaks to one URL through `raw`, an HTTP client."""

    def __init__(self, raw, url, version):
        self.raw, self.url, self.version = raw, url, version
        self.heard, self.heads, self.session, self.number = [], [], {}, 0

    async def ask(self, method, **params):
        """A request, with the envelope that the newer protocol wants."""
        self.number += 1
        return await self._send(method, self._enveloped(params), id=self.number)

    async def tell(self, method, **params):
        """A notification."""
        return await self._send(method, self._enveloped(params))

    async def ask_bare(self, method, params):
        """A request whose params are sent as they are."""
        self.number += 1
        return await self._send(method, params, id=self.number)

    def _enveloped(self, params):
        if self.version == NEWER:
            params["_meta"] = dict(ENVELOPE)
        return params

    async def _send(self, method, params, **identity):
        headers = {
            "accept": "application/json, text/event-stream", "mcp-protocol-version": self.version, "mcp-method": method,
            **self.session,
        }  # fmt: skip
        named = [params[key] for key in ("name", "uri") if isinstance(params, dict) and key in params]
        headers |= {"mcp-name": str(named[0])} if named else {}
        body = {"jsonrpc": "2.0", "method": method, "params": params, **identity}
        answer = await self.raw.post(self.url, json=body, headers=headers)
        self.heard.append((method, answer.text))
        self.heads.append(str(answer.headers.multi_items()))
        if "mcp-session-id" in answer.headers:
            self.session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        return answer

    async def call(self, name, arguments):
        return await self.ask("tools/call", name=name, arguments=arguments)

    async def say_hello(self):
        """What begins a session of the older protocol; in the newer one it is refused and does no harm."""
        hello = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "walker", "version": "1"}}
        await self.ask("initialize", **hello)
