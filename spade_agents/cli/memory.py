"""`spade memory`: ask a run's memory what its environments were worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spade_agents.cli.output import print_json, tell
from spade_agents.terminal import visible_line

if TYPE_CHECKING:
    from spade_agents.designer.memory import Memory, MemoryRecord

__all__ = ["app"]

app = typer.Typer(help="Ask a run's memory.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Ask a run's memory."""


@app.command("query", epilog="Example: spade memory query runs/demo --skill 'data retrieval' --high 0.8")
def query(
    run: Annotated[Path, typer.Argument(help="A run, or its memory.sqlite.")],
    identity: Annotated[str, typer.Option("--id", help="All records of the environment whose id begins so.")] = "",
    skill: Annotated[str | None, typer.Option(help="Only of this skill.")] = None,
    low: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Least win rate.")] = None,
    high: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="Most win rate.")] = None,
    regret: Annotated[float | None, typer.Option(min=-1.0, max=1.0, help="Least regret.")] = None,
    rollout: Annotated[int | None, typer.Option(min=0, help="Only of sets that were closed at this rollout.")] = None,
    retired: Annotated[
        bool | None, typer.Option("--retired/--in-use", help="Only what is not offered any more, or only the rest.")
    ] = None,
    order: Annotated[str, typer.Option(metavar="regret|win_rate|rollout", help="What comes first.")] = "regret",
    limit: Annotated[int, typer.Option(min=1, help="Environments, at most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, sources included.")] = False,
) -> None:
    """Tell what environments were worth: win rate, regret, both arms, by round.

    Of each environment its latest record; with --id, all of one.
    """
    from contextlib import closing

    from spade_agents.designer.memory import Memory
    from spade_agents.errors import UsageError

    path = run / "memory.sqlite" if run.is_dir() else run
    if not path.is_file():
        raise UsageError(f"there is no memory at {path}; give a run, or its memory.sqlite")
    with closing(Memory.open(path, make=False)) as memory:
        if identity:
            found = [record for record in memory.store.all() if record.environment_id.startswith(identity)]
        else:
            found = memory.query(_asked(skill, low, high, regret, rollout, retired, order, limit))
        if as_json:
            print_json([_row(record, memory) for record in found])
        else:
            tell("\n".join(_line(record, memory) for record in found) or "nothing fits")


def _asked(
    skill: str | None,
    low: float | None,
    high: float | None,
    regret: float | None,
    rollout: int | None,
    retired: bool | None,
    order: str,
    limit: int,
) -> Any:
    from spade_agents.designer.memory import MemoryQuery
    from spade_agents.errors import UsageError
    from spade_environments import Skill

    if skill is not None and skill not in set(Skill):
        raise UsageError(f"there is no skill {skill!r}; wanted one of {', '.join(Skill)}")
    if order not in ("regret", "win_rate", "rollout"):
        raise UsageError(f"--order is {order!r}; wanted regret, win_rate or rollout")
    return MemoryQuery(
        skill=None if skill is None else Skill(skill),
        low=low,
        high=high,
        min_regret=regret,
        rollout=rollout,
        retired=retired,
        order="win_rate" if order == "win_rate" else "rollout" if order == "rollout" else "regret",
        limit=limit,
    )


def _row(record: MemoryRecord, memory: Memory) -> dict[str, Any]:
    import msgspec

    row: dict[str, Any] = msgspec.to_builtins(record)
    gone = memory.retired(record)
    return {**row, "retired": None if gone is None else gone.value}


def _line(record: MemoryRecord, memory: Memory) -> str:
    rate = "  no win rate" if record.win_rate is None else f"win rate {record.win_rate:.2f}"
    worth = "regret unknown" if record.regret is None else f"regret {record.regret:+.3f}"
    gone = memory.retired(record)
    told = f"  ({gone.value})" if gone is not None else ""
    name = visible_line(record.name)
    head = f"{record.environment_id[:12]}  rollout {record.rollout:>4}  {rate}  {worth}"
    return f"{head}  {record.skill.value}  {name}{told}"
