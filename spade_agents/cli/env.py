"""`spade env`: list, show, certify, import and start environments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.certifying import certificate_state, certify
from spade_agents.cli.importing import import_environments
from spade_agents.cli.output import print_json, tell
from spade_agents.cli.scaffold import Base
from spade_agents.terminal import visible_line

if TYPE_CHECKING:
    from spade_agents.selfplay.lineage import Lineage
    from spade_environments import EnvironmentSpec

__all__ = ["app"]

app = typer.Typer(
    help="List, show, certify, import and start environments.", no_args_is_help=True, rich_markup_mode=None
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@app.command("list", epilog="Example: spade env list")
def list_environments(as_json: JsonFlag = False) -> None:
    """List the hand-written catalogue.

    One line each: name, identity, difficulty, skill and domain.
    """
    from spade_environments.registry import catalogue

    specs = catalogue()
    if as_json:
        print_json([_summary(spec) for spec in specs])
        return
    width = max((len(spec.name) for spec in specs), default=0)
    for spec in specs:
        tell(f"{spec.name:<{width}}  {spec.id[:12]}  {spec.difficulty:.2f}  {spec.skill.value}  ({spec.domain})")


@app.command("show", epilog="Example: spade env show ticket_desk --seed 3")
def show(
    target: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A catalogue name, a source file, or RUN/ID.")],
    seed: Annotated[int, typer.Option(help="Which instance's first observation to show.")] = 0,
    source: Annotated[bool, typer.Option("--source", help="Print the source as well.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what an environment asks for.

    Its tools, the first observation of one instance, its hint and, with --source, its program. Of one in a pool or a
    run (RUN/ID) also its story: document, parents, attempts, certificate, outcomes, and what was built on it.
    """
    import asyncio

    from spade_agents.cli.sources import one_spec

    _, spec, path = one_spec(target)
    state = certificate_state(spec, path)
    shown = {**_summary(spec), **asyncio.run(_opened(spec, seed)), "hint": spec.hint, "certificate": state}
    if source:
        shown["source"] = spec.source
    story = _story(spec, path)
    if story is not None:
        shown["lineage"] = _plain(story) if as_json else _told(story)
    if as_json:
        print_json(shown)
    else:
        tell(_page(shown))


def _story(spec: EnvironmentSpec, path: Path | None) -> Lineage | None:
    """The lineage of an environment that lies in a pool; `None` for any other."""
    folder = None if path is None else path if path.is_dir() else path.parent
    if folder is None or not (folder.parent / "pool.json").exists():
        return None
    # Imported only now: the catalogue is shown without the loop's modules.
    from spade_agents.selfplay.lineage import lineage_of
    from spade_agents.selfplay.pool import Pool

    pool = Pool(folder.parent)
    return lineage_of(pool, spec.id) if spec.id in pool.ids() else None


def _told(story: Lineage) -> list[str]:
    from spade_agents.selfplay.lineage import lineage_lines

    return list(lineage_lines(story))


def _plain(story: Lineage) -> Any:
    import msgspec

    return msgspec.to_builtins(story)


app.command("certify", epilog="Example: spade env certify my_env.py --seeds 20")(certify)


app.command("import", epilog="Example: spade env import games/maze.py:MazeEnv --out mine")(import_environments)


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
    tell(f"wrote {written.source}\nwrote {written.spec}")
    tell(f"Fill in the places marked FILL IN, then: spade env certify {written.source}")


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


def _summary(spec: EnvironmentSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "id": spec.id,
        "skill": spec.skill.value,
        "domain": spec.domain,
        "difficulty": spec.difficulty,
    }


def _page(shown: dict[str, Any]) -> str:
    advice = "; spade env certify runs every gate" if shown["certificate"] == "none" else ""
    observed = {"full": "fully", "partial": "partially"}[shown["observability"]]
    lines = [
        f"{visible_line(shown['name'])} ({shown['id'][:12]})",
        f"  {shown['skill']}, {visible_line(shown['domain'])}, difficulty {shown['difficulty']:.2f}",
        f"  {shown['base']} environment, {observed} observed, at most {shown['max_turns']} turns",
        "tools:",
    ]
    for tool in shown["tools"]:
        arguments = ", ".join(tool["parameters"].get("properties", {}))
        lines.append(visible_line(f"  {tool['name']}({arguments}): {tool['description']}"))
    lines += [f"first observation, seed {shown['seed']}:", _indented(shown["first_observation"])]
    lines += ["hint:", _indented(shown["hint"] or "none written"), f"certificate: {shown['certificate']}{advice}"]
    if "lineage" in shown:
        lines += ["story:", *(f"  {visible_line(line)}" for line in shown["lineage"])]
    if "source" in shown:
        lines += ["source:", shown["source"]]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
