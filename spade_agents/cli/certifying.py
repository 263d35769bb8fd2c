"""`spade env certify`: several environments at a time, one line a gate, and the proof kept beside each file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_agents.terminal import visible_line

if TYPE_CHECKING:
    from spade_agents.cli.sources import NamedSpec
    from spade_environments import EnvironmentSpec
    from spade_environments.certificate import Certificate, CertificateSettings

__all__ = ["certificate_state", "certify", "exit_code", "verdict_page"]

SEEDS = 8
MAX_SEEDS = 1000
MAX_JOBS = 64
JOBS_PER_CORE = 6
"""A certificate often waits for one child; so many at a time keep every core busy."""


def certify(
    targets: Annotated[list[str], typer.Argument(metavar="NAME|FILE|DIR...", help="What to certify.")],
    seeds: Annotated[int, typer.Option(min=2, max=MAX_SEEDS, help="How many instances are played.")] = SEEDS,
    jobs: Annotated[
        int, typer.Option(min=1, max=MAX_JOBS, help="Environments at a time; six for each core unless given.")
    ] = min(MAX_JOBS, JOBS_PER_CORE * (os.cpu_count() or 1)),
    save: Annotated[
        bool, typer.Option("--save/--no-save", help="Whether to write NAME.certificate.json beside each file.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Run every gate on environments.

    Nothing is trained on that does not pass all of them; a gate that fails says what to do. The certificate of a file
    is written beside it; it is void as soon as the source changes.

    Exit code: 0 certified, 1 rejected or unproven, 3 undecided (our own fault); of several the worst, 1 before 3.
    With --json it prints one certificate a line.
    """
    import asyncio

    from spade_agents.cli.failures import worst
    from spade_agents.cli.sources import specs_at
    from spade_environments.certificate import CertificateSettings

    named = [found for target in targets for found in specs_at(target)]
    settings = CertificateSettings(seeds=seeds)
    certificates = asyncio.run(_certify_all(named, settings, jobs=jobs, save=save, as_json=as_json))
    raise typer.Exit(worst([exit_code(certificate) for certificate in certificates]))


async def _certify_all(
    named: list[NamedSpec], settings: CertificateSettings, *, jobs: int, save: bool, as_json: bool
) -> list[Certificate]:
    """All certificates, each told and kept as soon as it and all before it are there."""
    import asyncio

    from spade_agents.telemetry import open_progress
    from spade_environments.certificate import certify as certify_spec
    from spade_environments.certificate import write_certificate
    from spade_environments.sandbox import open_sandbox

    places = asyncio.Semaphore(jobs)
    certificates: list[Certificate] = []
    async with open_sandbox() as sandbox:
        with open_progress() as progress:
            progress.begin("certifying", len(named))

            async def one(spec: EnvironmentSpec) -> Certificate:
                async with places:
                    certificate = await certify_spec(spec, sandbox, settings=settings)
                progress.advance()
                return certificate

            tasks = [asyncio.create_task(one(found.spec)) for found in named]
            try:
                for found, task in zip(named, tasks, strict=True):
                    certificate = await task
                    if save and found.path is not None:
                        write_certificate(found.path, certificate)
                    typer.echo(_one_line(certificate) if as_json else verdict_page(found.label, certificate))
                    certificates.append(certificate)
            finally:  # no task group: what goes wrong here is told as it is, not as one of a group
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    return certificates


def exit_code(certificate: Certificate) -> int:
    """0 for certified, 3 for undecided, 1 for anything else."""
    from spade_agents.cli.failures import FAILED, OK, UNDECIDED

    return {"certified": OK, "undecided": UNDECIDED}.get(certificate.verdict.value, FAILED)


def certificate_state(spec: EnvironmentSpec, path: Path | None) -> str:
    """What the certificate beside the source file `path` says of `spec`: its verdict, `none`, or that it is void.

    Raises:
        UsageError: the file beside the source is no certificate.
    """
    from spade_agents.errors import UsageError
    from spade_environments.certificate import Certificate, CertificateError, certificate_path

    if path is None or not certificate_path(path).exists():
        return "none"
    try:
        certificate = Certificate.from_json(certificate_path(path).read_bytes())
    except CertificateError as error:
        raise UsageError(f"{certificate_path(path)}: {error}") from error
    return certificate.verdict.value if certificate.holds_for(spec) else "void: the source has changed"


def _one_line(certificate: Certificate) -> str:
    return json.dumps(json.loads(certificate.to_json()), ensure_ascii=False)


_COLOURS = {"certified": "green", "passed": "green", "rejected": "red", "failed": "red", "not_run": "bright_black"}


def verdict_page(label: str, certificate: Certificate) -> str:
    """A certificate for a person: the verdict, one line a gate, and what is to be done."""
    lines = [f"{_coloured(certificate.verdict.value)} {visible_line(label)}"]
    for gate in certificate.gates:
        lines.append(f"  {_coloured(gate.status.value)} {gate.gate.value:<12} {visible_line(gate.evidence)}".rstrip())
        if gate.repair:
            lines.append(f"  to do: {visible_line(gate.repair)}")
    return "\n".join(lines)


def _coloured(word: str) -> str:
    """A verdict or status in its colour; `typer.echo` drops colours where the output is no terminal."""
    return typer.style(f"{word:<10}", fg=_COLOURS.get(word, "yellow"))
