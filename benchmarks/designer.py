"""A model as designer, with and without repair: how many attempts hold a program, load, and pass each gate.

    python benchmarks/designer.py --model smollm2 --attempts 200 --minutes 15
    python benchmarks/designer.py --model nano --quick

Both arms ask for the same slots, skills and documents by the same seeds; a slot has up to five attempts. An arm that
runs out of time ends after the slots in hand, and its counts are over what it did.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt
from spade_agents.selfplay.design_journal import read_slots
from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.selfplay.pool_designer import design_pool
from spade_agents.settings import load_settings
from spade_environments.certificate import Gate, GateStatus

ATTEMPTS = 5


def arm(options: argparse.Namespace, folder: Path, *, repair: bool) -> list[DesignAttempt]:
    """All attempts of an arm."""
    settings = load_settings(
        PoolDesignSettings,
        None,
        [
            f'model="{options.model}"',
            f"seed={options.seed}",
            f"at_once={options.step}",
            f"call.attempts={ATTEMPTS}",
            f"call.repair={str(repair).lower()}",
            f"call.sampling={{max_tokens={options.tokens}, temperature=0.6}}",
            "call.hint_sampling={max_tokens=160, temperature=0.3}",
            *options.settings,
        ],
    )
    ends = time.monotonic() + 60 * options.minutes / 2
    attempts: list[DesignAttempt] = []
    slots = 0
    while len(attempts) < options.attempts and time.monotonic() < ends:
        slots += options.step
        design_pool(settings.model_copy(update={"slots": slots}), folder)
        attempts = [attempt for found in read_slots(folder) for attempt in found.outcome.attempts]
        print(f"repair {repair}: {len(attempts)} attempts", flush=True)
    return attempts[: options.attempts]


def counts(attempts: list[DesignAttempt]) -> dict[str, Any]:
    """Attempts that got so far: with a program, past each gate, admitted; and what ended the others."""
    passed: Counter[str] = Counter()
    for attempt in attempts:
        for gate in attempt.certificate.gates if attempt.certificate else ():
            passed[gate.gate.value] += gate.status is GateStatus.PASSED
    verdicts = Counter(attempt.verdict.value for attempt in attempts)
    return {
        "attempts": len(attempts),
        "repaired": sum(attempt.repaired for attempt in attempts),
        "program": sum(attempt.certificate is not None for attempt in attempts),
        **{gate.value: passed[gate.value] for gate in tuple(Gate)[:9]},
        "certified": verdicts[AttemptVerdict.CERTIFIED] + verdicts[AttemptVerdict.NO_HINT],
        "admitted": verdicts[AttemptVerdict.CERTIFIED],
        "ended_at": dict(Counter(attempt.told for attempt in attempts).most_common()),
        "tokens_out": sum(attempt.completion.usage.completion_tokens for attempt in attempts),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--attempts", type=int, default=200, help="of each arm, at most")
    parser.add_argument("--minutes", type=float, default=15.0, help="of both arms together, about")
    parser.add_argument("--tokens", type=int, default=700, help="of an answer, at most")
    parser.add_argument("--step", type=int, default=4, help="slots at a time; an arm ends between two such steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="8 attempts of each arm")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.quick:
        options.attempts = 8
    folder = Path(tempfile.mkdtemp(prefix="spade-designer-"))
    try:
        arms = {name: counts(arm(options, folder / name, repair=name == "repair")) for name in ("repair", "no_repair")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = [key for key in arms["repair"] if key != "ended_at"]
    print(f"\n{'':<12} {'repair':>8} {'without':>8}")
    for key in rows:
        print(f"{key:<12} {arms['repair'][key]:>8} {arms['no_repair'][key]:>8}")
    print(json.dumps({"model": options.model, **arms}))


if __name__ == "__main__":
    main()
