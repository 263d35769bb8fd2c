"""Does self-play teach nano? From one start checkpoint: self-play, a control without RL, and what the designer becomes.

    python benchmarks/nano_learning.py [--quick] [--arms selfplay control free] [--seeds 0 1 2] [--out runs/learning]

Every arm takes the same number of optimiser steps with the same supervised replay and is evaluated on the same held-out
plays; the control does nothing else. Two runs go at a time, each on one thread; an interrupted benchmark goes on where
it stopped. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from designs import diversity_of, drawn_designs
from rich.console import Console
from rich.table import Table

from spade_agents.designer.memory import Memory
from spade_agents.selfplay import RunSettings, resume, train
from spade_agents.selfplay.checkpoint import newest_stable
from spade_agents.selfplay.design_phase import design_requests
from spade_agents.selfplay.preflight import open_corpus
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.state import LoopState
from spade_agents.settings import load_settings, to_toml
from spade_agents.statistics import paired_difference

ROOT = Path(__file__).parents[1]
ARMS = {
    "selfplay": (),
    "control": ("selfplay.pool.type=none",),
    "free": ("novelty.enabled=false", "designer.memory.enabled=false"),
}
DESIGNS = 64
QUICK = ("run.rollouts=4", "evaluation.plays=60", "selfplay.plays=8", "selfplay.hint_plays=8")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One arm with one seed."""

    arm: str
    seed: int
    path: Path

    def overrides(self, arguments: argparse.Namespace) -> list[str]:
        quick = QUICK if arguments.quick else ()
        return [f"run.name={self.path.name}", f"run.seed={self.seed}", f"model.start={arguments.start}", *quick,
                *ARMS[self.arm], *arguments.overrides]  # fmt: skip


def main() -> None:
    arguments = parsed()
    if arguments.child:
        child(Path(arguments.child[0]), Path(arguments.child[1]))
        return
    out = Path(arguments.out)
    runs = [Run(arm=arm, seed=seed, path=out / f"{arm}-{seed}") for seed in arguments.seeds for arm in arguments.arms]
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        list(pool.map(lambda run: finish(run, arguments), runs))
    figures = [figure for run in runs for figure in told(run)]
    show(figures)
    print(json.dumps({"benchmark": "nano_learning", "quick": arguments.quick, "figures": figures, **ratios(figures)}))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few rollouts and plays: does it run at all")
    parser.add_argument("--start", default="nano", help="the start checkpoint of every run")
    parser.add_argument("--config", default=str(ROOT / "configs" / "nano.toml"))
    parser.add_argument("--arms", nargs="+", default=["selfplay", "control", "free"], choices=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", default="runs/nano_learning")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, each on one thread")
    parser.add_argument("--overrides", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def finish(run: Run, arguments: argparse.Namespace) -> None:
    """Bring one run to its end in a process of its own, unless it is there already."""
    done = run.path / "designs.json"
    if done.exists():
        return
    settings = run.path.with_suffix(".toml")
    settings.write_text(
        to_toml(load_settings(RunSettings, arguments.config, run.overrides(arguments))), encoding="utf-8"
    )
    log = run.path.with_suffix(".log")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(Path(__file__)), "--child", str(settings), str(run.path)]
    started = time.monotonic()
    with log.open("a") as file:
        ended = subprocess.run(command, env=environment, stdout=file, stderr=file, check=False)
    print(f"{run.path.name}: exit {ended.returncode} after {time.monotonic() - started:.0f} s", file=sys.stderr)
    if ended.returncode:
        raise SystemExit(f"{run.path} failed; see {log}")


def child(config: Path, path: Path) -> None:
    """One run to its end, and the designs of what it became."""
    from spade_agents.telemetry import LineReporter

    progress = LineReporter(sys.stdout)
    if path.exists() and not list((path / "checkpoints").glob("step-*/STABLE")):
        shutil.rmtree(path)
    result = resume(path, progress=progress) if path.exists() else train(config, out=path, progress=progress)
    designs = asyncio.run(sampled_designs(result.path))
    (path / "designs.json").write_text(json.dumps(designs))


