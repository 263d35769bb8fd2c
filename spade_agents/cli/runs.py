"""What the commands that run self-play share: a free place for a run, and the summary at its end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from spade_agents.cli.output import print_json, tell
from spade_environments.wording import counted

if TYPE_CHECKING:
    from spade_agents.report import Estimate, Evaluation
    from spade_agents.selfplay import RunResult
    from spade_agents.telemetry import ProgressReporter

__all__ = ["STOPPED", "conclude", "free_folder", "watched"]

STOPPED = 130
"""Exit code of a run that Ctrl-C stopped, as shells have it."""


@contextmanager
def watched() -> Iterator[ProgressReporter]:
    """Progress on stderr; what libraries print goes there too, so that standard output holds results alone."""
    from spade_agents.telemetry import open_progress

    with redirect_stdout(sys.stderr), open_progress() as progress:
        yield progress


def free_folder(name: str) -> Path:
    """`runs/NAME`, or the first of `runs/NAME-2`, `runs/NAME-3` … that does not exist."""
    first = Path("runs") / name
    return next(path for n in count(1) if not (path := first if n == 1 else Path(f"{first}-{n}")).exists())


def conclude(result: RunResult, *, as_json: bool) -> None:
    """Write the report and tell what the run brought; ends the command where the run was stopped."""
    from spade_agents.selfplay.reporting import evaluation_of, part_changes, write_report
    from spade_agents.selfplay.run_directory import RunDirectory

    if not result.leads:
        return
    report = write_report(result.path)
    evaluations = [evaluation_of(row) for row in result.evaluations]
    changes = {change.name: change.difference for change in part_changes(RunDirectory(result.path))}
    designs = [row["design"] for row in result.rows if "design" in row]
    if as_json:
        print_json(_for_a_program(result, report, designs))
    else:
        lines = [*held_out_lines(evaluations, changes), *_certified_line(designs), *_alarms(designs)]
        tell("\n".join([*lines, f"report: {report}"]))
    if not result.finished:
        raise typer.Exit(STOPPED)


def held_out_lines(evaluations: Sequence[Evaluation], changes: Mapping[str, Estimate | None]) -> list[str]:
    """Solve rate before and after, of every held-out part, and the paired change, all with 95 % intervals."""
    if not evaluations:
        return []
    first, last = evaluations[0], evaluations[-1]
    lines = ["held-out solve rate (95 % interval)"]
    for name, after in last.parts.items():
        before = first.parts.get(name)
        missing = f", {after.missing} missing" if after.missing else ""
        if before is None or len(evaluations) == 1:
            lines.append(f"  {name}: {_told(after)}, {counted(after.count, 'play')}{missing}")
        else:
            change = f"{after.value - before.value:+.3f} {_interval(changes.get(name), '+.3f')}"
            lines.append(
                f"  {name}: {_told(before)} -> {_told(after)}  {change}, {counted(after.count, 'play')}{missing}"
            )
    return lines


def _certified_line(designs: Sequence[dict[str, Any]]) -> list[str]:
    verdicts: Counter[str] = Counter()
    for design in designs:
        verdicts.update(design["verdicts"])
    decided = verdicts.total() - verdicts["undecided"]
    if not decided:
        return []
    certified = verdicts["certified"] + verdicts["no_hint"]
    return [f"certified share: {certified / decided:.2f} of {decided} design attempts"]


def _alarms(designs: Sequence[dict[str, Any]]) -> list[str]:
    return [f"Alarm: {alarm}" for alarm in (designs[-1].get("alarms", []) if designs else [])]


def _told(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} {_interval(estimate, '.3f')}"


def _interval(estimate: Estimate | None, form: str) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "[not estimable]"
    return f"[{estimate.low:{form}}, {estimate.high:{form}}]"


def _for_a_program(result: RunResult, report: Path, designs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "run": str(result.path),
        "finished": result.finished,
        "rollouts": result.rollouts,
        "report": str(report),
        "evaluations": [{"rollout": row["rollout"], "parts": row["parts"]} for row in result.evaluations],
        "attempts": sum(design["attempts"] for design in designs),
        "alarms": designs[-1].get("alarms", []) if designs else [],
    }
