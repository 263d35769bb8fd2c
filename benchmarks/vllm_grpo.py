"""GRPO on SmolLM2 with vLLM rollouts, on a single-turn catalogue family, after a short warm-up on gold transcripts.

The family is the catalogue's `bell_towers` with two bells of short periods, which 135 million parameters can learn.
Every sync of weights is proven: each tensor's checksum, and log-probabilities of a canary. The same held-out instances
are played before and after. Run `python benchmarks/vllm_grpo.py --python .cache/vllm/bin/python [--quick]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from spade_agents.agent.prompts import opening_messages
from spade_agents.messages import Message
from spade_agents.policy import Sampling, model_folder
from spade_agents.policy.arrival import check_arrival, check_canary
from spade_agents.policy.model_files import renderer_of
from spade_agents.policy.vllm import VllmSettings
from spade_agents.policy.vllm.policy import VllmPolicy
from spade_agents.rendering import Renderer
from spade_agents.rollout import PlaySettings
from spade_agents.rollout.groups import GroupRequest, play_groups
from spade_agents.statistics import wilson
from spade_agents.training import OptimizerConfig, TorchEngineConfig, TrainingEngine, open_engine
from spade_agents.training.advantages import agent_samples
from spade_agents.training.config import Precision
from spade_agents.training.samples import SupervisedSample
from spade_agents.trajectory import TrainingSample, TrajectoryGroup
from spade_environments import EnvironmentSpec
from spade_environments.certificate import certify
from spade_environments.registry import find
from spade_environments.sandbox import Sandbox, open_sandbox

CHANGES = {"N_BELLS = 3": "N_BELLS = 2", "MAX_PERIOD = 18": "MAX_PERIOD = 6"}
SAMPLING = Sampling(max_tokens=48)
WARM_SEEDS, HELD_OUT = 1_000_000, 2_000_000
CANARY_TOLERANCE = 0.12
STYLE = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is done of what."""

    warm_samples: int
    warm_steps: int
    warm_rate: float
    steps: int
    prompts: int
    plays: int
    rate: float
    held_out: int


def family() -> EnvironmentSpec:
    spec = find("bell_towers")
    source = spec.source
    for old, new in CHANGES.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return replace(spec.with_source(source), name="two_bells")


async def gold_samples(
    spec: EnvironmentSpec, sandbox: Sandbox, renderer: Renderer, count: int
) -> list[SupervisedSample]:
    """Transcripts of solutions, on seeds that nothing else uses."""
    samples = []
    async with await sandbox.open(spec) as env:
        for seed in range(WARM_SEEDS, WARM_SEEDS + count):
            first = await env.reset(seed)
            (action,) = await env.solution()
            opening = opening_messages(first, style=STYLE, tools=env.tools)
            written = Message(role="assistant", content="", calls=(action,))
            ids, mask = renderer.render_transcript((*opening, written), env.tools)
            samples.append(SupervisedSample(token_ids=tuple(ids), mask=tuple(mask)))
    return samples


def engine_of(folder: Path, rate: float, threads: int) -> TrainingEngine:
    optimizer = OptimizerConfig(learning_rate=rate, weight_decay=0.0)
    return open_engine(TorchEngineConfig(optimizer=optimizer, precision=Precision.BF16, threads=threads), folder)


