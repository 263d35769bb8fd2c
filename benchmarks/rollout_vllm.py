"""Tokens a second of plays with SmolLM2 on a vLLM server, beside those of a client that only sends the same requests.

The client sends what the plays sent, seeds included, the turns of a play one after another, all plays at once, and
reads no answer before all are there. Both begin with an empty prefix cache, and take turns: loop, alone, alone, loop.
Run `python benchmarks/rollout.py --vllm PYTHON`.
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import httpx2

from spade_agents.policy import Sampling, model_folder
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.policy.vllm.wire import GENERATE, generate_body, read_sampled
from spade_agents.rollout import PlaySettings
from spade_agents.rollout.groups import GroupRequest, play_groups
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Trajectory
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox

SERVED = ("bell_towers", "die_walk")


class Measured(NamedTuple):
    """Tokens of each completion, play by play, and the seconds that all took."""

    tokens: list[list[tuple[int, ...]]]
    seconds: float

    @property
    def count(self) -> int:
        return sum(len(tokens) for play in self.tokens for tokens in play)


async def served_plays(policy: VllmPolicy, plays: int, sampling: Sampling) -> tuple[list[Trajectory], Measured]:
    """Plays of one turn and of many on a server whose cache is empty."""
    policy.control.reset_prefix_cache()
    requests = [GroupRequest(spec=find(name), seeds=tuple(range(plays // 2))) for name in SERVED]
    settings = PlaySettings(sampling=sampling, seconds=3600, concurrency=plays)
    async with open_sandbox() as sandbox:
        started = time.perf_counter()
        groups = await play_groups(requests, sandbox, policy, settings=settings)
        seconds = time.perf_counter() - started
    played = [play for group in groups for play in group.trajectories]
    faults = [play.fault for play in played if not play.outcome.is_valid]
    if faults:
        raise SystemExit(f"{len(faults)} plays ended in a fault: {faults[0]}")
    return played, Measured([[turn.completion.token_ids or () for turn in play.turns] for play in played], seconds)


def bodies_of(policy: VllmPolicy, play: Trajectory, sampling: Sampling) -> list[dict[str, object]]:
    """What a play sent."""
    seeds = (play.environment_id, play.seed, 0, play.hinted)
    return [
        generate_body(
            turn.completion.prompt_ids or (),
            sampling,
            model=policy.engine.client.model,
            stop=[policy.renderer.end_id],
            seed=derive_seed(*seeds, number),
        )
        for number, turn in enumerate(play.turns)
    ]


async def sent_alone(policy: VllmPolicy, plays: list[Trajectory], sampling: Sampling) -> Measured:
    """A client that sends the same."""
    policy.control.reset_prefix_cache()
    client = policy.engine.client
    transport = httpx2.AsyncHTTPTransport(uds=client.socket, limits=httpx2.Limits(max_connections=None))

    async with httpx2.AsyncClient(transport=transport, timeout=3600) as bare:

        async def send(bodies: list[dict[str, object]]) -> list[bytes]:
            found = []
            for body in bodies:
                answer = await bare.post(f"{client.url}{GENERATE}", json=body)
                answer.raise_for_status()
                found.append(answer.content)
            return found

        sent = [bodies_of(policy, play, sampling) for play in plays]
        started = time.perf_counter()
        answers = await asyncio.gather(*map(send, sent))
        seconds = time.perf_counter() - started
    return Measured([[read_sampled(data).generated.token_ids for data in play] for play in answers], seconds)


def alike(first: Measured, second: Measured) -> float:
    """Share of completions with the same tokens: rounding differs with what else is in a batch."""
    pairs = [pair for plays in zip(first.tokens, second.tokens, strict=True) for pair in zip(*plays, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)


async def beside_vllm(python: str, *, quick: bool) -> dict[str, float]:
    """Tokens a second of both, by number of plays, and the share that the loop costs."""
    served = VllmSettings(python=python, eager=True, threads=1, context_length=4096, concurrency=64, start_seconds=900)
    figures: dict[str, float] = {}
    sampling = Sampling(max_tokens=16 if quick else 64)
    async with VllmPolicy.open(model_folder("smollm2"), served) as policy:
        await served_plays(policy, 2, sampling)
        for plays in (4,) if quick else (8, 64):
            trajectories, first = await served_plays(policy, plays, sampling)
            alone = [await sent_alone(policy, trajectories, sampling) for _ in range(2)]
            loop = [first, (await served_plays(policy, plays, sampling))[1]]
            rates = [sum(one.count for one in both) / sum(one.seconds for one in both) for both in (loop, alone)]
            overhead = 1.0 - rates[0] / rates[1]
            print(
                f"{plays:>5} plays, {first.count} tokens: {rates[0]:.1f} tokens/s, alone {rates[1]:.1f}: overhead "
                f"{overhead:.1%}; seconds {', '.join(f'{one.seconds:.1f}' for one in (*loop, *alone))}; the same "
                f"tokens in {alike(first, alone[0]):.0%}",
                flush=True,
            )
            figures |= {
                f"tokens_per_second_{plays}": round(rates[0], 1),
                f"alone_{plays}": round(rates[1], 1),
                f"overhead_{plays}": round(overhead, 4),
            }
    return figures
