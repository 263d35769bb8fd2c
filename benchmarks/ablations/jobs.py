"""Jobs that are done once: each in a process of its own, its result kept under its key, so that a restart goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablations.arms import ARMS, FIXED, POOL, Size, job_key
from spade_agents.files import write_whole

__all__ = ["Clock", "Job", "Plan", "finish_all"]

STOP_SECONDS = 120.0
"""How long a run that was asked to stop may take for the rollout in hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process: the start weights' plays, a run with its figures, a pool, or the designs of a pair of runs.

    Attributes:
        kind: `start`, `run`, `pool` or `pair`.
        name: for people, such as `SPADE-0`.
        path: its folder, which bears the key.
        facts: what the process needs to know, as JSON.
    """

    kind: str
    name: str
    path: Path
    facts: dict[str, Any]

    @property
    def result(self) -> dict[str, Any] | None:
        """What it brought, once it is finished; `None` before."""
        file = self.path / "result.json"
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def keep(self, result: dict[str, Any]) -> None:
        """Mark the job as finished."""
        write_whole(self.path / "result.json", (json.dumps(result) + "\n").encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where every job of an experiment lies, by the settings that decide it.

    Attributes:
        out: the folder of all of them.
        config: the configuration that the arms change.
        size: how large the runs are.
        start: the start checkpoint, and `weights` the sum of its files.
        overrides: of a caller, after everything else.
    """

    out: Path
    config: Path
    size: Size
    start: str
    weights: str
    overrides: tuple[str, ...] = ()

    def before(self) -> Job:
        """The start weights on the held-out plays."""
        key = job_key(self.config, self.overrides, self.weights, "held-out", self.size.held_out)
        return self._job("start", "start", self.overrides, key, held_out=self.size.held_out)

    def pool(self, seed: int) -> Job:
        """The fixed pool of a seed."""
        overrides = self._overrides(seed, self.size.pool)
        return self._job("pool", f"{POOL}-{seed}", overrides, job_key(self.config, overrides, self.weights))

    def run(self, arm: str, seed: int) -> Job:
        """One arm with one seed; where it draws from a pool, the pool's key is part of its own."""
        changes = ARMS[arm].overrides
        if arm in FIXED:
            changes = (*changes, f"selfplay.pool.source={self.pool(seed).path.name}")
        overrides = self._overrides(seed, changes)
        key = job_key(self.config, overrides, self.weights, "held-out", self.size.held_out)
        name = f"{arm.replace(' ', '_')}-{seed}"
        if arm in FIXED:
            overrides = (*overrides, f"selfplay.pool.source={self.pool(seed).path / 'run' / 'environments'}")
        return self._job("run", name, overrides, key, held_out=self.size.held_out)

    def pair(self, seed: int) -> Job:
        """The designs of SPADE and of the frozen designer on a seed, both played by both agents."""
        runs = [self.run(arm, seed) for arm in ("SPADE", "frozen designer")]
        overrides = self._overrides(seed, ())
        counts = {"designs": self.size.designs, "plays": self.size.plays}
        key = job_key(self.config, overrides, self.weights, *(run.path.name for run in runs), counts)
        folders = {"spade": str(runs[0].path), "frozen": str(runs[1].path)}
        return self._job("pair", f"pair-{seed}", overrides, key, **folders, **counts)

    def _overrides(self, seed: int, changes: Sequence[str]) -> tuple[str, ...]:
        return (*self.size.runs, *changes, f"run.seed={seed}", *self.overrides)

    def _job(self, kind: str, name: str, overrides: Sequence[str], key: str, **facts: Any) -> Job:
        known = {"kind": kind, "config": str(self.config), "overrides": list(overrides), "start": self.start, **facts}
        return Job(kind=kind, name=name, path=self.out / f"{name}-{key}", facts=known)


@dataclass(slots=True)
class Clock:
    """How much time an experiment may take; what is not finished then goes on in the next call."""

    minutes: float
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.started + 60 * self.minutes - time.monotonic()

    def stop(self) -> None:
        """Let time be up."""
        self.minutes = 0.0


def finish_all(chains: Sequence[Sequence[Job]], *, script: Path, jobs: int, clock: Clock) -> None:
    """Bring every job to its end, `jobs` chains at a time; the jobs of a chain one after another.

    Jobs that are finished are not done again; a chain ends early where one of its jobs fails or time is up.

    Raises:
        SystemExit: a job failed; the others were brought to their end first.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            failed = [name for name in pool.map(lambda chain: _finish(chain, script, clock), chains) if name]
        except BaseException:  # Ctrl-C: what has not begun stays for the next call
            clock.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        raise SystemExit(f"failed, see its log: {', '.join(failed)}")


def _finish(chain: Sequence[Job], script: Path, clock: Clock) -> str:
    """The log of the job that failed, or nothing."""
    for job in chain:
        if job.result is not None:
            continue
        if clock.left <= 0:
            return ""
        job.path.mkdir(parents=True, exist_ok=True)
        log = job.path / "log.txt"
        try:
            code = _run(job, script, log, clock)
        except BaseException:
            clock.stop()
            raise
        if job.result is None:
            return "" if clock.left <= 0 else f"{log} (exit {code})"
    return ""


def _run(job: Job, script: Path, log: Path, clock: Clock) -> int:
    """Run a job's process; when time is up it is asked to stop, which a run does after the rollout in hand."""
    (job.path / "job.json").write_text(json.dumps(job.facts, indent=2) + "\n", encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    started = time.monotonic()
    with log.open("a") as file:
        process = subprocess.Popen(
            [sys.executable, str(script), "--child", str(job.path)], env=environment, stdout=file, stderr=file
        )
        try:
            code = process.wait(timeout=max(clock.left, 1.0))
        except subprocess.TimeoutExpired:
            code = _stopped(process)
        except BaseException:
            _stopped(process)
            raise
    print(f"{job.name}: exit {code} after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return code


def _stopped(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