def warm_up(folder: Path, out: Path, samples: Sequence[SupervisedSample], plan: Plan, threads: int) -> None:
    """Imitate gold transcripts, and write the model that GRPO starts from."""
    engine = engine_of(folder, plan.warm_rate, threads)
    source, size = random.Random(0), max(1, len(samples) // plan.warm_steps)
    order = source.sample(samples, len(samples))
    for step in range(plan.warm_steps):
        metrics = engine.update((), replay=order[step * size : (step + 1) * size])
        print(f"warm-up {step + 1:>3}: loss {metrics.replay_loss:.3f} in {metrics.seconds:.1f} s", flush=True)
    engine.export(out)
    engine.close()


async def groups_of(
    spec: EnvironmentSpec, sandbox: Sandbox, policy: VllmPolicy, seeds: Sequence[int], plays: int, sampling: Sampling
) -> list[TrajectoryGroup]:
    """For each instance a group of its plays."""
    requests = [GroupRequest(spec=spec, seeds=tuple(seeds), draw=draw) for draw in range(plays)]
    settings = PlaySettings(sampling=sampling, seconds=600, concurrency=64)
    draws = await play_groups(requests, sandbox, policy, settings=settings)
    faults = [play.fault for draw in draws for play in draw.trajectories if not play.outcome.is_valid]
    if faults:
        raise SystemExit(f"{len(faults)} plays ended in a fault: {faults[0]}")
    return [
        replace(draws[0], trajectories=tuple(draw.trajectories[place] for draw in draws)) for place in range(len(seeds))
    ]


async def win_rate(spec: EnvironmentSpec, sandbox: Sandbox, policy: VllmPolicy, count: int, heat: float) -> list[float]:
    seeds = range(HELD_OUT, HELD_OUT + count)
    groups = await groups_of(spec, sandbox, policy, seeds, 1, replace(SAMPLING, temperature=heat))
    return [value for group in groups for value in group.returns]


def send(engine: TrainingEngine, policy: VllmPolicy, canary: TrainingSample) -> float:
    """New weights to the server, with proof; the canary's mean difference."""
    state = engine.state_dict()
    policy.load_weights(state, engine.step)
    check_arrival(state, engine.step, policy.arrival())
    tokens = canary.token_ids
    wanted = engine.logprobs([TrainingSample.canary(tokens)])[0][1:]
    return check_canary(wanted, policy.score(tokens), tolerance=CANARY_TOLERANCE)


async def train(spec: EnvironmentSpec, sandbox: Sandbox, warm: Path, plan: Plan, asked: argparse.Namespace) -> dict:
    """GRPO from the warm model; the figures of it."""
    served = VllmSettings(
        python=asked.python, eager=True, threads=asked.threads, context_length=1024, concurrency=64, start_seconds=900
    )
    engine = engine_of(warm, plan.rate, asked.threads)
    source = random.Random(asked.seed)
    async with VllmPolicy.open(warm, served, style=STYLE) as policy:
        heats = asked.heats
        before = {heat: await win_rate(spec, sandbox, policy, plan.held_out, heat) for heat in heats}
        print("before:", {heat: round(fmean(found), 3) for heat, found in before.items()}, flush=True)
        started, rates = time.monotonic(), []
        print(f"{'step':>4} {'won':>6} {'mismatch':>9} {'ESS':>6} {'canary':>7} {'play s':>7} {'all s':>7}")
        for step in range(plan.steps):
            if time.monotonic() - started > 60 * asked.minutes:
                print(f"{asked.minutes} minutes are over after {step} steps")
                break
            began = time.monotonic()
            seeds = [source.randrange(WARM_SEEDS) for _ in range(plan.prompts)]
            groups = await groups_of(spec, sandbox, policy, seeds, plan.plays, SAMPLING)
            played = time.monotonic() - began
            samples = [sample for group in groups for sample in agent_samples(group)]
            metrics = engine.update(samples)
            canary = send(engine, policy, samples[0])
            rates.append(fmean(value for group in groups for value in group.returns))
            print(
                f"{step + 1:>4} {rates[-1]:>6.3f} {metrics.mismatch_mean or 0:>9.4f} "
                f"{metrics.effective_sample_size or 0:>6.3f} {canary:>7.4f} {played:>7.1f} "
                f"{time.monotonic() - began:>7.1f}",
                flush=True,
            )
        seconds = time.monotonic() - started
        after = {heat: await win_rate(spec, sandbox, policy, plan.held_out, heat) for heat in heats}
    if asked.out:
        engine.export(asked.out)
    figures: dict[str, object] = {"seed": asked.seed, "steps": len(rates), "seconds": round(seconds, 1)}
    for heat in heats:
        for name, found in (("before", before[heat]), ("after", after[heat])):
            interval = wilson(round(sum(found)), len(found))
            assert interval is not None
            told = f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}] of {len(found)} plays"
            print(f"temperature {heat:g} {name}: {told}")
            figures[f"{name}_{heat:g}"] = round(interval.estimate, 4)
    return figures


async def run(asked: argparse.Namespace, plan: Plan) -> dict:
    spec, folder = family(), model_folder("smollm2")
    async with open_sandbox() as sandbox:
        verdict = await certify(spec, sandbox)
        print(f"{spec.name}: {verdict.verdict}")
        with tempfile.TemporaryDirectory() as room:
            warm = asked.warm or Path(room) / "warm"
            if not (warm / "config.json").is_file():
                renderer = renderer_of(folder, style=STYLE).renderer
                samples = await gold_samples(spec, sandbox, renderer, plan.warm_samples)
                warm_up(folder, warm, samples, plan, asked.threads)
            return await train(spec, sandbox, warm, plan, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="the interpreter that has vLLM")
    parser.add_argument("--quick", action="store_true", help="one step of everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60.0, help="of GRPO, at most")
    parser.add_argument("--threads", type=int, default=1, help="of trainer and server, each")
    parser.add_argument("--heats", type=float, nargs="+", default=[1.0, 0.0], help="temperatures of the evaluation")
    parser.add_argument("--held-out", type=int, default=96, help="plays of the evaluation, at each temperature")
    parser.add_argument("--warm", type=Path, help="where the warm model is kept between runs")
    parser.add_argument("--out", type=Path, help="where the trained model is written")
    asked = parser.parse_args()
    plan = Plan(
        warm_samples=96,
        warm_steps=8,
        warm_rate=1e-4,
        steps=asked.steps,
        prompts=4,
        plays=16,
        rate=3e-5,
        held_out=asked.held_out,
    )
    if asked.quick:
        plan = replace(plan, warm_samples=8, warm_steps=1, steps=1, prompts=2, plays=2, held_out=4)
    print(json.dumps(asyncio.run(run(asked, plan))))


if __name__ == "__main__":
    main()
