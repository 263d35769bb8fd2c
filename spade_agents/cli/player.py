"""Player: what a person reads and types in an episode, and what becomes of it."""

from __future__ import annotations

import json
from typing import Any, Protocol

from spade_agents.cli.asking import ask, ask_arguments, signature
from spade_agents.cli.output import tell
from spade_agents.terminal import visible_line
from spade_environments import Action, EnvironmentSpec, Observation, Reply, StepResult, ToolCall, ToolSpec
from spade_environments.sandbox import EnvironmentDescription
from spade_environments.wording import counted

__all__ = ["PlayedEpisode", "Player"]

_HELP = "Type a tool's name or number, or /say TEXT, /hint, /tools, /task, /quit."
_TEXT_HELP = "Type what to do, or /hint, /task, /quit."


class PlayedEpisode(Protocol):
    """A blocking episode."""

    @property
    def description(self) -> EnvironmentDescription: ...

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    @property
    def max_turns(self) -> int: ...

    def reset(self, seed: int) -> Observation: ...

    def step(self, action: Action) -> StepResult: ...


class Player:
    """One episode played by a person.

    Args:
        env: not reset yet.
        spec: what it is an episode of.
        seed: of the instance.
    """

    def __init__(self, env: PlayedEpisode, spec: EnvironmentSpec, seed: int) -> None:
        self._env, self._spec, self._seed = env, spec, seed
        self._tools: list[ToolSpec] = []
        self._task = ""
        self._turns = 0

    @property
    def _is_text(self) -> bool:
        return self._env.description.base == "text"

    def run(self) -> float | None:
        """Play to the end; the score, or `None` where the person left.

        Raises:
            EOFError: standard input has ended.
        """
        self._task = self._env.reset(self._seed).text
        self._tools = list(self._env.tools)
        tell(f"{visible_line(self._spec.name)}, seed {self._seed}, at most {counted(self._env.max_turns, 'turn')}")
        tell(f"\n{self._task}\n")
        if not self._is_text:
            self._show_tools()
        tell(_TEXT_HELP if self._is_text else _HELP)
        while True:
            action = self._choose()
            if action is None:
                tell("You left: no score.")
                return None
            score = self._carry_out(action)
            if score is not None:
                tell(f"The episode is over. Score: {score:g}")
                return score

    def _choose(self) -> Action | None:
        """The next action; `None` to leave."""
        while True:
            typed = ask("> ")
            command, _, rest = typed.strip().partition(" ")
            if command == "/quit":
                return None
            if command == "/say":
                return Reply(text=rest)
            action = None if command.startswith("/") else self._action(typed)
            if action is not None:
                return action
            self._show(command)

    def _show(self, command: str) -> None:
        if command == "/hint":
            tell(self._spec.hint or "This environment has no hint.")
        elif command == "/task":
            tell(self._task)
        elif command == "/tools":
            self._show_tools()
        else:
            tell(_TEXT_HELP if self._is_text else _HELP)

    def _action(self, typed: str) -> Action | None:
        """What a line without a slash means; `None` where it means nothing."""
        if self._is_text:
            tool = self._tools[0]
            return ToolCall(name=tool.name, arguments={next(iter(tool.parameters["properties"])): typed})
        name, _, rest = typed.strip().partition(" ")
        tool_named = self._tool(name)
        if tool_named is None:
            return None
        arguments = _whole(rest) if rest.strip() else ask_arguments(tool_named)
        return None if arguments is None else ToolCall(name=tool_named.name, arguments=arguments)

    def _tool(self, name: str) -> ToolSpec | None:
        if name.isascii() and name.isdigit() and 0 < int(name[:6]) <= len(self._tools):
            return self._tools[int(name) - 1]
        return next((tool for tool in self._tools if tool.name == name), None)

    def _carry_out(self, action: Action) -> float | None:
        """Take the action and show what came of it; the score, once there is one."""
        result = self._env.step(action)
        self._turns += 1
        observation = result.observation
        tell(observation.text)
        if isinstance(action, Reply) and not self._is_text:
            self._task = observation.text
        for tool in observation.tools:
            self._tools.append(tool)
            tell(f"new tool {len(self._tools)}: {signature(tool)}  {tool.description}")
        if result.terminated:
            return result.reward
        if result.truncated or self._turns >= self._env.max_turns:
            tell("That was the last turn.")
            return 0.0
        return None

    def _show_tools(self) -> None:
        tell("tools:")
        for number, tool in enumerate(self._tools, start=1):
            tell(f"  {number} {signature(tool)}  {visible_line(tool.description)}")


def _whole(text: str) -> Any:
    """Arguments given whole, as a JSON object behind the tool's name."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        tell('Behind a name stands nothing, or all arguments as JSON, such as {"ticket": "K12"}.')
        return None
    return value
