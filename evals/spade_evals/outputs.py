"""What machines and pull requests read of a comparison: JUnit XML, GitHub annotations, Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from spade_environments.wording import counted
from spade_evals.compare import Comparison, GateSettings, Verdict

__all__ = ["Judged", "github_lines", "junit_xml", "markdown"]

Judged = tuple[Comparison, Verdict]
"""A comparison and what the gate says of it."""

_STATES = {0: "pass", 1: "REGRESSION", 3: "not decidable"}
_FLIPS_SHOWN = 20
_UNFIT_FOR_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit_xml(judged: Sequence[Judged]) -> str:
    """One test case a suite: a regression is a failure, what is not decidable an error."""
    failures = sum(verdict.exit_code == 1 for _, verdict in judged)
    errors = sum(verdict.exit_code == 3 for _, verdict in judged)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuite name="spade-eval compare" tests="{len(judged)}" failures="{failures}" errors="{errors}">',
    ]
    for comparison, verdict in judged:
        name, reason = _attribute(comparison.suite), _attribute(verdict.reason)
        lines.append(f'  <testcase classname="spade-eval" name={name}>')
        if verdict.exit_code == 1:
            lines.append(f"    <failure message={reason}>{_text(_flip_text(comparison))}</failure>")
        elif verdict.exit_code == 3:
            lines.append(f"    <error message={reason}/>")
        else:
            lines.append(f"    <system-out>{_text(verdict.reason)}</system-out>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def github_lines(judged: Sequence[Judged]) -> list[str]:
    """Workflow commands: an error for a regression, a warning for what is not decidable, a notice for a pass."""
    kinds = {0: "notice", 1: "error", 3: "warning"}
    return [
        f"::{kinds[verdict.exit_code]} title={_property(f'spade-eval {comparison.suite}')}::{_command(verdict.reason)}"
        for comparison, verdict in judged
    ]


def markdown(judged: Sequence[Judged], gate: GateSettings) -> str:
    """A summary for a pull request or `$GITHUB_STEP_SUMMARY`."""
    lines = [
        "### spade-eval",
        "",
        "| suite | base | candidate | difference (95 %) | lost / gained | p | smallest visible drop | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_markdown_row(comparison, verdict) for comparison, verdict in judged]
    for comparison, verdict in judged:
        lines += ["", f"**{_cell(comparison.suite)}**: {_cell(verdict.reason)}"]
        if len(comparison.columns) > 1:
            lines += ["", "| column | pairs | base | candidate | lost / gained |", "|---|---|---|---|---|"]
            lines += [
                f"| {_cell(name)} | {c.pairs} | {c.before:.4f} | {c.after:.4f} | {c.lost} / {c.gained} |"
                for name, c in comparison.columns.items()
            ]
        lines += ["", f"Note: {_cell(comparison.note)}"] if comparison.note else []
        lines += _markdown_flips(comparison)
    return (
        "\n".join([*lines, "", f"At most a drop of {gate.max_drop:g} is let pass, at a level of {gate.alpha:g}."])
        + "\n"
    )


def _markdown_row(comparison: Comparison, verdict: Verdict) -> str:
    difference = comparison.difference
    told = "–" if difference is None else f"{difference.estimate:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
    smallest = "–" if comparison.smallest is None else f"{comparison.smallest:.3f}"
    cells = (
        _cell(comparison.suite),
        _mean(comparison.before),
        _mean(comparison.after),
        told,
        f"{comparison.paired.lost} / {comparison.paired.gained}",
        f"{comparison.paired.p_value:.4f}",
        smallest,
        _STATES[verdict.exit_code],
    )
    return f"| {' | '.join(cells)} |"


def _markdown_flips(comparison: Comparison) -> list[str]:
    lost = [flip for flip in comparison.flips if flip.after < flip.before]
    if not lost:
        return []
    shown = [
        f"- `{_cell(flip.id).replace('`', '')}` epoch {flip.epoch}: {flip.before:g} → {flip.after:g}" for flip in lost
    ]
    more = [f"- and {len(lost) - _FLIPS_SHOWN} more"] if len(lost) > _FLIPS_SHOWN else []
    return [
        "",
        f"<details><summary>{counted(len(lost), 'sample')} lost</summary>",
        "",
        *shown[:_FLIPS_SHOWN],
        *more,
        "",
        "</details>",
    ]


def _flip_text(comparison: Comparison) -> str:
    return "\n".join(f"{f.id} epoch {f.epoch}: {f.before:g} -> {f.after:g}" for f in comparison.flips[:_FLIPS_SHOWN])


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _cell(text: str) -> str:
    return escape(text).replace("|", "\\|").replace("\n", " ")


def _text(text: str) -> str:
    return escape(_UNFIT_FOR_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_UNFIT_FOR_XML.sub("\ufffd", text))


def _command(text: str) -> str:
    """Escaped as workflow commands want it, so that no text can begin a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")
