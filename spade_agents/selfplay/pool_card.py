"""The card of a pool: its figures for people (README.md) and for programs (card.json), beside its environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from spade_agents.files import write_whole
from spade_agents.selfplay.pool_figures import PoolFigures
from spade_environments.wording import counted

__all__ = ["card_lines", "write_card"]


def write_card(pool: Path, figures: PoolFigures, facts: Mapping[str, Any]) -> None:
    """Write `card.json` and `README.md`, each whole.

    Args:
        pool: its folder.
        figures: of it.
        facts: what else is known of its making: model, seed, cost.
    """
    row = {"facts": dict(facts), **figures.row()}
    write_whole(pool / "card.json", msgspec.json.format(msgspec.json.encode(row), indent=2) + b"\n")
    write_whole(pool / "README.md", "\n".join(_page(figures, facts)).encode())


def card_lines(figures: PoolFigures) -> Iterator[str]:
    """The figures, one line each."""
    yield f"{counted(figures.environments, 'environment')}, {figures.certified} of them certified"
    yield from _listed("skills", figures.skills)
    yield from _listed("domains", figures.domains)
    yield from _listed("designers", figures.designers)
    yield from _listed("kinds", figures.variants)
    if figures.gold_steps is not None:
        least, middle, most = figures.gold_steps
        yield f"steps of a solution: {least} to {most}, median {middle:g}"
    yield from _attempts(figures)
    yield from _diversity(figures)
    yield from _difficulty(figures)
    yield from (f"ALARM: {alarm}" for alarm in figures.alarms)


def _attempts(figures: PoolFigures) -> Iterator[str]:
    found = figures.attempts
    if found is None:
        return
    yield f"asked for {found['slots']}, filled {found['admitted']} in {counted(found['attempts'], 'attempt')}"
    yield from _listed("attempts by verdict", found["verdicts"])
    yield from _listed("rejected at", found["gates"])
    filled = {f"attempt {number}": count for number, count in enumerate(found["filled_by"], 1) if count}
    yield from _listed("filled by", filled)
    repairs = found["repairs"]
    if repairs["asked"]:
        yield f"repairs: {repairs['asked']} asked, {repairs['mended']} of them filled their slot"
    if figures.tokens is not None:
        yield f"tokens: {figures.tokens[0]} in, {figures.tokens[1]} out"


def _diversity(figures: PoolFigures) -> Iterator[str]:
    found, grounding = figures.diversity, figures.grounding
    if found.designs:
        yield (
            f"diversity of {found.designs}: Vendi / n {found.vendi:.2f}, distinct {found.distinct_share:.2f}, largest "
            f"family {found.largest_family:.2f}, longest run of near-duplicates {found.longest_run}"
        )
    if grounding.grounded is not None and grounding.ungrounded is not None:
        yield (
            f"Vendi / n of {grounding.compared} designs each: {grounding.grounded:.2f} with a document, "
            f"{grounding.ungrounded:.2f} without"
        )


def _difficulty(figures: PoolFigures) -> Iterator[str]:
    found = figures.difficulty
    if found is None:
        return
    regret = "" if found.regret is None else f", regret {found.regret:+.3f}"
    yield f"played: win rate {found.win_rate:.2f}, learnable share {found.learnable:.2f}{regret}"
    yield from _listed("regimes", found.regimes)
    rates = {skill: f"{rate:.2f}" for skill, rate in found.by_skill.items()}
    yield from _listed("win rate by skill", rates)


def _listed(name: str, counts: Mapping[str, object]) -> Iterator[str]:
    if counts:
        yield f"{name}: " + ", ".join(f"{key or 'none'} {value}" for key, value in counts.items())


def _page(figures: PoolFigures, facts: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {figures.name}"
    yield ""
    yield "Training environments for agents, each in a folder: program, spec with hint, certificate, outcomes."
    yield ""
    yield from (f"* {name}: {value}" for name, value in facts.items() if value not in (None, ""))
    yield ""
    yield from (f"* {line}" for line in card_lines(figures))
    yield ""
    yield 'Train on it with `selfplay.pool.type = "static"` and `selfplay.pool.source` at this folder.'
    yield ""
