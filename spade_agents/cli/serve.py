"""`spade serve`: environments for any MCP client, over standard input and output or over HTTP."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from spade_environments import EnvironmentSpec
    from spade_tools import EpisodeRequest, HttpSettings

__all__ = ["serve"]

_PYTHON = "run_python"
_IDLE = 3600.0


class Transport(StrEnum):
    """How a client reaches the server."""

    STDIO = "stdio"
    HTTP = "http"


class ServeMode(StrEnum):
    """Whom the episodes are for."""

    AGENT = "agent"
    PLAY = "play"


def serve(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="ENV...", help="A name, a file, RUN/ID, a pool's folder, `catalogue`, or `run_python`."),
    ],
    transport: Annotated[Transport, typer.Option(help="stdio: a client starts this command; http: it is given a URL.")]
    = Transport.STDIO,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="For http; any free one if left out.")] = None,
    seed: Annotated[int | None, typer.Option(help="Which instance; any if left out, and another by a reset.")] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Let a player ask for the hint; with --mode play.")] = False,
    mode: Annotated[ServeMode, typer.Option(help="agent: one episode, no score; play: reset and score, for people.")]
    = ServeMode.AGENT,
    idle: Annotated[
        float | None,
        typer.Option(min=1, max=604_800, help="For http: seconds until an unused episode is ended; 3600 if left out."),
    ] = None,
    configuration: Annotated[
        bool, typer.Option("--configuration", help="Print what to paste into common MCP clients, and stop.")
    ] = False,
) -> None:  # fmt: skip
    """Put environments into any MCP client.

    Over stdio one server is one environment and, in agent mode, one episode. Over http the URL of one ready episode is
    printed; more are made by POST /episodes with the bearer token, which is printed to standard error unless it was
    given as SPADE_TOKEN. Ctrl-C ends every episode. `run_python` is no environment but a tool that runs programs in the
    sandbox.
    """
    import asyncio
    import errno

    from spade_agents.errors import UsageError
    from spade_tools import EpisodeRequest, HttpSettings, Mode, RequestError

    if targets == [_PYTHON]:
        if (port, seed, hint, mode, idle) != (None, None, False, ServeMode.AGENT, None):
            raise UsageError("run_python is no environment; leave out --port, --seed, --hint, --mode and --idle")
        _serve_python(transport, configuration=configuration)
        return
    specs = _specs(targets)
    if configuration:
        _print_configuration(specs, targets, seed, mode, hint=hint)
        return
    _check(specs, transport, port, idle, hint=hint, mode=mode)
    request = EpisodeRequest(environment=specs[0].id, seed=seed, mode=Mode(mode.value), hint=hint)
    try:
        if transport is Transport.STDIO:
            asyncio.run(_over_stdio(specs[0], request))
        else:
            asyncio.run(_over_http(specs, request, HttpSettings(port=port or 0, idle_seconds=idle or _IDLE)))
    except RequestError as error:
        raise UsageError(f"no episode can be made: {error}") from error
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UsageError(f"port {port} cannot be listened on ({error.strerror}); give another --port") from error


def _serve_python(transport: Transport, *, configuration: bool) -> None:
    import asyncio

    from spade_agents.errors import UsageError
    from spade_tools import serve_python

    if transport is Transport.HTTP:
        raise UsageError("run_python is served over stdio only; leave out --transport")
    if configuration:
        _tell_snippets(_PYTHON, [_PYTHON])
        return
    asyncio.run(serve_python())


def _print_configuration(
    specs: list[EnvironmentSpec], targets: list[str], seed: int | None, mode: ServeMode, *, hint: bool
) -> None:
    from spade_agents.cli.sources import specs_at
    from spade_agents.errors import UsageError

    _check(specs, Transport.STDIO, None, None, hint=hint, mode=mode)
    if seed is not None and abs(seed) >= 2**63:
        raise UsageError(f"--seed is {seed}; wanted a whole number of at most 63 bits")
    path = specs_at(targets[0])[0].path
    # A client starts the server in a folder of its own; an environment of a pool is named by its folder.
    place = None if path is None else path.parent if path.name == "environment.py" else path
    arguments = [targets[0] if place is None else str(place.resolve())]
    arguments += [] if seed is None else ["--seed", str(seed)]
    arguments += [] if mode is ServeMode.AGENT else ["--mode", mode.value]
    _tell_snippets(specs[0].name, [*arguments, *(["--hint"] if hint else [])])


def _tell_snippets(name: str, arguments: list[str]) -> None:
    """Snippets that name this very program, whatever the client's PATH is."""
    import shutil
    import sys
    from pathlib import Path

    from spade_agents.cli.output import tell
    from spade_agents.cli.snippets import client_snippets, snippets_page

    beside = Path(sys.executable).with_name("spade")
    command = str(beside) if beside.exists() else shutil.which("spade") or "spade"
    tell(snippets_page(client_snippets(name, ["serve", *arguments], command=command)))


def _specs(targets: list[str]) -> list[EnvironmentSpec]:
    """What the targets name, each environment once."""
    from spade_agents.cli.sources import specs_at
    from spade_environments.registry import catalogue

    named = [
        spec
        for target in targets
        for spec in (catalogue() if target == "catalogue" else [found.spec for found in specs_at(target)])
    ]
    return list({spec.id: spec for spec in named}.values())


def _check(
    specs: list[EnvironmentSpec],
    transport: Transport,
    port: int | None,
    idle: float | None,
    *,
    hint: bool,
    mode: ServeMode,
) -> None:
    from spade_agents.errors import UsageError

    if hint and mode is ServeMode.AGENT:
        raise UsageError("--hint goes with --mode play only: an agent never sees the hint")
    if hint and specs[0].hint is None:
        raise UsageError(f"{specs[0].name} has no hint; leave out --hint")
    if transport is Transport.HTTP:
        return
    for option, value in (("--port", port), ("--idle", idle)):
        if value is not None:
            raise UsageError(f"{option} goes with --transport http only")
    if len(specs) > 1:
        raise UsageError(f"over stdio one server is one environment, found {len(specs)}; name one, or --transport http")


async def _over_stdio(spec: EnvironmentSpec, request: EpisodeRequest) -> None:
    from spade_environments.sandbox import open_sandbox
    from spade_tools import open_episode, serve_stdio

    async with open_sandbox() as sandbox:
        await serve_stdio(await open_episode(sandbox, spec, request))


def _given_token(text: str) -> str | None:
    from spade_agents.errors import UsageError

    if text and not (text == text.strip() and text.isascii() and text.isprintable()):
        raise UsageError(
            "SPADE_TOKEN begins or ends with a space, or holds what no header carries; wanted printable ASCII, such as "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))' gives"
        )
    return text or None


async def _over_http(specs: list[EnvironmentSpec], request: EpisodeRequest, settings: HttpSettings) -> None:
    import os

    from spade_agents.cli.output import tell
    from spade_environments.sandbox import open_sandbox
    from spade_tools import serve_http, stop_signal

    given = _given_token(os.environ.get("SPADE_TOKEN", ""))
    async with (
        open_sandbox() as sandbox,
        stop_signal() as stopped,
        serve_http(specs, sandbox, settings=settings, token=given) as server,
    ):
        created = await server.create(request)
        tell(created.url)
        shown = "" if given else f", with the header  Authorization: Bearer {server.token}"
        names = f"{specs[0].name} is ready" + (f", {len(specs)} can be asked for" if len(specs) > 1 else "")
        tell(f"{names}; more episodes: POST {server.url}/episodes{shown}", err=True)
        await stopped.wait()
