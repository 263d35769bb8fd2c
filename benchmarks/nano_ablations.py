"""What designer, corpus, memory and reward are worth: ten arms from one start, and SPADE against a frozen designer.

    python benchmarks/nano_ablations.py [--quick] [--arms SPADE "no corpus"] [--seeds 0 1 2] [--out runs/nano_ablations]
    python benchmarks/nano_ablations.py --paired [--paired-seeds 0 1 2 3 4 5 6 7]
    python benchmarks/nano_ablations.py --show

The first runs the arms, the second the paired seeds, which share what they can with the first. Each run is a process on
one thread, two at a time. Work that is finished is not done again: it is known by its configuration, its measures and
the start weights. When time is up, runs stop after the rollout in hand and go on in the next call. At the end stand the
table, `ablations.html` with the figure, and one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ablations.arms import ARMS, FIXED, FULL, QUICK, start_sum
from ablations.jobs import Clock, Job, Plan, finish_all
from ablations.page import page, print_tables
from ablations.results import ArmRow, Paired, arm_rows, paired

from spade_agents.files import write_whole
from spade_agents.selfplay import RunSettings, resume, train
from spade_agents.settings import load_settings, to_toml
from spade_agents.telemetry import LineReporter

ROOT = Path(__file__).parents[1]
STOPPED = 130


def main() -> None:
    arguments = parsed()
    if arguments.child:
        child(Path(arguments.child))
        return
    out = Path(arguments.out).absolute()
    plan = Plan(
        out=out,
        config=Path(arguments.config),
        size=QUICK if arguments.quick else FULL,
        start=arguments.start,
        weights=start_sum(arguments.start),
        overrides=tuple(arguments.overrides),
    )
    out.mkdir(parents=True, exist_ok=True)
    if not arguments.show:
        clock = Clock(minutes=arguments.minutes or (20 if arguments.quick else 150))
        chains = paired_chains(plan, arguments.paired_seeds) if arguments.paired else arm_chains(plan, arguments)
        finish_all(chains, script=Path(__file__), jobs=arguments.jobs, clock=clock)
    tell(plan, arguments)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small runs, 20 minutes: does every arm run at all")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, help="0 1 2, or 0 1 with --quick")
    parser.add_argument("--paired", action="store_true", help="SPADE against the frozen designer, in place of the arms")
    parser.add_argument("--paired-seeds", nargs="+", type=int, help="0 to 7, or 0 1 with --quick")
    parser.add_argument("--show", action="store_true", help="run nothing; table and page of what is finished")
    parser.add_argument("--minutes", type=float, help="when to stop (150, or 20 with --quick)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, each on one thread")
    parser.add_argument("--start", default="nano", help="the start checkpoint of every run")
    parser.add_argument("--config", default=str(ROOT / "configs" / "nano.toml"))
    parser.add_argument("--overrides", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", default="runs/nano_ablations")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.seeds = arguments.seeds or ([0, 1] if arguments.quick else [0, 1, 2])
    arguments.paired_seeds = arguments.paired_seeds or list(range(2 if arguments.quick else 8))
    return arguments


def arm_chains(plan: Plan, arguments: argparse.Namespace) -> list[list[Job]]:
    """One chain an arm and seed, but the arms that share a pool in one chain behind it; a seed's arms together."""
    chains: list[list[Job]] = [[plan.before()]]
    for seed in arguments.seeds:
        from_pool = [plan.run(arm, seed) for arm in arguments.arms if arm in FIXED]
        chains += [[plan.pool(seed), *from_pool]] if from_pool else []
        chains += [[plan.run(arm, seed)] for arm in arguments.arms if arm not in FIXED]
    return chains


def paired_chains(plan: Plan, seeds: Sequence[int]) -> list[list[Job]]:
    """One chain a seed: both runs, then the designs of both."""
    return [[plan.run("SPADE", seed), plan.run("frozen designer", seed), plan.pair(seed)] for seed in seeds]


