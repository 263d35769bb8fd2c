"""EpisodeServer: a served episode as an MCP server; its client sees tools and observations, nothing privileged."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import msgspec
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp.types.methods import serialize_server_result, validate_client_request
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from spade_environments import Reply, ToolCall, ToolSpec
from spade_environments.validation import ArgumentValidator, clean_text
from spade_tools.episode import ServedEpisode
from spade_tools.reserved import FINISH_TURN, GET_TASK, HINT, RESERVED, RESET, announced, output_schema
from spade_tools.types import Answer, Mode, Phase

__all__ = ["MANIFEST_URI", "TASK_URI", "EpisodeServer"]

TASK_URI = "spade://task"
MANIFEST_URI = "spade://manifest"
_CALL = "tools/call"
_CALL_KEYS = {"name", "arguments", "_meta"}
_pack = msgspec.msgpack.Encoder().encode
_RESERVED_NAMES = frozenset(spec.name for spec in RESERVED)
_INSTRUCTIONS = (
    "An environment to act in by tool calls. Read the task with get_task, then act with the other tools; each call "
    "counts as a turn."
)
_WITH_USER = " Hand the turn back with finish_turn when an instruction is carried out: the next one comes back."


class EpisodeServer:
    """MCP's handlers over a `ServedEpisode`; `server` goes onto any transport.

    Arguments of an environment's tools are validated once, in the environment's host-side proxy; here only those of
    the tools that the server adds.
    """

    def __init__(self, episode: ServedEpisode) -> None:
        self.episode = episode
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus, max_subscriptions=16)
        self._validator = ArgumentValidator(RESERVED)
        self.server = _Server(
            clean_text(episode.spec.name)[:64],
            version=_version(),
            instructions=_INSTRUCTIONS + (_WITH_USER if episode.takes_replies else ""),
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_resource_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=self._listen,
        )
        self.server.add_request_handler(_CALL, CallToolRequestParams, self._call_tool)
        self.server.middleware[:] = [self._quick_call]  # in place of tracing spans, which nobody reads here
        self._identity = self.server.server_info_stamp
        self._known_meta: bytes | None = None

    async def aclose(self) -> None:
        """End the episode, its process and every subscription."""
        self._listen.close()
        await self.episode.aclose()

    def tools(self) -> tuple[ToolSpec, ...]:
        """What can be called now."""
        return (*self.episode.tools, *self._own())

    def _own(self) -> tuple[ToolSpec, ...]:
        episode = self.episode
        own = (GET_TASK, FINISH_TURN) if episode.takes_replies else (GET_TASK,)
        if episode.mode is Mode.AGENT:
            return own
        return (*own, RESET, HINT) if episode.hint is not None else (*own, RESET)

    async def _list_tools(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        _refuse_cursor(params)
        await self.episode.start()
        schema = output_schema(self.episode.mode)
        return ListToolsResult(tools=[_tool(spec, schema) for spec in self.tools()])

    async def _quick_call(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> HandlerResult:
        """Answers tool calls of the newer protocol, whose requests all stand alone: checked once, the answer not again.

        On the SDK's own way the request is checked twice, and what is written here is read back and written again.
        """
        version = ctx.protocol_version
        if ctx.method != _CALL or ctx.request_id is None or version not in MODERN_PROTOCOL_VERSIONS:
            return await call_next(ctx)
        params = self._checked(ctx.params, version)
        answer = await self._call(ctx, params["name"], params.get("arguments") or {})
        result = _result(answer)
        if answer.is_error or answer.new_tools:  # what a client has sent, or a schema, may stand in it
            result = serialize_server_result(_CALL, version, result)
        result["_meta"] = {SERVER_INFO_META_KEY: dict(self._identity)}
        return result

    def _checked(self, params: Mapping[str, Any] | None, version: str) -> Mapping[str, Any]:
        """The parameters of a call, found right; a client's `_meta` is the same with every call, and checked once.

        What is kept of it are its bytes: the object itself is a client's, who may change it, where both are in one
        process.

        Raises:
            ValidationError: they are not (pydantic's).
        """
        meta = None
        if (
            type(params) is dict
            and params.keys() == _CALL_KEYS
            and type(params["name"]) is str
            and type(params["arguments"]) is dict
        ):
            meta = _packed(params["_meta"])
            if meta is not None and meta == self._known_meta:
                return params
        validate_client_request(_CALL, version, params)
        assert params is not None
        if meta is not None:
            self._known_meta = meta
        return params

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> dict[str, Any]:
        return _result(await self._call(context, params.name, params.arguments or {}))

    async def _call(self, context: ServerRequestContext[Any], name: str, arguments: Mapping[str, Any]) -> Answer:
        if self.episode.phase is Phase.NEEDS_RESET:
            await self.episode.start()
        before = self.episode.tools
        answer = await self._answer(name, arguments)
        if self.episode.tools is not before:
            await self._tell_of_tools(context)
        return answer

    async def _answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        episode = self.episode
        # A Reply in an environment without a user is told so by the environment itself, so finish_turn always works.
        if name == FINISH_TURN.name and set(arguments) == {"message"} and isinstance(arguments["message"], str):
            return await episode.act(Reply(text=arguments["message"]))
        if name not in _RESERVED_NAMES or not any(spec.name == name for spec in self._own()):
            return await episode.act(ToolCall(name=name, arguments=arguments))
        error = self._validator.check(ToolCall(name=name, arguments=arguments))
        if error is not None:
            return Answer(text=f"Error: {error.text}.", is_error=True, error=error.kind.value)
        if name == RESET.name:
            return await episode.reset(arguments.get("seed"))
        if name == HINT.name:
            return Answer(text=episode.hint or "")
        return episode.current_task()

    async def _tell_of_tools(self, context: ServerRequestContext[Any]) -> None:
        """By a notification, to an older client's session, and to whoever subscribed in the newer protocol."""
        await self._bus.publish(ToolsListChanged())
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await context.session.send_tool_list_changed()

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return next((spec.parameters for spec in self.tools() if spec.name == name), None)

    async def _list_prompts(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        _refuse_cursor(params)
        return ListPromptsResult(prompts=[Prompt(name="task", description="The current instruction.")])

    async def _get_prompt(self, context: ServerRequestContext[Any], params: GetPromptRequestParams) -> GetPromptResult:
        if params.name != "task":
            raise MCPError(INVALID_PARAMS, "unknown prompt; the one there is is named task")
        text = await self._task()
        return GetPromptResult(messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))])

    async def _list_resources(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        _refuse_cursor(params)
        return ListResourcesResult(
            resources=[
                Resource(uri=TASK_URI, name="task", description="The current instruction.", mime_type="text/plain"),
                Resource(
                    uri=MANIFEST_URI, name="manifest", description="What kind of environment this is.",
                    mime_type="application/json",
                ),
            ]
        )  # fmt: skip

    async def _list_resource_templates(
        self, context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        _refuse_cursor(params)
        return ListResourceTemplatesResult(resource_templates=[])

    async def _read_resource(
        self, context: ServerRequestContext[Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        uri = str(params.uri)
        if uri == TASK_URI:
            text, kind = await self._task(), "text/plain"
        elif uri == MANIFEST_URI:
            text, kind = json.dumps(self._manifest(), ensure_ascii=False), "application/json"
        else:
            told = f"unknown resource; there are {TASK_URI} and {MANIFEST_URI}"
            raise MCPError(INVALID_PARAMS, told, data={"uri": uri})
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=kind, text=text)])

    async def _task(self) -> str:
        await self.episode.start()
        return self.episode.current_task().text

    def _manifest(self) -> dict[str, Any]:
        """What may be known of an environment by those who act in it."""
        spec = self.episode.spec
        return {
            "name": clean_text(spec.name),
            "skill": spec.skill.value,
            "domain": clean_text(spec.domain),
            "mode": self.episode.mode.value,
            "max_turns": self.episode.max_turns,
            "takes_replies": self.episode.takes_replies,
        }


@functools.cache
def _version() -> str:
    return version("spade-agents")


class _Server(Server[Any]):
    """Says that its list of tools can change, on every transport."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        return super().get_capabilities(
            NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )


def _packed(meta: Any) -> bytes | None:
    """Bytes that no other plain value has, `None` where it has none."""
    try:
        return _pack(meta)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _refuse_cursor(params: PaginatedRequestParams | None) -> None:
    """Every list is told in one piece, so that no cursor was ever given out."""
    if params is not None and params.cursor is not None:
        raise MCPError(INVALID_PARAMS, "unknown cursor; the list comes in one piece")


def _result(answer: Answer) -> dict[str, Any]:
    """A CallToolResult as it stands on the wire: a model of it would be checked once more than that."""
    structured: dict[str, Any] = {"observation": answer.text, "over": answer.over}
    texts = [answer.text]
    if answer.error is not None:
        structured["error"] = answer.error
    if answer.new_tools:
        structured["new_tools"] = [announced(spec) for spec in answer.new_tools]
        texts.append(f"New tools: {json.dumps(structured['new_tools'], ensure_ascii=False)}")
    if answer.score is not None and answer.over:
        structured["score"] = answer.score
        texts.append(f"The episode is over. Score: {answer.score:g}")
    content = [{"type": "text", "text": text} for text in texts]
    return {
        "resultType": "complete",
        "content": content,
        "structuredContent": structured,
        "isError": answer.is_error,
    }


def _tool(spec: ToolSpec, output: dict[str, Any]) -> Tool:
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema=dict(spec.parameters),
        output_schema=output,
    )
