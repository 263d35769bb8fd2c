"""`spade env import`: environments of other shapes written as files of ours, each with its spec and certificate."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.terminal import visible_line

if TYPE_CHECKING:
    from spade_environments import EnvironmentSpec, Skill
    from spade_environments.certificate import Certificate
    from spade_environments.importing import ImportedSource, SourceFile

__all__ = ["import_environments"]

MAX_TURNS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """One class: what it became, or why it became nothing."""

    label: str
    imported: ImportedSource | None = None
    certificate: Certificate | None = None
    written: Path | None = None
    why_not: str = ""


def import_environments(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE|DIR|CLASS...", help="FILE.py, a folder, FILE.py:CLASS or module:CLASS.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
    skill: Annotated[str | None, typer.Option(help="What they train, such as 'logical deduction'.")] = None,
    domain: Annotated[str, typer.Option(help="Their topic.")] = "general",
    max_turns: Annotated[
        int | None, typer.Option(min=1, max=MAX_TURNS, help="Turns of an episode, instead of their own.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a class for a program to read.")
    ] = False,
) -> None:
    """Bring in environments that were written elsewhere.

    Plain classes with reset and step on text whose name ends in Env (with boxed actions or without), classes on
    ToolUseBaseEnv, and Gymnasium environments that read and write text. Nothing of them runs outside the sandbox.
    Each becomes NAME.py, NAME.spec.json and NAME.certificate.json. One without a solution() that can be run is
    unproven: it can be played, and is never trained on.

    Exit code: 0 all certified, 1 rejected, unproven or not imported, 2 wrong usage, 3 undecided (our own fault).
    """
    import asyncio

    from spade_agents.cli.failures import worst
    from spade_agents.errors import UsageError
    from spade_environments.importing import source_files

    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is no folder; give another with --out")
    files = [file for target in targets for file in source_files(target)]
    prepared = [result for file in files for result in _prepared(file, _skill(skill), domain, max_turns)]
    if not any(result.imported for result in prepared) and not any(result.why_not for result in prepared):
        raise UsageError(
            f"{', '.join(targets)[:200]}: no environment found; wanted a class whose name ends in Env with reset and "
            "step, one on ToolUseBaseEnv, or one on gymnasium's Env"
        )
    raise typer.Exit(worst(asyncio.run(_import_all(prepared, out, as_json=as_json))))


def _skill(name: str | None) -> Skill | None:
    from spade_agents.errors import UsageError
    from spade_environments import Skill

    if name is None:
        return None
    found = next((skill for skill in Skill if skill.value.lower() == name.strip().lower()), None)
    if found is None:
        raise UsageError(f"there is no skill {name[:80]!r}; use one of: {', '.join(skill.value for skill in Skill)}")
    return found


def _prepared(file: SourceFile, skill: Skill | None, domain: str, max_turns: int | None) -> list[_Result]:
    """Every class of a file as a source of ours; nothing has run yet."""
    from spade_agents.errors import UsageError
    from spade_environments import SpecError
    from spade_environments.importing import classes_in, imported

    try:
        classes = classes_in(file.source)
    except SpecError as error:
        return [_Result(label=str(file.path), why_not=str(error))]
    chosen = [found for found in classes if file.class_name in (None, found.name)]
    if file.class_name is not None and not chosen:
        names = ", ".join(found.name for found in classes) or "none"
        raise UsageError(f"{file.path} has no environment {file.class_name!r}; found: {names}")
    options: dict[str, Any] = {"skill": skill, "domain": domain, "max_turns": max_turns}
    results = []
    for found in chosen:
        label = f"{file.path}:{found.name}"
        try:
            results.append(
                _Result(label=label, imported=imported(file.source, found, origin=file.path.name, **options))
            )
        except SpecError as error:
            results.append(_Result(label=label, why_not=str(error)))
    return results


async def _import_all(prepared: list[_Result], out: Path, *, as_json: bool) -> list[int]:
    from spade_agents.telemetry import open_progress
    from spade_environments.sandbox import open_sandbox

    codes = []
    async with open_sandbox() as sandbox:
        with open_progress() as progress:
            progress.begin("importing", len(prepared))
            for result in prepared:
                found = result if result.imported is None else await _tried(result, result.imported.spec, out, sandbox)
                progress.advance()
                typer.echo(json.dumps(_fields(found), ensure_ascii=False) if as_json else _page(found))
                codes.append(_code(found))
    return codes


async def _tried(result: _Result, spec: EnvironmentSpec, out: Path, sandbox: Any) -> _Result:
    """Certify it, and write it where it can at least be played."""
    from dataclasses import replace

    from spade_environments.certificate import Gate, Verdict, certify

    clash = _clash(spec, out)
    if clash is not None:
        return replace(result, why_not=f"{clash} exists and is left as it is; give another folder with --out")
    certificate = await certify(spec, sandbox)
    reason = certificate.reason
    playable = reason is None or reason.gate not in (Gate.LINT, Gate.LOAD, Gate.RESET)
    if certificate.verdict is Verdict.UNDECIDED or not playable:
        assert reason is not None
        told = reason.repair or reason.evidence
        return replace(result, certificate=certificate, why_not=f"gate {reason.gate.value}: {told}")
    return replace(result, certificate=certificate, written=_write(spec, certificate, out))


def _clash(spec: EnvironmentSpec, out: Path) -> Path | None:
    """A file in the way that is not this very import."""
    source = out / f"{spec.name}.py"
    if source.exists() and source.read_bytes() != spec.source.encode():
        return source
    return None


def _write(spec: EnvironmentSpec, certificate: Certificate, out: Path) -> Path:
    """All three files or none: spec and certificate first, so that a source that is there has both beside it."""
    from spade_environments.certificate import certificate_path, write_certificate
    from spade_environments.loader import spec_path

    source = out / f"{spec.name}.py"
    known = source.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        spec_path(source).write_text(spec.to_json(source=False), encoding="utf-8")
        write_certificate(source, certificate)
        source.write_bytes(spec.source.encode())
    except OSError:
        for path in () if known else (source, spec_path(source), certificate_path(source)):
            path.unlink(missing_ok=True)
        raise
    return source


def _code(result: _Result) -> int:
    from spade_agents.cli.certifying import exit_code
    from spade_agents.cli.failures import FAILED

    return FAILED if result.certificate is None else exit_code(result.certificate)


def _fields(result: _Result) -> dict[str, Any]:
    reason = result.certificate.reason if result.certificate else None
    found = result.imported.found if result.imported else None
    return {
        "from": result.label,
        "shape": found.shape.value if found else None,
        "class": found.name if found else None,
        "id": result.imported.spec.id if result.imported else None,
        "written": str(result.written) if result.written else None,
        "verdict": result.certificate.verdict.value if result.certificate else None,
        "gate": reason.gate.value if reason else None,
        "told": result.why_not or ((reason.repair or reason.evidence) if reason else ""),
    }


def _page(result: _Result) -> str:
    told = _fields(result)
    if result.written is None:
        return f"not imported  {visible_line(result.label)}\n  why: {visible_line(told['told'])}"
    lines = [f"{told['verdict']:<10} {visible_line(result.label)} -> {visible_line(str(result.written))}"]
    if told["verdict"] == "unproven":
        lines.append("  it can be played, and is never trained on")
    if told["told"]:
        lines.append(f"  gate {told['gate']}: {visible_line(told['told'])}")
    return "\n".join(lines)
