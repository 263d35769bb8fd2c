"""GRPO on SmolLM2 with vLLM rollouts, on a single-turn catalogue family, after a short warm-up on gold transcripts.

The family is the catalogue's `word_machine` with one operation on words of one letter, which 135 million parameters can
learn. Every sync of weights is proven: each tensor's checksum, and log-probabilities of a canary. The same held-out
instances are played before and after; none of their prompts is among those of the warm-up or of GRPO. Run
`python benchmarks/vllm_grpo.py --python .cache/vllm/bin/python [--quick]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import Self

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
from spade_agents.statistics import paired_difference, wilson
from spade_agents.training import OptimizerConfig, TorchEngineConfig, TrainingEngine, open_engine
from spade_agents.training.advantages import agent_samples
from spade_agents.training.config import Precision
from spade_agents.training.samples import SupervisedSample
from spade_agents.trajectory import TrainingSample, TrajectoryGroup
from spade_environments import Env, EnvironmentSpec
from spade_environments.certificate import certify
from spade_environments.registry import find
from spade_environments.sandbox import Sandbox, open_sandbox

CHANGES = {"DEPTH = 2": "DEPTH = 1", "LENGTH = 6": "LENGTH = 1"}
SAMPLING = Sampling(max_tokens=48)
WARM_SEEDS, HELD_OUT = 1_000_000, 2_000_000
CANARY_TOLERANCE = 0.12
CONCURRENCY = 128
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
    spec = find("word_machine")
    source = spec.source
    for old, new in CHANGES.items():
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return replace(spec.with_source(source), name="one_letter")


def held_out(plan: Plan) -> range:
    return range(HELD_OUT, HELD_OUT + plan.held_out)


class Instances:
    """Seeds whose instances are not held out: several seeds can have the same instance."""

    def __init__(self, env: Env, held_out: frozenset[str]) -> None:
        self._env, self._held_out = env, held_out

    @classmethod
    async def beside(cls, env: Env, held_out: Sequence[int]) -> Self:
        return cls(env, frozenset([(await env.reset(seed)).text for seed in held_out]))

    async def take(self, seeds: Iterator[int], wanted: int) -> list[int]:
        """The next `wanted` seeds of other instances."""
        taken: list[int] = []
        while len(taken) < wanted:
            seed = next(seeds)
            if (await self._env.reset(seed)).text not in self._held_out:
                taken.append(seed)
        return taken


async def gold_samples(
    spec: EnvironmentSpec, sandbox: Sandbox, renderer: Renderer, seeds: Sequence[int]
) -> list[SupervisedSample]:
    """Transcripts of solutions, on seeds that nothing else uses."""
    samples = []
    async with await sandbox.open(spec) as env:
        for seed in seeds:
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
    """Imitate gold transcripts, each once, and write the model that GRPO starts from."""
    engine = engine_of(folder, plan.warm_rate, threads)
    source, size = random.Random(0), max(1, len(samples) // plan.warm_steps)
    order = source.sample(samples, len(samples))
    for step in range(plan.warm_steps):
        metrics = engine.update((), replay=order[step * size : (step + 1) * size])
        print(f"warm-up {step + 1:>3}: loss {metrics.replay_loss:.3f} in {metrics.seconds:.1f} s", flush=True)
    export(engine, out)
    engine.close()


def export(engine: TrainingEngine, folder: Path) -> None:
    """A folder that `--model` takes, with the prompts' style that was trained on."""
    engine.export(folder)
    about = {"name": "one-letter", "template_family": "chatml", "style": STYLE}
    (folder / "spade.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


async def groups_of(
    spec: EnvironmentSpec, sandbox: Sandbox, policy: VllmPolicy, seeds: Sequence[int], plays: int, sampling: Sampling
) -> list[TrajectoryGroup]:
    """For each instance a group of its plays."""
    requests = [GroupRequest(spec=spec, seeds=tuple(seeds), draw=draw) for draw in range(plays)]
    settings = PlaySettings(sampling=sampling, seconds=600, concurrency=CONCURRENCY)
    draws = await play_groups(requests, sandbox, policy, settings=settings)
    faults = [play.fault for draw in draws for play in draw.trajectories if not play.outcome.is_valid]
    if faults:
        raise SystemExit(f"{len(faults)} plays ended in a fault: {faults[0]}")
    return [
        replace(draws[0], trajectories=tuple(draw.trajectories[place] for draw in draws)) for place in range(len(seeds))
    ]


async def win_rates(
    spec: EnvironmentSpec, sandbox: Sandbox, policy: VllmPolicy, plan: Plan, heats: Sequence[float]
) -> dict[float, list[float]]:
    """Returns of one play of each held-out instance, at each temperature."""
    found = {}
    for heat in heats:
        groups = await groups_of(spec, sandbox, policy, held_out(plan), 1, replace(SAMPLING, temperature=heat))
        found[heat] = [value for group in groups for value in group.returns if value is not None]
    return found


def send(engine: TrainingEngine, policy: VllmPolicy, canary: TrainingSample) -> float:
    """New weights to the server, with proof; the canary's mean difference."""
    state = engine.state_dict()
    policy.load_weights(state, engine.step)
    check_arrival(state, engine.step, policy.arrival())
    tokens = canary.token_ids
    wanted = engine.logprobs([TrainingSample.canary(tokens)])[0][1:]
    return check_canary(wanted, policy.score(tokens), tolerance=CANARY_TOLERANCE)


async def train(
    spec: EnvironmentSpec, sandbox: Sandbox, others: Instances, warm: Path, plan: Plan, asked: argparse.Namespace
) -> dict[str, object]:
    """GRPO from the warm model; the figures of it."""
    served = VllmSettings(
        python=asked.python,
        eager=True,
        threads=asked.threads,
        context_length=1024,
        cache_gib=1.0,
        concurrency=CONCURRENCY,
        start_seconds=900,
    )
    engine = engine_of(warm, plan.rate, asked.threads)
    source = random.Random(asked.seed)
    drawn = (source.randrange(WARM_SEEDS) for _ in count())
    async with VllmPolicy.open(warm, served) as policy:
        before = await win_rates(spec, sandbox, policy, plan, asked.heats)
        print("before:", {heat: round(fmean(found), 3) for heat, found in before.items()}, flush=True)
        started, steps = time.monotonic(), 0
        print(
            f"{'step':>4} {'won':>6} {'mixed':>6} {'mismatch':>9} {'ESS':>6} {'canary':>7} {'play s':>7} {'all s':>7}"
        )
        while steps < plan.steps and time.monotonic() < asked.until:
            began = time.monotonic()
            seeds = await others.take(drawn, plan.prompts)
            groups = await groups_of(spec, sandbox, policy, seeds, plan.plays, SAMPLING)
            played = time.monotonic() - began
            samples = [sample for group in groups for sample in agent_samples(group)]
            metrics = engine.update(samples)
            canary = send(engine, policy, samples[0])
            steps += 1
            mixed = sum(len(set(group.returns)) > 1 for group in groups)
            won = fmean(value for group in groups for value in group.returns if value is not None)
            print(
                f"{steps:>4} {won:>6.3f} {mixed:>6} {metrics.mismatch_mean or 0:>9.4f} "
                f"{metrics.effective_sample_size or 0:>6.3f} {canary:>7.4f} {played:>7.1f} "
                f"{time.monotonic() - began:>7.1f}",
                flush=True,
            )
        seconds = time.monotonic() - started
        after = await win_rates(spec, sandbox, policy, plan, asked.heats)
    if asked.out:
        export(engine, asked.out)
    figures: dict[str, object] = {"seed": asked.seed, "steps": steps, "grpo_seconds": round(seconds, 1)}
    return figures | told(before, after)


def told(before: dict[float, list[float]], after: dict[float, list[float]]) -> dict[str, object]:
    """Print both win rates at each temperature, and the difference over the same instances; the same as figures."""
    figures: dict[str, object] = {}
    for heat, first in before.items():
        for name, found in (("before", first), ("after", after[heat])):
            interval = wilson(round(sum(found)), len(found))
            assert interval is not None
            bounds = f"[{interval.low:.3f}, {interval.high:.3f}]"
            print(f"temperature {heat:g} {name}: {interval.estimate:.3f} {bounds} of {len(found)} plays")
            figures[f"{name}_{heat:g}"] = round(interval.estimate, 4)
        rise = paired_difference(first, after[heat], rng=random.Random(0))
        assert rise is not None
        print(f"temperature {heat:g} rise: {rise.estimate:+.3f} [{rise.low:+.3f}, {rise.high:+.3f}]")
        figures[f"rise_{heat:g}"] = [round(number, 4) for number in (rise.estimate, rise.low, rise.high)]
    return figures


async def run(asked: argparse.Namespace, plan: Plan) -> dict[str, object]:
    spec, folder = family(), model_folder("smollm2")
    started = time.monotonic()
    async with open_sandbox() as sandbox, await sandbox.open(spec) as env:
        print(f"{spec.name}: {(await certify(spec, sandbox)).verdict}", flush=True)
        others = await Instances.beside(env, held_out(plan))
        with tempfile.TemporaryDirectory() as room:
            warm = asked.warm or Path(room) / "warm"
            if not (warm / "config.json").is_file():
                seeds = await others.take(count(WARM_SEEDS), plan.warm_samples)
                renderer = renderer_of(folder, style=STYLE).renderer
                samples = await gold_samples(spec, sandbox, renderer, seeds)
                warm_up(folder, warm, samples, plan, asked.threads)
            figures = await train(spec, sandbox, others, warm, plan, asked)
    return figures | {"seconds": round(time.monotonic() - started, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="the interpreter that has vLLM")
    parser.add_argument("--quick", action="store_true", help="one step of everything")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=3e-5, help="learning rate of GRPO")
    parser.add_argument("--warm-samples", type=int, default=480, help="gold transcripts, 8 a step of the warm-up")
    parser.add_argument("--minutes", type=float, default=37.0, help="after which no step begins")
    parser.add_argument("--threads", type=int, default=1, help="of trainer and server, each")
    parser.add_argument("--heats", type=float, nargs="+", default=[1.0, 0.0], help="temperatures of the evaluation")
    parser.add_argument("--held-out", type=int, default=320, help="plays of the evaluation, at each temperature")
    parser.add_argument("--warm", type=Path, help="where the warm model is kept between runs")
    parser.add_argument("--out", type=Path, help="where the trained model is written")
    asked = parser.parse_args()
    asked.until = time.monotonic() + 60 * asked.minutes
    plan = Plan(
        warm_samples=asked.warm_samples,
        warm_steps=asked.warm_samples // 8,
        warm_rate=2e-4,
        steps=asked.steps,
        prompts=16,
        plays=8,
        rate=asked.rate,
        held_out=asked.held_out,
    )
    if asked.quick:
        plan = replace(plan, warm_samples=8, warm_steps=1, steps=1, prompts=2, plays=2, held_out=4)
    print(json.dumps(asyncio.run(run(asked, plan))))


if __name__ == "__main__":
    main()
