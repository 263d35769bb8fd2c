"""`spade-eval compare` and `noise`: is it worse, and could one have seen it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade_evals.cli.options import (
    BackendOption,
    DataOption,
    LimitOption,
    MaxTokensOption,
    NOption,
    ResumeOption,
    VllmPythonOption,
    vllm_settings,
)

if TYPE_CHECKING:
    from spade_evals.compare import Comparison, GateSettings
    from spade_evals.outputs import Judged

__all__ = ["compare", "noise"]


def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="The log to hold against, or a folder of logs.")],
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE", help="The log that is asked about.")],
    max_drop: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Gate: the fall of the mean that is let pass, such as 0.02.")
    ] = None,
    visible_drop: Annotated[
        float, typer.Option(min=0.001, max=1.0, help="The true drop that must be seen with 80 % power.")
    ] = 0.05,
    column: Annotated[list[str] | None, typer.Option(help="Only this column; may be given again.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Append a Markdown summary here.")] = None,
    github: Annotated[bool, typer.Option("--github", help="Print annotations for GitHub Actions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")] = False,
) -> None:
    """Compare two logs, paired by sample; with --max-drop, gate on it.

    Exit code with --max-drop: 3 first, where the two are not comparable (data, grading, ids, coverage, infrastructure
    errors); 1 where the drop is larger and the exact one-sided McNemar test says p < 0.05; 3 where too few pairs could
    have shown a drop of 5 points; else 0. Without --max-drop: 3 where they are not comparable, else 0.
    """
    from spade_agents.cli.failures import worst
    from spade_agents.terminal import visible
    from spade_evals.compare import GateSettings, Verdict
    from spade_evals.outputs import github_lines
    from spade_evals.outputs import markdown as summary

    gate = GateSettings(max_drop=max_drop or 0.0, visible_drop=visible_drop)
    found = _pairs(base, candidate, gate, column)
    judged: list[Judged] = [(one, one.verdict(gate)) for one in found]
    if max_drop is None:
        judged = [(one, verdict if one.obstacles else Verdict(0, "compared without a gate")) for one, verdict in judged]
    typer.echo(_json(judged) if as_json else visible("\n".join(line for pair in judged for line in _lines(*pair))))
    if github:
        typer.echo("\n".join(github_lines(judged)))
    _write_files(judged, gate, junit, markdown, summary(judged, gate))
    raise typer.Exit(worst([verdict.exit_code for _, verdict in judged]))


def noise(
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG]...", help="Logs of one model, in place of runs.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="As for run.")] = None,
    suite: Annotated[str | None, typer.Option(help="As for run.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the logs of the runs.")] = None,
    runs: Annotated[int, typer.Option(min=2, help="How often to run.")] = 3,
    limit: LimitOption = None,
    n: NOption = None,
    max_tokens: MaxTokensOption = None,
    backend: BackendOption = "auto",
    vllm_python: VllmPythonOption = "",
    data: DataOption = None,
    resume: ResumeOption = False,
) -> None:
    """Tell the smallest difference that means anything.

    Runs a model several times on the same tasks.
    Takes logs that were made with run --draw 0, 1, 2 ... as well.
    """
    from spade_agents.errors import UsageError
    from spade_agents.policy.open import backend_named
    from spade_evals.cli.stopping import run_to_end
    from spade_evals.evaluate import RunRequest, evaluate
    from spade_evals.log import find_logs
    from spade_evals.noise import noise_lines
    from spade_evals.runner import RunOptions

    found = [log for path in logs or () for log in find_logs(path)]
    if not found:
        if model is None or suite is None or out is None:
            raise UsageError("noise wants logs, or --model, --suite and --out to make them")
        options = RunOptions(limit=limit, n=n, max_tokens=max_tokens)
        for draw in range(runs):
            request = RunRequest(
                model=model,
                suites=(suite,),
                out=out / f"draw-{draw}",
                options=options,
                backend=backend_named(backend),
                vllm=vllm_settings(vllm_python),
                data=data,
                draw=draw,
                resume=resume,
            )
            found += [finished.log for finished in run_to_end(evaluate(request))]
    if len(found) < 2:
        raise UsageError("found one log; noise wants at least two runs of one model, made with different --draw")
    typer.echo("\n".join(noise_lines(found)))


def _pairs(base: Path, candidate: Path, gate: GateSettings, columns: list[str] | None) -> list[Comparison]:
    """Logs of the two sides by suite.

    Raises:
        UsageError: the sides hold different suites, or no such column.
    """
    from spade_agents.errors import UsageError
    from spade_evals.compare import compare_logs, load_log
    from spade_evals.log import find_logs

    ours, theirs = find_logs(base), find_logs(candidate)
    if len(ours) == 1 and len(theirs) == 1:
        pairs = [(ours[0], theirs[0])]
    else:
        by_name = {log.header().suite: log for log in theirs}
        pairs = [(log, by_name[log.header().suite]) for log in ours if log.header().suite in by_name]
        absent = [log.header().suite for log in ours if log.header().suite not in by_name]
        if absent:
            raise UsageError(f"{candidate} holds no log of {absent[0]}, which {base} has; run it too")
    for log, _ in pairs if columns else ():
        unknown = sorted(set(columns or ()) - set(log.header().asked))
        if unknown:
            raise UsageError(f"{log.path} has no column {unknown[0]!r}; it has: {', '.join(log.header().asked)}")
    return [compare_logs(load_log(a), load_log(b), gate=gate, columns=columns) for a, b in pairs]


def _write_files(
    judged: list[Judged], gate: GateSettings, junit: Path | None, markdown: Path | None, text: str
) -> None:
    from spade_agents.files import write_whole
    from spade_evals.outputs import junit_xml

    if junit is not None:
        write_whole(junit, junit_xml(judged).encode())
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write(text)


def _lines(comparison: Comparison, verdict: tuple[int, str]) -> list[str]:
    lines = [comparison.suite, *(f"  not comparable: {obstacle}" for obstacle in comparison.obstacles)]
    if comparison.before is not None and comparison.after is not None:
        interval = comparison.difference
        told = "" if interval is None else f" [{interval.low:+.4f}, {interval.high:+.4f}]"
        lines.append(
            f"  {comparison.before:.4f} -> {comparison.after:.4f}: {comparison.after - comparison.before:+.4f}{told}, "
            f"{comparison.paired.pairs} pairs, {comparison.paired.lost} lost, {comparison.paired.gained} gained"
            + (f", {comparison.left_out} without a score left out" if comparison.left_out else "")
        )
        smallest = "none" if comparison.smallest is None else f"{comparison.smallest:.3f}"
        lines.append(
            f"  {comparison.paired.test}, one-sided p = {comparison.paired.p_value:.4f}; "
            f"smallest drop seen with 80 %: {smallest}"
        )
    lines += [f"  note: {comparison.note}"] if comparison.note else []
    for name, change in comparison.columns.items() if len(comparison.columns) > 1 else ():
        lines.append(
            f"    {name}: {change.before:.4f} -> {change.after:.4f}, {change.pairs} pairs, "
            f"{change.lost} lost, {change.gained} gained"
        )
    told = "not comparable, as said above" if comparison.obstacles else verdict[1]
    return [*lines, f"  exit {verdict[0]}: {told}"]


def _json(judged: list[Judged]) -> str:
    import json

    import msgspec

    rows = [
        {**msgspec.to_builtins(comparison), "exit_code": verdict.exit_code, "reason": verdict.reason}
        for comparison, verdict in judged
    ]
    return json.dumps(rows, indent=2)
