"""EvalLog: a directory with `eval.json`, an append-only `samples.jsonl`, and a summary derived from the two."""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import msgspec

from spade_agents.errors import UsageError
from spade_agents.files import write_whole
from spade_evals.types import LOG_FORMAT, LogHeader, Sample, SampleKey

__all__ = ["EvalLog", "SampleWriter", "Samples", "find_logs"]

_SYNC_SECONDS = 1.0


class Samples(NamedTuple):
    """The samples that count, one a key, and the keys that stand twice with the same attempt."""

    latest: dict[SampleKey, Sample]
    doubled: tuple[tuple[str, int, int], ...]


class EvalLog:
    """One suite's evaluation of one model, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, header: LogHeader) -> Self:
        """A new log.

        Raises:
            UsageError: something is at `path` already.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists; give another --out, or --resume to go on with that log")
        path.mkdir(parents=True, exist_ok=True)
        log = cls(path)
        log.write_header(header)
        return log

    @property
    def header_path(self) -> Path:
        return self.path / "eval.json"

    @property
    def samples_path(self) -> Path:
        return self.path / "samples.jsonl"

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    def write_header(self, header: LogHeader) -> None:
        """Replace `eval.json` at once."""
        write_whole(self.header_path, msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")

    def header(self) -> LogHeader:
        """What `eval.json` says.

        Raises:
            UsageError: it is missing, unreadable, or of another format.
        """
        try:
            header = msgspec.json.decode(self.header_path.read_bytes(), type=LogHeader)
        except FileNotFoundError as error:
            raise UsageError(
                f"{self.path} is no evaluation log: it has no eval.json; give a folder that --out made"
            ) from error
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise UsageError(f"{self.header_path} cannot be read: {error}") from error
        if header.format != LOG_FORMAT:
            raise UsageError(f"{self.header_path} is of format {header.format}; this version reads {LOG_FORMAT}")
        return header

    def rows(self) -> Iterator[Sample]:
        """Every attempt, in the order of writing; a last line cut short by a kill is left out.

        Raises:
            UsageError: a line that is no sample.
        """
        decoder = msgspec.json.Decoder(Sample)
        for number, line in enumerate(_whole_lines(self.samples_path), start=1):
            try:
                yield decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                raise UsageError(
                    f"{self.samples_path}, line {number}, is no sample ({error}); the file was changed or is damaged"
                ) from error

    def samples(self) -> Samples:
        """The highest attempt of each sample; a doubled one keeps the first and is named."""
        latest: dict[SampleKey, Sample] = {}
        seen: Counter[tuple[str, int, int]] = Counter()
        for sample in self.rows():
            exact = (sample.id, sample.epoch, sample.attempt)
            seen[exact] += 1
            kept = latest.get(sample.key)
            if seen[exact] == 1 and (kept is None or sample.attempt > kept.attempt):
                latest[sample.key] = sample
        return Samples(latest, tuple(key for key, count in seen.items() if count > 1))

    @contextmanager
    def writing(self) -> Iterator[SampleWriter]:
        """The one writer of this log.

        Raises:
            UsageError: another process is writing it.
        """
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(f"{self.path} is being written by another process; wait for it") from error
            _drop_torn_line(self.samples_path)
            with SampleWriter(self.samples_path) as writer:
                yield writer


class SampleWriter:
    """Appends samples; each line is handed to the system whole, and reaches the disk within a second or at the end."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("ab")
        self._encoder = msgspec.json.Encoder()
        self._synced = time.monotonic()

    def append(self, sample: Sample) -> None:
        """Write one line."""
        self._file.write(self._encoder.encode(sample) + b"\n")
        self._file.flush()
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._sync()

    def extend(self, samples: Sequence[Sample]) -> None:
        """Write many lines at once."""
        self._file.write(b"".join(self._encoder.encode(sample) + b"\n" for sample in samples))
        self._sync()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync()
        self._file.close()


def find_logs(path: Path) -> tuple[EvalLog, ...]:
    """The log at `path`, or every log directly below it, by name.

    Raises:
        UsageError: there is none.
    """
    if (path / "eval.json").is_file():
        return (EvalLog(path),)
    below = sorted(child.parent for child in path.glob("*/eval.json")) if path.is_dir() else []
    if not below:
        raise UsageError(f"{path} is no evaluation log and holds none; give a folder that spade-eval run --out made")
    return tuple(EvalLog(child) for child in below)


def _whole_lines(path: Path) -> Iterator[bytes]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line.strip():
                yield line


def _drop_torn_line(path: Path) -> None:
    """Cut off what a kill left behind the last newline, so that the next line begins on its own."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        os.truncate(path, data.rfind(b"\n") + 1)
