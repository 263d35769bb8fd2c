"""Plays as a person reads them: which ones a report shows, and their messages as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from spade_agents.report import EnvironmentEntry, Featured, GateLine, Line, Play
from spade_agents.selfplay.pool import Pool
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.trajectory import Trajectory, Turn
from spade_environments import EnvironmentSpec, ToolCall

__all__ = ["chosen_pair", "featured", "play_lines"]


def featured(directory: RunDirectory, pool: Pool, spec: EnvironmentSpec, entry: EnvironmentEntry) -> Featured:
    """An environment in full, with a play of each arm on the same seed, one where the arms differ if there is one."""
    certificate = pool.certificate(spec.id)
    gates = certificate.gates if certificate else ()
    plays = [play for play in directory.read_trajectories(entry.rollout) if play.environment_id == spec.id]
    return Featured(
        entry=entry,
        source=spec.source,
        hint=spec.hint,
        gates=tuple(GateLine(name=gate.gate.value, status=gate.status.value, evidence=gate.evidence) for gate in gates),
        plays=tuple(_play(play, spec.hint) for play in chosen_pair(plays)),
    )


def play_lines(play: Trajectory, hint: str | None = None) -> tuple[Line, ...]:
    """The messages of a play, the system prompt left out and the hint set apart from the first observation."""
    opening = [message.content for message in play.opening if message.role == "user"]
    lines = [line for text in opening for line in _opening_lines(text, hint if play.hinted else None)]
    return (*lines, *(line for turn in play.turns for line in _turn_lines(turn)))


def chosen_pair(plays: list[Trajectory]) -> list[Trajectory]:
    """One play of each arm on one seed; of an environment without hinted plays the first play."""
    hinted = {play.seed: play for play in plays if play.hinted}
    unhinted = [play for play in plays if not play.hinted]
    pairs = [(play, hinted[play.seed]) for play in unhinted if play.seed in hinted]
    if not pairs:
        return unhinted[:1]
    widest = max(pairs, key=_difference)
    return list(widest)


def _difference(pair: tuple[Trajectory, Trajectory]) -> float:
    unhinted, hinted = pair
    return abs((hinted.reward or 0.0) - (unhinted.reward or 0.0))


def _play(play: Trajectory, hint: str | None) -> Play:
    outcome = play.outcome.value.replace("_", " ") + (f": {play.fault}" if play.fault else "")
    return Play(hinted=play.hinted, seed=play.seed, outcome=outcome, reward=play.reward, lines=play_lines(play, hint))


def _opening_lines(text: str, hint: str | None) -> Iterator[Line]:
    if hint is None or not text.endswith(hint):
        yield Line(speaker="user", text=text)
        return
    yield Line(speaker="user", text=text.removesuffix(hint).removesuffix("hint: ").rstrip())
    yield Line(speaker="hint", text=hint)


def _turn_lines(turn: Turn) -> Iterator[Line]:
    completion = turn.completion
    if completion.text.strip():
        yield Line(speaker="agent", text=completion.text)
    for call in completion.calls:
        yield Line(speaker="call", text=_call(call))
    for broken in completion.broken:
        yield Line(speaker="error", text=f"broken call ({broken.kind}): {broken.message}")
    if not completion.text.strip() and not completion.calls and not completion.broken:
        yield Line(speaker="agent", text="(says nothing)")
    for observation in turn.observations:
        failed = observation.role == "tool" and observation.text.startswith("Error:")
        yield Line(speaker="error" if failed else observation.role, text=observation.text)


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"
