"""Where the time of a self-play cycle goes: sampling, training, and everything else, on nano and on SmolLM2.

    python benchmarks/cycle.py [--quick] [--models nano smollm2] [--rollouts N]

A run is made as `spade train` makes it, without held-out evaluation, and its wall clock is split: `sampling` while the
sampler computes tokens, `training` inside the engine's update, and what is left of each phase: `design` (prompts,
certificates, hints, admission), `play` (environments, rendering, parsing), `train` (advantages, weights sent and
proven), `checkpoints`, and `records` (rows, trajectories). Sampling runs beside the event loop, so that what happens
while it does costs nothing: only time in which neither sampling nor training goes on counts as other.

SmolLM2 calls no tool unless it was shown how, so its plays carry no gradient; there the update imitates as many tokens
of random text as it samples. `spade model fetch smollm2` brings the model.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import spade_agents
import spade_agents.selfplay.run as run_module
from spade_agents.policy.hf_sampler import HfSampler
from spade_agents.policy.open import models_folder
from spade_agents.policy.sampler import Sampler
from spade_agents.selfplay import loop
from spade_agents.selfplay.resources import Resources
from spade_agents.training.samples import SupervisedSample
from spade_agents.training.torch_engine import TorchEngine

ROLLOUTS = {"nano": 8, "smollm2": 4}
SETTINGS = {
    "nano": ["evaluation.evaluator=none", "run.checkpoint_every=4"],
    "smollm2": [
        "run.checkpoint_every=2",
        "selfplay.environments=2",
        "selfplay.plays=4",
        "selfplay.hint_plays=0",
        "selfplay.period=1",
        "selfplay.play.sampling.max_tokens=96",
        "training.replay.type=supervised",
        "training.replay.source=benchmarks.cycle:open_replay",
        "training.replay.samples=16",
        # On random text, the canary of the last update, bf16 scores are 0.23 from the sampler's fp32 ones on average.
        "training.arrival_tolerance=0.5",
    ],
}
PHASES = ("design", "play", "train", "checkpoints", "records")


class Clock:
    """Intervals in which something went on, by its name."""

    def __init__(self) -> None:
        self.intervals: dict[str, list[tuple[float, float]]] = {}

    @contextmanager
    def going_on(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.intervals.setdefault(name, []).append((started, time.perf_counter()))

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.going_on(name):
                return function(*arguments, **named)

        return timed

    def around_task(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def timed(*arguments: Any, **named: Any) -> Any:
            with self.going_on(name):
                return await function(*arguments, **named)

        return timed

    def seconds(self, name: str, but: tuple[str, ...] = ()) -> float:
        """Time in which `name` went on and none of `but` did."""
        taken = merged([each for other in but for each in self.intervals.get(other, [])])
        return sum(
            end - start - sum(max(0.0, min(end, e) - max(start, s)) for s, e in taken)
            for start, end in merged(self.intervals.get(name, []))
        )


def merged(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of intervals, as disjoint ones."""
    union: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def open_replay(folder: Path) -> Callable[[int, int], tuple[SupervisedSample, ...]]:
    """Random text for the update: as long as SmolLM2's plays."""

    def replay(seed: int, count: int) -> tuple[SupervisedSample, ...]:
        rng = random.Random(seed)
        return tuple(
            SupervisedSample(
                token_ids=tuple(rng.randrange(1000, 40_000) for _ in range(700)), mask=(False,) * 600 + (True,) * 100
            )
            for _ in range(count)
        )

    return replay


@contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """The pieces of a cycle tell the clock, while the block lasts."""
    patches: list[tuple[Any, str, Any]] = []

    def patch(owner: Any, name: str, new: Any) -> None:
        patches.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)

    for sampler in (Sampler, HfSampler):
        for method in ("submit", "step"):
            patch(sampler, method, clock.around("sampling", getattr(sampler, method)))
    patch(TorchEngine, "update", clock.around("training", TorchEngine.update))
    timed = Resources.timed

    @contextmanager
    def phase(resources: Resources, name: str) -> Iterator[None]:
        with timed(resources, name), clock.going_on(name):
            yield

    patch(Resources, "timed", phase)
    patch(loop, "checkpoint", clock.around("checkpoints", loop.checkpoint))
    patch(run_module, "run_loop", clock.around_task("cycle", run_module.run_loop))
    try:
        yield
    finally:
        for owner, name, old in reversed(patches):
            setattr(owner, name, old)


def measured(model: str, rollouts: int) -> dict[str, float]:
    """Shares of a run's wall clock, and the seconds of a rollout."""
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="spade-cycle-") as folder, watched(clock):
        spade_agents.train(
            f"configs/{model}.toml",
            out=Path(folder) / "run",
            overrides=[f"run.rollouts={rollouts}", *SETTINGS[model]],
        )
    total, work = clock.seconds("cycle"), ("sampling", "training")
    spent = {name: clock.seconds(name) for name in work}
    spent |= {name: clock.seconds(name, but=work) for name in PHASES[:-1]}
    spent["records"] = clock.seconds("cycle", but=(*work, *PHASES[:-1]))
    shares = {name: seconds / total for name, seconds in spent.items()}
    other = sum(shares[name] for name in PHASES)
    return {**shares, "other": other, "seconds_a_rollout": total / rollouts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rollouts")
    parser.add_argument("--models", nargs="+", choices=tuple(ROLLOUTS), default=list(ROLLOUTS))
    parser.add_argument("--rollouts", type=int, help="instead of the usual number")
    arguments = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    columns = ("sampling", "training", *PHASES, "other")
    print(f"{'model':<10}{'s/rollout':>10}" + "".join(f"{name:>13}" for name in columns))
    for model in arguments.models:
        if model == "smollm2" and not (models_folder() / "smollm2" / "config.json").is_file():
            print(f"{model:<10}not fetched: spade model fetch smollm2")
            continue
        rollouts = arguments.rollouts or (max(ROLLOUTS[model] // 2, 1) if arguments.quick else ROLLOUTS[model])
        row = found[model] = measured(model, rollouts)
        shares = "".join(f"{row[name]:>13.1%}" for name in columns)
        print(f"{model:<10}{row['seconds_a_rollout']:>10.1f}{shares}", flush=True)
    print(json.dumps({"benchmark": "cycle", **found}))


if __name__ == "__main__":
    main()