async def sampled_designs(path: Path) -> list[str]:
    """Programs that the run's last weights write for 64 prompts: the loop's own, memory seeds included."""
    directory = RunDirectory.open(path)
    settings, checkpoint = directory.settings, newest_stable(directory.checkpoints)
    state = LoopState.from_json(checkpoint.state.read_bytes())
    memory = Memory.open(directory.memory, settings.designer.memory)
    requests = design_requests(settings, state, memory, open_corpus(settings), DESIGNS)
    drawn = await drawn_designs(str(checkpoint.model), requests, settings, purpose="collapse")
    return [source or "" for source in drawn]


def told(run: Run) -> list[dict[str, Any]]:
    """The figures of one run: solve rates before and after, the paired change, and what its designer writes."""
    directory = RunDirectory(run.path)
    last = max(row["rollout"] for row in directory.metrics.rows() if row["kind"] == "evaluation")
    before, after = directory.read_evaluation(0), directory.read_evaluation(last)
    designs = json.loads((run.path / "designs.json").read_text())
    seconds = sum(sum(row.get("seconds", {}).values()) for row in directory.metrics.rows())
    return [
        {
            "arm": run.arm,
            "seed": run.seed,
            "part": name,
            "start": before.parts[name].win_rate,
            "end": part.win_rate,
            "low": part.low,
            "high": part.high,
            "plays": part.plays,
            "change": change(before.parts[name].wins, part.wins),
            "seconds": round(seconds),
            **{f"designs_{key}": value for key, value in asdict(diversity_of(designs)).items()},
        }
        for name, part in after.parts.items()
    ]


def change(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float] | None:
    """Mean difference over the same plays, resampled by environment."""
    keys = sorted(set(before) | set(after))
    interval = paired_difference(
        [before.get(key) for key in keys],
        [after.get(key) for key in keys],
        rng=random.Random(0),
        clusters=[key.split(":")[0] for key in keys],
    )
    return None if interval is None else {"mean": interval.estimate, "low": interval.low, "high": interval.high}


def ratios(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each part, self-play's gain over the start and over the control: by seed, and on average."""
    found = {(figure["arm"], figure["seed"], figure["part"]): figure for figure in figures}
    result: dict[str, Any] = {}
    for part in dict.fromkeys(figure["part"] for figure in figures):
        seeds = [seed for arm, seed, name in found if arm == "selfplay" and name == part]
        over_start = [found["selfplay", s, part]["end"] - found["selfplay", s, part]["start"] for s in seeds]
        paired = [s for s in seeds if ("control", s, part) in found]
        over_control = [found["selfplay", s, part]["end"] - found["control", s, part]["end"] for s in paired]
        result[part] = {"over_start": _gain(over_start), "over_control": _gain(over_control)}
    return {"gains": result}


def _gain(values: Sequence[float]) -> dict[str, Any] | None:
    return {"mean": fmean(values), "least": min(values), "by_seed": list(values)} if values else None


def show(figures: Sequence[dict[str, Any]]) -> None:
    table = Table(title="held-out solve rate, the same plays for every run (95 % intervals)")
    columns = ("arm", "seed", "part", "start", "end", "change", "plays", "distinct", "largest family", "min")
    for column in columns:
        table.add_column(column)
    for figure in figures:
        moved = figure["change"]
        table.add_row(
            figure["arm"],
            str(figure["seed"]),
            figure["part"],
            f"{figure['start']:.3f}",
            f"{figure['end']:.3f}"
            + (f" [{figure['low']:.3f}, {figure['high']:.3f}]" if figure["low"] is not None else " [not estimable]"),
            f"{moved['mean']:+.3f} [{moved['low']:+.3f}, {moved['high']:+.3f}]" if moved else "not estimable",
            str(figure["plays"]),
            f"{figure['designs_distinct_share']:.2f} of {figure['designs_designs']}",
            f"{figure['designs_largest_family']:.2f}",
            f"{figure['seconds'] / 60:.1f}",
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
