"""The certificate's own cost: environments a second over a directory's worth, and the share of each gate.

Run `python benchmarks/certify.py [--quick]`. Compare figures of one run only: load on the machine moves them all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import time
from collections import Counter
from dataclasses import replace
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
    """Wall and CPU time an environment, and where the wall time went."""
    start, own = time.perf_counter(), time.process_time()
    certificates = await certify_many(specs, sandbox, settings=settings, jobs=jobs)
    wall = time.perf_counter() - start
    return {
        "environments": len(specs),
        "seeds": settings.seeds,
        "jobs": jobs,
        "environments_a_second": len(specs) / wall,
        "own_cpu_ms": 1000 * (time.process_time() - own) / len(specs),
        "verdicts": dict(Counter(certificate.verdict.value for certificate in certificates)),
        "gate_share": shares(certificates),
    }


def shares(certificates: tuple[Certificate, ...]) -> dict[str, float]:
    """Share of each gate in the wall time of all gates."""
    seconds: Counter[str] = Counter()
    for certificate in certificates:
        seconds.update({result.gate.value: result.seconds for result in certificate.gates})
    total = sum(seconds.values())
    return {gate: spent / total for gate, spent in seconds.items()}


async def measure(quick: bool) -> dict[str, Any]:
    count = 24 if quick else 200
    jobs = 2 * (os.cpu_count() or 1)
    async with open_sandbox() as sandbox:
        found = {
            "level": sandbox.level,
            "all_gates": await figures(sandbox, directory(count), ALL, jobs),
            "core_gates": await figures(sandbox, directory(count), CORE, jobs),
        }
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["children_cpu_ms"] = 1000 * (children.ru_utime + children.ru_stime) / (2 * count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="24 environments instead of 200")
    found = asyncio.run(measure(parser.parse_args().quick))
    for name in ("all_gates", "core_gates"):
        figure = found[name]
        speed, own = figure["environments_a_second"], figure["own_cpu_ms"]
        print(f"{name:11} {figure['seeds']} seeds  {speed:6.2f} environments/s  {own:6.1f} ms of own CPU each")
        for gate, share in figure["gate_share"].items():
            print(f"  {gate:12} {share:6.1%}")
    print(f"CPU of the children, both runs: {found['children_cpu_ms']:.1f} ms an environment")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
