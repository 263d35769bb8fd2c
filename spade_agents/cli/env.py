"""`spade env`: list, show, certify and start environments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.scaffold import Base

if TYPE_CHECKING:
    from spade_agents.cli.sources import NamedSpec
    from spade_environments import EnvironmentSpec
    from spade_environments.certificate import Certificate

__all__ = ["app"]

app = typer.Typer(help="List, show, certify and start environments.", no_args_is_help=True, rich_markup_mode=None)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@app.command("list", epilog="Example: spade env list")
def list_environments(as_json: JsonFlag = False) -> None:
    """List the hand-written catalogue.

    One line each: name, identity, difficulty, skill and domain.
    """
    from spade_environments.registry import catalogue

    specs = catalogue()
    if as_json:
        typer.echo(json.dumps([_summary(spec) for spec in specs], indent=2))
        return
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        typer.echo(f"{spec.name:<{width}}  {spec.id[:12]}  {spec.difficulty:.2f}  {spec.skill.value}  ({spec.domain})")


@app.command("show", epilog="Example: spade env show ticket_desk --seed 3")
def show(
    target: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A catalogue name or a source file.")],
    seed: Annotated[int, typer.Option(help="Which instance's first observation to show.")] = 0,
    source: Annotated[bool, typer.Option("--source", help="Print the source as well.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what an environment asks for.

    Its tools, the first observation of one instance, its hint and, with --source, its program.
    """
    import asyncio

    from spade_agents.cli.sources import one_spec

    spec = one_spec(target).spec
    shown = {**_summary(spec), **asyncio.run(_opened(spec, seed)), "hint": spec.hint}
    if source:
        shown["source"] = spec.source
    typer.echo(json.dumps(shown, indent=2) if as_json else _page(shown))


@app.command("certify", epilog="Example: spade env certify my_env.py")
def certify(
    targets: Annotated[list[str], typer.Argument(metavar="NAME|FILE|DIR...", help="What to certify.")],
    save: Annotated[bool, typer.Option("--save", help="Write NAME.certificate.json beside each file.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run every gate on environments.

    Nothing is trained on that does not pass all of them; a gate that fails says what to do.

    Exit code: 0 certified, 1 rejected or unproven, 3 undecided (our own fault); of several the worst, 1 before 3.
    With --json it prints one certificate a line.
    """
    import asyncio

    from spade_agents.cli.failures import worst
    from spade_agents.cli.sources import specs_at

    named = [found for target in targets for found in specs_at(target)]
    raise typer.Exit(worst(asyncio.run(_certify_all(named, save=save, as_json=as_json))))


@app.command("new", epilog="Example: spade env new tidy_shelf --base text")
def new(
    name: Annotated[str, typer.Argument(help="Its name, in snake_case: also the name of the file.")],
    base: Annotated[Base, typer.Option(help="text: reads and writes text; tool: tools and a user with requests.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path(),
) -> None:
    """Write the start of an environment.

    The places marked FILL IN, three of them, make it one that certifies; the README's tutorial shows how.
    """
    from spade_agents.cli.scaffold import write_scaffold

    written = write_scaffold(name, base, out)
    typer.echo(f"wrote {written.source}\nwrote {written.spec}")
    typer.echo(f"Fill in the places marked FILL IN, then: spade env certify {written.source}")


async def _opened(spec: EnvironmentSpec, seed: int) -> dict[str, Any]:
    """What an agent sees at the start, and the limits it plays under."""
    from spade_environments.sandbox import open_sandbox

    async with open_sandbox() as sandbox:
        env = await sandbox.open(spec)
        try:
            first = await env.reset(seed)
            return {
                "base": env.description.base,
                "max_turns": env.max_turns,
                "observability": env.description.observability,
                "tools": [
                    {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                    for tool in env.tools
                ],
                "seed": seed,
                "first_observation": first.text,
            }
        finally:
            await env.aclose()


async def _certify_all(named: list[NamedSpec], *, save: bool, as_json: bool) -> list[int]:
    from spade_agents.telemetry import open_progress
    from spade_environments.certificate import certify as certify_spec
    from spade_environments.certificate.storage import write_certificate
    from spade_environments.sandbox import open_sandbox

    codes = []
    async with open_sandbox() as sandbox:
        with open_progress() as progress:
            progress.begin("certifying", len(named))
            for label, spec, path in named:
                certificate = await certify_spec(spec, sandbox)
                progress.advance()
                typer.echo(_one_line(certificate.to_json()) if as_json else _verdict(label, certificate))
                if save and path is not None:
                    write_certificate(path, certificate)
                codes.append(_exit_code(certificate))
    return codes


def _exit_code(certificate: Certificate) -> int:
    from spade_agents.cli.failures import FAILED, OK, UNDECIDED

    return {"certified": OK, "undecided": UNDECIDED}.get(certificate.verdict.value, FAILED)


def _one_line(text: str) -> str:
    return json.dumps(json.loads(text), ensure_ascii=False)


_COLOURS = {"certified": "green", "passed": "green", "rejected": "red", "failed": "red", "not_run": "bright_black"}


def _verdict(label: str, certificate: Certificate) -> str:
    lines = [f"{_coloured(certificate.verdict.value)} {label}"]
    for gate in certificate.gates:
        lines.append(f"  {_coloured(gate.status.value)} {gate.gate.value:<12} {gate.evidence}".rstrip())
        if gate.repair:
            lines.append(f"  to do: {gate.repair}")
    return "\n".join(lines)


def _coloured(word: str) -> str:
    """A verdict or status in its colour; `typer.echo` drops colours where the output is no terminal."""
    return typer.style(f"{word:<10}", fg=_COLOURS.get(word, "yellow"))


def _summary(spec: EnvironmentSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "id": spec.id,
        "skill": spec.skill.value,
        "domain": spec.domain,
        "difficulty": spec.difficulty,
    }


def _page(shown: dict[str, Any]) -> str:
    observed = {"full": "fully", "partial": "partially"}[shown["observability"]]
    lines = [
        f"{shown['name']} ({shown['id'][:12]})",
        f"  {shown['skill']}, {shown['domain']}, difficulty {shown['difficulty']:.2f}",
        f"  {shown['base']} environment, {observed} observed, at most {shown['max_turns']} turns",
        "tools:",
    ]
    for tool in shown["tools"]:
        arguments = ", ".join(tool["parameters"].get("properties", {}))
        lines.append(f"  {tool['name']}({arguments}): {tool['description']}")
    lines += [f"first observation, seed {shown['seed']}:", _indented(shown["first_observation"])]
    lines += ["hint:", _indented(shown["hint"] or "none written")]
    if "source" in shown:
        lines += ["source:", shown["source"]]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
