"""A run's values as a report shows them, with hostile text wherever an environment or an agent writes."""

from __future__ import annotations

from spade_agents.report import (
    DesignDiversity,
    DesignEnd,
    Designs,
    EnvironmentEntry,
    Estimate,
    Evaluation,
    Featured,
    GateLine,
    Line,
    PartChange,
    Play,
    ReportData,
    RolloutRow,
)

HOSTILE = "<script>alert('x')</script>\"'&</pre></style>"

SOURCE = f'''"""Tidy a shelf. {HOSTILE}"""

from spade_environments import TextEnv


class TidyShelf(TextEnv):
    """Sort a row of letters."""

    N_LETTERS = 6  # a difficulty parameter

    def reset(self, seed):
        return "The row is B A C.", {{}}
'''


def entry(number: int) -> EnvironmentEntry:
    win_rate, regret = (number * 37 % 21) / 20, ((number * 53 % 19) - 6) / 20
    regime = "mastered" if win_rate > 0.9 else "frontier" if regret > 0 else "misled" if regret < 0 else "intractable"
    skills = ("state modification", "data retrieval", "error recovery", "tool selection")
    return EnvironmentEntry(
        id=f"{number:064x}",
        name=f"{('stock_room', 'night_desk', 'tidy_shelf', 'parcel_run')[number % 4]}_{number}",
        skill=skills[number % 4],
        domain="retail",
        rollout=number // 4,
        win_rate=win_rate,
        regret=regret,
        regime=regime,
        gold_steps=(2, 4),
    )


def row(rollout: int) -> RolloutRow:
    up = rollout / 24
    return RolloutRow(
        rollout=rollout,
        certified=Estimate(value=0.5 + 0.3 * up, low=0.4 + 0.3 * up, high=0.6 + 0.3 * up, count=40),
        regret_raw=Estimate(value=0.12 - 0.1 * up, low=0.02 - 0.1 * up, high=0.22 - 0.1 * up),
        regret_floored=Estimate(value=0.16 - 0.06 * up),
        win_rate=Estimate(value=0.35 + 0.2 * up, low=0.3 + 0.2 * up, high=0.4 + 0.2 * up),
        hinted_win_rate=Estimate(value=0.47 + 0.12 * up, low=0.42 + 0.12 * up, high=0.52 + 0.12 * up),
        learnable=Estimate(value=0.4 + 0.2 * up),
        distinct=0.9 - 0.1 * up,
        vendi=0.6 - 0.05 * up,
        rejected_by={"lint": 3, "gold": max(0, 12 - rollout // 2), "floor": 2, "novelty": rollout // 3},
        regimes={"frontier": 5, "mastered": rollout // 8, "misled": 1, "intractable": max(0, 3 - rollout // 8)},
        outcomes={"scored": 90, "agent error": 4, "environment fault": rollout % 3},
        losses={"policy": 0.02 - 0.03 * up, "replay": 0.3 - 0.01 * up},
        surprise=0.4 - 0.1 * up,
    )


def play(hinted: bool) -> Play:
    hint = (Line(speaker="hint", text=f"Count first. {HOSTILE}"),) if hinted else ()
    return Play(
        hinted=hinted,
        seed=7,
        outcome="scored",
        reward=1.0 if hinted else 0.0,
        lines=(
            Line(speaker="user", text="How many lamps do we have?"),
            *hint,
            Line(speaker="call", text='count_item(item="lamps")' if hinted else f"count_item({HOSTILE})"),
            Line(speaker="tool" if hinted else "error", text="42" if hinted else "Error: unknown item"),
            Line(speaker="agent", text="42" if hinted else "I do not know."),
        ),
    )


def example() -> ReportData:
    """24 rollouts, 40 environments, two of them in full."""
    entries = tuple(entry(number) for number in range(40))
    known = (0.41, 0.48, 0.55, 0.62)
    unseen = (0.22, 0.25, 0.24, 0.27)
    return ReportData(
        title=f"demo {HOSTILE}",
        facts=(("model", "nano"), ("seed", "0"), ("sandbox", "process"), ("started", "2026-11-29 14:02")),
        evaluations=tuple(
            Evaluation(
                rollout=i * 8,
                parts={
                    "known families": Estimate(value=a, low=a - 0.05, high=a + 0.05, count=400),
                    "never-seen families": Estimate(value=b, low=b - 0.04, high=b + 0.04, count=400, missing=2),
                },
            )
            for i, (a, b) in enumerate(zip(known, unseen, strict=True))
        ),
        changes=(
            PartChange(
                name="known families",
                difference=Estimate(value=0.21, low=0.13, high=0.29, count=400),
                skills=(("state modification", 0.45, 0.68), (f"data retrieval {HOSTILE}", 0.4, 0.39)),
            ),
        ),
        rollouts=tuple(row(rollout) for rollout in range(25)),
        designs=Designs(
            slots=24,
            admitted=20,
            ends=(DesignEnd(name="certified", attempts=20), DesignEnd(name=f"rejected: {HOSTILE}", attempts=12)),
            diversity=(
                DesignDiversity(
                    name="newest", programs=20, vendi=0.5, longest_run=3, distinct=0.9, largest_family=0.25
                ),
                DesignDiversity(name="the pool", programs=40, vendi=0.4),
            ),
        ),
        environments=entries,
        featured=tuple(
            Featured(
                entry=entries[number],
                source=SOURCE,
                hint=f"Count before you answer. {HOSTILE}",
                gates=(GateLine(name="lint", status="passed", evidence=f"17 lines {HOSTILE}"),),
                plays=(play(False), play(True)),
            )
            for number in (3, 8)
        ),
        band=(0.4, 0.6),
        alarms=("one family holds 75% of 64 designs; wanted at most 50%",),
        configuration='[run]\nname = "demo"\n',
    )
