"""Turns a second of the episode loop with a scripted policy, sandbox on, at 1, 64 and 400 plays.

Every play goes to the end of its turns in a catalogue environment, in a process of its own, by valid calls and replies
that never finish it. Opening processes is timed apart, because a play has many turns and one opening. `loop` is the
same in memory, without a sandbox: what the loop itself costs. Run `python benchmarks/rollout.py [--quick]`.

With `--vllm PYTHON`, the interpreter that has vLLM, it measures something else: see `rollout_vllm.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from dataclasses import dataclass

from spade_agents.messages import Conversation
from spade_agents.policy import Sampling, ScriptedPolicy
from spade_agents.rollout import play
from spade_agents.trajectory import Trajectory
from spade_environments import Env, EnvironmentSpec, Observation, Reply, StepResult, ToolCall, ToolSpec
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox

ENVIRONMENT = "ticket_desk"
CALL = '<tool_call>\n{"name": "tickets_of", "arguments": {"customer": "nobody"}}\n</tool_call>'
WANTED = 2000


class Memory:
    """An environment that costs nothing: its turns are the loop's alone."""

    tools = (ToolSpec(name="tickets_of", description="Look.", parameters={"type": "object", "properties": {}}),)
    max_turns = 20

    async def reset(self, seed: int) -> Observation:
        return Observation(role="user", text="go")

    async def step(self, action: ToolCall | Reply) -> StepResult:
        return StepResult(
            observation=Observation(role="tool", text="none"), reward=0.0, terminated=False, truncated=False
        )

    async def aclose(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Turns, seconds of the plays on the wall and of this process's CPU, and of opening their environments before."""

    turns: int
    seconds: float
    cpu: float
    opening: float = 0.0

    @property
    def rate(self) -> float:
        return self.turns / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Turns of a CPU second of this process: load beside it, and its children, do not count."""
        return self.turns / self.cpu


def policy() -> ScriptedPolicy:
    def respond(_conversation: Conversation, _source: object) -> str:
        return CALL

    return ScriptedPolicy(respond)


async def played(envs: list[Env], opening: float) -> Measured:
    started, worked = time.perf_counter(), time.process_time()
    chosen = policy()
    tasks = [play(env, chosen, sampling=Sampling(), seed=number, environment_id="b") for number, env in enumerate(envs)]
    trajectories: list[Trajectory] = await asyncio.gather(*tasks)
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    faults = [trajectory.fault for trajectory in trajectories if not trajectory.outcome.is_valid]
    if faults:
        raise SystemExit(f"{len(faults)} plays ended in a fault: {faults[0]}")
    turns = sum(len(trajectory.turns) for trajectory in trajectories)
    return Measured(turns=turns, seconds=seconds, cpu=cpu, opening=opening)


async def in_sandbox(spec: EnvironmentSpec, plays: int) -> Measured:
    async with open_sandbox() as sandbox:
        await (await sandbox.open(spec)).aclose()
        started = time.perf_counter()
        envs = [await sandbox.open(spec) for _ in range(plays)]
        return await played(list(envs), time.perf_counter() - started)


async def in_memory(plays: int) -> Measured:
    return await played([Memory() for _ in range(plays)], 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1 and 64 plays only, one repetition")
    parser.add_argument("--vllm", metavar="PYTHON", help="measure beside vLLM instead, by the interpreter that has it")
    asked = parser.parse_args()
    quick = asked.quick
    if asked.vllm:
        # Lies beside this file; it loads torch, which the other measurement does without.
        from rollout_vllm import beside_vllm

        print(f"load {os.getloadavg()[0]:.1f}")
        print(json.dumps(asyncio.run(beside_vllm(asked.vllm, quick=quick))))
        return
    sizes, repetitions = ((1, 64), 1) if quick else ((1, 64, 400), 3)
    spec = find(ENVIRONMENT)
    print(f"load {os.getloadavg()[0]:.1f}; a CPU second is one of this process, which other load does not stretch")
    print(f"{'plays':>5} {'turns/s':>9} {'/CPU s':>9} {'opening s':>9} {'loop turns/s':>12} {'/CPU s':>9}")
    figures: dict[str, float] = {}
    for plays in sizes:
        best = max((asyncio.run(in_sandbox(spec, plays)) for _ in range(repetitions)), key=lambda found: found.rate)
        alone = max((asyncio.run(in_memory(plays)) for _ in range(repetitions)), key=lambda found: found.rate)
        print(
            f"{plays:>5} {best.rate:>9.0f} {best.cpu_rate:>9.0f} {best.opening:>9.2f} {alone.rate:>12.0f} "
            f"{alone.cpu_rate:>9.0f}"
        )
        figures |= {
            f"turns_per_second_{plays}": round(best.rate, 1),
            f"turns_per_cpu_second_{plays}": round(best.cpu_rate, 1),
            f"loop_turns_per_second_{plays}": round(alone.rate, 1),
            f"loop_turns_per_cpu_second_{plays}": round(alone.cpu_rate, 1),
        }
    largest = sizes[-1]
    figures["of_wanted"] = round(figures[f"turns_per_second_{largest}"] / WANTED, 3)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