def child(path: Path) -> None:
    """One job in a process of its own."""
    facts = json.loads((path / "job.json").read_text(encoding="utf-8"))
    job = Job(kind=facts["kind"], name=path.name, path=path, facts=facts)
    from ablations import measures  # torch comes with it, which the parent does without

    if job.kind == "start":
        settings = path / "settings.toml"
        settings.write_text(to_toml(load_settings(RunSettings, facts["config"], facts["overrides"])), encoding="utf-8")
        job.keep(asyncio.run(measures.held_out(facts["start"], settings, facts["held_out"])))
        return
    if job.kind == "pair":
        runs = {name: Path(facts[name]) / "run" for name in ("spade", "frozen")}
        counts = {name: facts[name] for name in ("designs", "plays")}
        job.keep(asyncio.run(measures.designs_of_a_pair(runs, facts["start"], **counts)))
        return
    trained(job)
    if job.kind == "pool":
        job.keep({"environments": len(json.loads((path / "run/environments/pool.json").read_text())["environments"])})
    else:
        job.keep(measures.run_figures(path / "run", plays=facts["held_out"], source=fixed_pool(facts["overrides"])))


def trained(job: Job) -> None:
    """Bring the job's run to its end, from its last checkpoint where there is one."""
    run, progress = job.path / "run", LineReporter(sys.stdout)
    if run.exists() and not list((run / "checkpoints").glob("step-*/STABLE")):
        shutil.rmtree(run)
    if run.exists():
        result = resume(run, progress=progress)
    else:
        named = [f"run.name={job.path.name}", f"model.start={job.facts['start']}"]
        settings = load_settings(RunSettings, job.facts["config"], [*job.facts["overrides"], *named])
        result = train(settings, out=run, progress=progress)
    if not result.finished:
        raise SystemExit(STOPPED)


def fixed_pool(overrides: Sequence[str]) -> Path | None:
    """The pool's folder that a run's overrides name."""
    return next((Path(value) for key, _, value in (o.partition("=") for o in reversed(overrides))
                 if key == "selfplay.pool.source"), None)  # fmt: skip


def tell(plan: Plan, arguments: argparse.Namespace) -> None:
    """Table, page and JSON of whatever is finished."""
    seeds = sorted({*arguments.seeds, *arguments.paired_seeds})
    runs = {arm: finished([(seed, plan.run(arm, seed)) for seed in arguments.seeds]) for arm in arguments.arms}
    pairs = finished([(seed, plan.pair(seed)) for seed in arguments.paired_seeds])
    spade = finished([(seed, plan.run("SPADE", seed)) for seed in seeds])
    before = plan.before().result
    rows, found = arm_rows(runs, arguments.arms, before=before and before["win_rate"]), paired(pairs, spade)
    print_tables(rows, found)
    commits = {row["commit"] or "unknown" for of_arm in runs.values() for row in of_arm.values()}
    facts = {
        "start": f"{plan.start} ({plan.weights[:12]})",
        "held-out before training": before and f"{before['win_rate']:.3f} [{before['low']:.3f}, {before['high']:.3f}]",
        "seeds of the arms": " ".join(map(str, arguments.seeds)),
        "paired seeds asked": " ".join(map(str, arguments.paired_seeds)),
        "size": "quick: too small to learn" if arguments.quick else "full",
        "code": ", ".join(sorted(commit[:10] for commit in commits)),
        "written": datetime.now(UTC).isoformat(timespec="minutes"),
    }
    path = plan.out / "ablations.html"
    write_whole(path, page(rows, found, facts).encode())
    print(f"page: {path}")
    print(json.dumps({"benchmark": "nano_ablations", "quick": arguments.quick, **plain(rows, found)}))


def finished(jobs: Sequence[tuple[int, Job]]) -> dict[int, Any]:
    """The results that are there, by seed."""
    return {seed: result for seed, job in jobs if (result := job.result) is not None}


def plain(rows: Sequence[ArmRow], found: Paired) -> dict[str, Any]:
    return {
        "arms": [dataclasses.asdict(row) for row in rows],
        "paired": {**dataclasses.asdict(found), "differences": found.differences},
    }


if __name__ == "__main__":
    main()
