"""A small environment with everything a server has to carry, and the ways to serve it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from mcp import Client

from spade_environments import EnvironmentSpec, Skill
from spade_environments.sandbox import InlineSandboxSettings, Limits, LocalSandboxSettings, open_sandbox
from spade_tools import EpisodeRequest, EpisodeServer, HttpSettings, open_episode, serve_http

SOURCE = '''
from spade_environments import Call, Goal, ToolEnv, ToolError, tool


class Vault(ToolEnv):
    """SOURCE-MARK: a lever, a door that is locked at first, and a user with three wishes."""

    max_turns = 8
    hidden = ("code",)

    def setup(self):
        self.code = "CODE-MARK" + str(self.rng.randrange(10**6))
        self.pulls = self.rng.randrange(2, 9)
        self.state = {"lever": 0, "open": False}

    @tool
    def pull(self, times: int) -> str:
        """Pull the lever."""
        if times < 1:
            raise ToolError("pull at least once")
        self.state["lever"] += times
        return f"the lever was pulled {times} times"

    @tool
    def echo(self, text: str, parts: list[str] | None = None, weight: float = 1.0) -> str:
        """Say something back."""
        return f"{text} {parts}"

    @tool
    def work(self, rounds: int) -> str:
        """Work for a while."""
        return str(sum(number * number for number in range(rounds)))

    @tool
    def explode(self) -> str:
        """Do what must not be done."""
        raise RuntimeError("SOURCE-MARK " + self.code)

    @tool
    def open_door(self) -> str:
        """Open the door."""
        self.state["open"] = True
        return "the door is open"

    def goals(self):
        return [
            Goal("state", f"Pull the lever {self.pulls} times.", lambda s, c, r: s["lever"] == self.pulls,
                 unlocks=("open_door",)),
            Goal("state", "Open the door.", lambda s, c, r: s["open"]),
            Goal("replied", "How often was the lever pulled?", value=self.pulls),
        ]

    def solution(self):
        return [[Call("pull", times=self.pulls)], [Call("open_door")], [f"It was pulled {self.pulls} times."]]
'''
VAULT = EnvironmentSpec(
    name="vault", source=SOURCE, skill=Skill.STATE_MODIFICATION, domain="doors", hint="HINT-MARK: count the pulls",
    provenance={"kind": "file", "document": "PROVENANCE-MARK"},
)  # fmt: skip
PULLS = 6
FIRST = f"Pull the lever {PULLS} times."
"""What the instance of seed 3 asks for."""

PATIENT = LocalSandboxSettings(limits=Limits(wall_floor=120.0, episode_wall=600.0))
ERAS = ("auto", "legacy")
"""The SDK's client in the newer protocol and in the older one."""


def inline(*specs):
    """A sandbox without isolation, for tests that are not about processes."""
    return open_sandbox(InlineSandboxSettings(), trusted=frozenset({VAULT.id, *(spec.id for spec in specs)}))


@asynccontextmanager
async def in_memory(spec=VAULT, era="auto", **request):
    """The served episode, and the SDK's client of it, in this process."""
    async with inline(spec) as sandbox:
        episode = await open_episode(sandbox, spec, EpisodeRequest(environment=spec.name, **{"seed": 3, **request}))
        served = EpisodeServer(episode)
        async with Client(served.server, mode=era) as client:
            yield episode, client
        await served.aclose()


@asynccontextmanager
async def over_http(*specs, sandbox=None, token="the token", **settings):
    """A server of `specs` on a free port."""
    async with (
        sandbox or inline(*specs) as opened,
        serve_http(specs or [VAULT], opened, settings=HttpSettings(**settings), token=token) as server,
    ):
        yield server


def said(result):
    """Observation, whether the episode is over, and whether it is an error."""
    found = result.structured_content
    return found["observation"], found["over"], result.is_error


async def acting(episode):
    """Return once an action is under way."""
    while not episode.is_acting:  # noqa: ASYNC110 (the episode has no event for it, and no need of one)
        await asyncio.sleep(0)
