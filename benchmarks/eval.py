"""How fast logs are written, read, graded again and compared, and BFCL against its own command line.

Samples a second, start-up apart; the replay of BFCL's multi-turn entries in seconds, start-up included.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bfcl import bfcl_rates

from spade_evals.compare import GateSettings, compare_logs, load_log
from spade_evals.log import EvalLog
from spade_evals.rescoring import rescore_log
from spade_evals.runner import RunOptions, make_header, narrowed
from spade_evals.suites import SuiteOptions, open_suite
from spade_evals.types import ModelFacts, Sample, SampleOutcome


def write_questions(folder: Path, count: int) -> None:
    """A file in GPQA's form."""
    with (folder / "gpqa_diamond.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {k}" for k in (1, 2, 3))])
        rows.writerows([f"q{k}", f"Question {k}?", "right", "a", "b", "c"] for k in range(count))


def write_log(folder: Path, data: Path, epochs: int, seed: int) -> tuple[EvalLog, float]:
    """A log of random letters, and the seconds that writing its samples took."""
    suite = open_suite("reasoning:gpqa_diamond", SuiteOptions(data=data))
    suite.columns = {name: narrowed(one, RunOptions(n=epochs)) for name, one in suite.columns.items()}
    loaded = suite.load(list(suite.columns))
    header = make_header(
        suite, loaded, loaded.tasks, model=ModelFacts(target="x"), user_model=None, seed=0, options=RunOptions(n=epochs)
    )
    source = random.Random(seed)
    blank = Sample(id="", epoch=0, attempt=0, column="gpqa_diamond", outcome=SampleOutcome.SCORED, score=0.0)
    samples = [
        replace(blank, id=task.id, epoch=epoch, response=f"Thinking. \\boxed{{{source.choice('ABCD')}}}")
        for task in loaded.tasks
        for epoch in range(epochs)
    ]
    log = EvalLog.create(folder, header)
    started = time.perf_counter()
    with log.writing() as writer:
        for sample in samples:
            writer.append(sample)
    return log, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, and of the replay")
    quick = parser.parse_args().quick
    epochs = 10 if quick else 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_questions(folder, 198)
        log, writing = write_log(folder / "a", folder, epochs, 1)
        other, _ = write_log(folder / "b", folder, epochs, 2)
        count = 198 * epochs
        started = time.perf_counter()
        log.samples()
        reading = time.perf_counter() - started
        rescored = asyncio.run(rescore_log(log, data=folder))
        asyncio.run(rescore_log(other, data=folder))
        started = time.perf_counter()
        compare_logs(load_log(log), load_log(other), gate=GateSettings(max_drop=0.02))
        comparing = time.perf_counter() - started
    rates: dict[str, float] = {
        "written": count / writing,
        "read": count / reading,
        "multiple choice graded again": rescored.graded / rescored.seconds,
        "compared": count / comparing,
    }
    rates |= bfcl_rates(quick=quick)
    for name, rate in rates.items():
        print(f"{name:<36}{rate:>12,.2f}{'' if name.startswith(('seconds', 'ratio')) else ' samples/s'}")
    print(json.dumps({name.replace(" ", "_"): round(rate, 2) for name, rate in rates.items()}))


if __name__ == "__main__":
    main()
