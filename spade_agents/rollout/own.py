"""Environments that no source file holds, such as a user's MCP servers, among those that a sandbox opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spade_agents.rollout.groups import PrivilegedEnv, Sandbox
from spade_environments import EnvironmentSpec, Skill

__all__ = ["OwnEnvironment", "WithOwn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEnvironment:
    """An environment that its owner opens: no certificate speaks for it, its checker does.

    Attributes:
        name: in records and reports; no two of a run have the same one.
        open: gives a live episode, not reset yet, such as `lambda: McpEnv(...)`.
        skill: what it trains.
        domain: everyday domain or topic.
        hint: for the hinted arm, or `None`.
        generator: `library/task` of the public generator that its instances come from, such as
            `reasoning_gym/countdown`: an evaluation of that task is then not held out. Empty for none.
    """

    name: str
    open: Callable[[], PrivilegedEnv]
    skill: Skill = Skill.API_ORCHESTRATION
    domain: str = "general"
    hint: str | None = None
    generator: str = ""

    @property
    def spec(self) -> EnvironmentSpec:
        """What stands for it where environments are data."""
        return EnvironmentSpec(
            name=self.name,
            source=f"# {self.name}: opened by its owner\n",
            skill=self.skill,
            domain=self.domain,
            hint=self.hint,
            provenance={"kind": "own", **({"generator": self.generator} if self.generator else {})},
        )


class WithOwn:
    """What plays need of a sandbox: own environments are opened by their owners, all others by `sandbox`."""

    def __init__(self, own: Iterable[OwnEnvironment], sandbox: Sandbox) -> None:
        self._own = {environment.spec.id: environment for environment in own}
        self._sandbox = sandbox

    async def open(self, spec: EnvironmentSpec) -> PrivilegedEnv:
        """A live episode of `spec`."""
        own = self._own.get(spec.id)
        return await self._sandbox.open(spec) if own is None else own.open()
