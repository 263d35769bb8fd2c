"""The run directory: made whole or not at all, and the places of everything in it."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import msgspec
import zstandard

from spade_agents.designer.attempts import DesignOutcome
from spade_agents.errors import UsageError
from spade_agents.files import write_whole
from spade_agents.rollout import EvalSummary
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings, to_toml
from spade_agents.telemetry import MetricsLog
from spade_agents.trajectory import Trajectory
from spade_environments.sandbox.probe import Attempt

__all__ = ["RunDirectory", "draft_of", "manifest", "refuse_existing"]

_ROLLOUT = re.compile(r"rollout-([0-9]+)(\.designs)?\.jsonl\.zst")
_PACKAGES = ("spade-agents", "torch", "transformers", "deepspeed", "numpy", "pydantic", "msgspec")


class RunDirectory:
    """Paths and append-only records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics = MetricsLog(path / "metrics.jsonl")

    @classmethod
    def create(cls, path: Path, settings: RunSettings, sandbox_level: str, attempts: Sequence[Attempt] = ()) -> Self:
        """Make a new run directory with its configuration and manifest, in one rename.

        Args:
            path: must not exist.
            settings: of the run.
            sandbox_level: at which it starts.
            attempts: what the sandbox was seen to stop or not.

        Raises:
            UsageError: there is something at `path` already.
        """
        refuse_existing(path)
        draft = draft_of(path)
        shutil.rmtree(draft, ignore_errors=True)
        try:
            for folder in ("environments", "trajectories", "evaluations", "checkpoints"):
                (draft / folder).mkdir(parents=True)
            (draft / "config.toml").write_text(to_toml(settings), encoding="utf-8")
            facts = {**manifest(sandbox_level), "sandbox_attempts": _attempts(attempts)}
            (draft / "manifest.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            (draft / "metrics.jsonl").touch()
            draft.rename(path)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise UsageError(f"the run directory {path} cannot be made: {error.strerror}") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run.

        Raises:
            UsageError: `path` holds no run.
        """
        if not (path / "config.toml").is_file():
            raise UsageError(f"{path} is no run directory: it has no config.toml; give the folder that a run wrote")
        return cls(path)

    @property
    def manifest(self) -> dict[str, Any]:
        """Where and with what the run was made.

        Raises:
            UsageError: it cannot be read.
        """
        path = self.path / "manifest.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} cannot be read: {error}; give the whole folder that a run wrote") from error
        if not isinstance(found, dict):
            raise UsageError(f"{path} holds no JSON object; give the whole folder that a run wrote")
        return found

    def note_resumed(self, sandbox_level: str, attempts: Sequence[Attempt] = ()) -> None:
        """Enter in the manifest that the run goes on, and with what: it may be another machine.

        Raises:
            UsageError: the manifest cannot be read.
        """
        facts = self.manifest
        again = {**manifest(sandbox_level), "sandbox_attempts": _attempts(attempts)}
        facts["resumed"] = [*facts.get("resumed", []), again]
        write_whole(self.path / "manifest.json", (json.dumps(facts, indent=2) + "\n").encode())

    @property
    def settings(self) -> RunSettings:
        """The resolved configuration.

        Raises:
            ConfigurationError: it was changed to something that does not fit.
        """
        return load_settings(RunSettings, self.path / "config.toml")

    def change_settings(self, settings: RunSettings) -> None:
        """Go on under other settings; see `preflight.MAY_CHANGE`."""
        write_whole(self.path / "config.toml", to_toml(settings).encode())

    @property
    def environments(self) -> Path:
        """The pool."""
        return self.path / "environments"

    @property
    def checkpoints(self) -> Path:
        """One folder `step-N` for each checkpoint."""
        return self.path / "checkpoints"

    @property
    def memory(self) -> Path:
        """The designer's memory, an SQLite file."""
        return self.path / "memory.sqlite"

    def write_trajectories(self, rollout: int, plays: Iterable[Trajectory]) -> None:
        """Keep all plays of a rollout, both arms, as one compressed file of JSON lines."""
        lines = b"".join(msgspec.json.encode(play) + b"\n" for play in plays)
        write_whole(self._trajectories(rollout), zstandard.compress(lines))

    def write_designs(self, rollout: int, outcomes: Iterable[DesignOutcome]) -> None:
        """Keep every slot of a regeneration with all its attempts."""
        lines = b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes)
        write_whole(self.path / "trajectories" / f"rollout-{rollout:06d}.designs.jsonl.zst", zstandard.compress(lines))

    def write_evaluation(self, rollout: int, summary: EvalSummary) -> None:
        """Keep an evaluation with the return of every single play, for paired comparisons."""
        write_whole(self.path / "evaluations" / f"rollout-{rollout:06d}.json", msgspec.json.encode(summary))

    def read_evaluation(self, rollout: int) -> EvalSummary:
        """The evaluation after so many rollouts.

        Raises:
            UsageError: it cannot be read.
        """
        path = self.path / "evaluations" / f"rollout-{rollout:06d}.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=EvalSummary)
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}; the run is damaged") from error

    def read_trajectories(self, rollout: int) -> Iterator[Trajectory]:
        """The plays of a rollout, in the order they were written; none where the rollout was not played.

        Raises:
            UsageError: they cannot be read.
        """
        path = self._trajectories(rollout)
        if not path.exists():
            return
        try:
            for line in zstandard.decompress(path.read_bytes()).splitlines():
                yield msgspec.json.decode(line, type=Trajectory)
        except (OSError, zstandard.ZstdError, msgspec.DecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}; the run is damaged") from error

    def truncate(self, *, rollout: int, metrics_rows: int, designs: int | None = None) -> None:
        """Forget what was recorded after a checkpoint: metrics rows beyond it, plays and designs of later rollouts.

        Args:
            rollout: the first whose plays go.
            metrics_rows: how many stay.
            designs: the first rollout whose designs go, where that is another one.

        Raises:
            UsageError: rows from before it are missing or damaged.
        """
        found = len(self.metrics.rows())
        if found < metrics_rows:
            raise UsageError(
                f"{self.metrics.path} holds {found} whole rows and wanted {metrics_rows}, as many as the checkpoint "
                "counts: the file was cut; put a whole copy back, or remove the checkpoint to go on from an earlier one"
            )
        self.metrics.truncate(metrics_rows)
        for path in (self.path / "trajectories").iterdir():
            named = _ROLLOUT.fullmatch(path.name)
            first = rollout if designs is None or not named or named[2] is None else designs
            if named and int(named[1]) >= first:
                path.unlink()
        for folder in (self.path, self.path / "trajectories", self.path / "evaluations", self.environments):
            for draft in folder.glob(".*.draft"):
                draft.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the run to this process; the system lets go of it however the process ends.

        Raises:
            UsageError: another process is at work on the run.
        """
        with (self.path / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise UsageError(
                    f"another process ({file.read(80).strip() or 'unknown'}) is at work on the run {self.path}; wait "
                    "until it ends, or stop it by Ctrl-C there"
                ) from error
            except OSError as error:
                raise UsageError(
                    f"the run {self.path} cannot be kept to one process: {error.strerror}; move it to a local disk"
                ) from error
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
            yield

    def _trajectories(self, rollout: int) -> Path:
        return self.path / "trajectories" / f"rollout-{rollout:06d}.jsonl.zst"


def draft_of(path: Path) -> Path:
    """Where a run directory is made before it bears its name."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def refuse_existing(path: Path) -> None:
    """Nothing is ever written over.

    Raises:
        UsageError: there is something at `path`.
    """
    if path.exists():
        raise UsageError(f"{path} exists already; give another --out, or go on with it by: spade train --resume {path}")


def manifest(sandbox_level: str) -> Mapping[str, Any]:
    """Where and with what a run is made."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "git_commit": _git("rev-parse", "HEAD"),
        "git_clean": _git("status", "--porcelain") == "",
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "sandbox_level": sandbox_level,
        "hardware": {"machine": platform.machine(), "system": platform.platform(), "cpus": os.cpu_count()},
    }


def _attempts(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(attempt) for attempt in attempts]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """What git says of the code that runs, or `None` where it is no clone (an installed wheel) or there is no git."""
    git = shutil.which("git")
    if git is None or not (Path(__file__).parents[2] / ".git").exists():
        return None
    done = subprocess.run(
        [git, *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False, timeout=20
    )
    return done.stdout.strip() if done.returncode == 0 else None
