"""Tokens a second of plays with SmolLM2 on a vLLM server, beside those of a client that only sends the same requests.

The client asks for as many tokens after the same prompts, the turns of a play one after another, all plays at once, and
does nothing with the answers. Both begin with an empty prefix cache. Run `python benchmarks/rollout.py --vllm PYTHON`.
"""

from __future__ import annotations

import asyncio
import time

import httpx2

from spade_agents.policy import Sampling, model_folder
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.policy.vllm.wire import GENERATE, generate_body
from spade_agents.rollout import PlaySettings
from spade_agents.rollout.groups import GroupRequest, play_groups
from spade_agents.trajectory import Trajectory
from spade_environments.registry import find
from spade_environments.sandbox import open_sandbox

SERVED = ("bell_towers", "die_walk")


async def served_plays(policy: VllmPolicy, plays: int) -> tuple[list[Trajectory], float]:
    """Plays of one turn and of many on a server whose cache is empty, and the seconds that they took."""
    policy.control.reset_prefix_cache()
    requests = [GroupRequest(spec=find(name), seeds=tuple(range(plays // 2))) for name in SERVED]
    settings = PlaySettings(sampling=Sampling(max_tokens=64), seconds=3600, concurrency=plays)
    async with open_sandbox() as sandbox:
        started = time.perf_counter()
        groups = await play_groups(requests, sandbox, policy, settings=settings)
        return [play for group in groups for play in group.trajectories], time.perf_counter() - started


async def sent_alone(policy: VllmPolicy, plays: list[Trajectory]) -> float:
    """Seconds of a client that asks for as many tokens after the same prompts."""
    policy.control.reset_prefix_cache()
    client = policy.engine.client
    transport = httpx2.AsyncHTTPTransport(uds=client.socket, limits=httpx2.Limits(max_connections=None))

    async with httpx2.AsyncClient(transport=transport, timeout=3600) as bare:

        async def send(play: Trajectory) -> None:
            for number, turn in enumerate(play.turns):
                prompt, length = turn.completion.prompt_ids or (), len(turn.completion.token_ids or ())
                how = Sampling(max_tokens=length)
                body = generate_body(prompt, how, model=client.model, stop=(), seed=number)
                answer = await bare.post(f"{client.url}{GENERATE}", json=body)
                answer.raise_for_status()

        started = time.perf_counter()
        await asyncio.gather(*map(send, plays))
        return time.perf_counter() - started


async def beside_vllm(python: str, *, quick: bool) -> dict[str, float]:
    """Tokens a second of both, by turns, and the share that the loop costs."""
    served = VllmSettings(python=python, eager=True, threads=1, context_length=4096, concurrency=64, start_seconds=900)
    figures: dict[str, float] = {}
    async with VllmPolicy.open(model_folder("smollm2"), served) as policy:
        await served_plays(policy, 2)
        for plays in (8,) if quick else (8, 64):
            loop = alone = 0.0
            tokens = 0
            for _ in range(1 if quick else 2):
                trajectories, seconds = await served_plays(policy, plays)
                tokens += sum(len(t.completion.token_ids or ()) for play in trajectories for t in play.turns)
                loop += seconds
                alone += await sent_alone(policy, trajectories)
            overhead = 1.0 - alone / loop
            print(
                f"{plays:>5} plays: {tokens / loop:.1f} tokens/s, alone {tokens / alone:.1f}: overhead {overhead:.1%}"
            )
            figures |= {
                f"tokens_per_second_{plays}": round(tokens / loop, 1),
                f"alone_{plays}": round(tokens / alone, 1),
                f"overhead_{plays}": round(overhead, 4),
            }
    return figures
