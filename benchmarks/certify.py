"""The certificate's own cost: environments a second over a directory's worth, and the share of each gate.

Run `python benchmarks/certify.py [--quick]`. Compare figures of one run only: load on the machine moves them all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from spade_environments import EnvironmentSpec
from spade_environments.certificate import CORE_GATES, Certificate, CertificateSettings, certify_many
from spade_environments.registry import catalogue
from spade_environments.sandbox import Sandbox, open_sandbox

ALL = CertificateSettings()
CORE = CertificateSettings(seeds=4, gates=CORE_GATES)


def directory(count: int) -> list[EnvironmentSpec]:
    """The catalogue over and over, each copy with source, and so seeds, of its own."""
    specs = catalogue()
    return [
        replace(specs[number % len(specs)], source=f"{specs[number % len(specs)].source}\n# copy {number}\n")
        for number in range(count)
    ]


async def figures(
    sandbox: Sandbox, specs: list[EnvironmentSpec], settings: CertificateSettings, jobs: int
) -> dict[str, Any]:
    """Wall and CPU time an environment, how much of the cores was used, and where the wall time went."""
    start, spent = time.perf_counter(), cpu_of(os.getpid())
    certificates = await certify_many(specs, sandbox, settings=settings, jobs=jobs)
    wall, cpu = time.perf_counter() - start, cpu_of(os.getpid()) - spent
    cores = len(os.sched_getaffinity(0))
    return {
        "environments": len(specs),
        "seeds": settings.seeds,
        "jobs": jobs,
        "environments_a_second": len(specs) / wall,
        "cpu_ms": 1000 * cpu / len(specs),
        "cores": cores,
        "cpu_use": cpu / (wall * cores),
        "verdicts": dict(Counter(certificate.verdict.value for certificate in certificates)),
        "gate_share": shares(certificates),
    }


def cpu_of(root: int) -> float:
    """CPU seconds of a process, its descendants and those of them that were reaped."""
    stats: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # it has ended
                continue
            stats[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"))
    family = {root}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return sum(stats[pid][1] for pid in family if pid in stats)


def shares(certificates: tuple[Certificate, ...]) -> dict[str, float]:
    """Share of each gate in the wall time of all gates."""
    seconds: Counter[str] = Counter()
    for certificate in certificates:
        seconds.update({result.gate.value: result.seconds for result in certificate.gates})
    total = sum(seconds.values())
    return {gate: spent / total for gate, spent in seconds.items()}


async def measure(count: int, jobs: int) -> dict[str, Any]:
    async with open_sandbox() as sandbox:
        return {
            "level": sandbox.level,
            "all_gates": await figures(sandbox, directory(count), ALL, jobs),
            "core_gates": await figures(sandbox, directory(count), CORE, jobs),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="24 environments instead of 200")
    parser.add_argument("--jobs", type=int, default=6 * (os.cpu_count() or 1), help="environments at a time")
    arguments = parser.parse_args()
    found = asyncio.run(measure(24 if arguments.quick else 200, arguments.jobs))
    for name in ("all_gates", "core_gates"):
        figure = found[name]
        speed, cpu, use = figure["environments_a_second"], figure["cpu_ms"], figure["cpu_use"]
        told = f"{speed:6.2f} environments/s  {cpu:6.0f} ms of CPU each, {use:4.0%} of {figure['cores']} cores"
        print(f"{name:11} {figure['seeds']} seeds  {told}")
        for gate, share in figure["gate_share"].items():
            print(f"  {gate:12} {share:6.1%}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
