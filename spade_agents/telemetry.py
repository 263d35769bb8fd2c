"""Metrics of a run as JSON lines, and progress on a terminal or in a log."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spade_agents.errors import UsageError
from spade_agents.files import plain_file, write_whole
from spade_agents.terminal import visible, visible_line

__all__ = ["BarReporter", "LineReporter", "MetricsLog", "ProgressReporter", "Row", "SilentReporter", "open_progress"]

Row = Mapping[str, Any]


class MetricsLog:
    """An append-only file of JSON objects, one a line.

    A line reaches the disk whole before `append` returns; a line cut short by a kill is dropped when read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: Row) -> None:
        """Write one row; NaN and infinities are refused (`ValueError`), since JSON has neither."""
        text = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        """All whole rows, in order.

        Raises:
            UsageError: a line that is no row, or no plain file.
        """
        if not self.path.exists():
            return []
        lines = plain_file(self.path).read_bytes().split(b"\n")[:-1]
        return [self._row(number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UsageError(f"{self.path}, line {number}, is no row of JSON; the file was changed or is damaged")
        return row

    def truncate(self, rows: int) -> None:
        """Keep the first `rows` rows; the file is replaced at once, never half-written.

        Raises:
            UsageError: a line that is no row.
        """
        kept = self.rows()[:rows]
        text = "".join(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n" for row in kept)
        write_whole(self.path, text.encode())


class ProgressReporter(Protocol):
    """Tells a person how far a long piece of work is."""

    def begin(self, task: str, total: int) -> None:
        """A new piece of work of `total` steps; the one before is finished."""

    def phase(self, name: str) -> None:
        """What the step in hand is at."""

    def advance(self, steps: int = 1) -> None:
        """So many more steps are done."""

    def say(self, text: str) -> None:
        """One line that stays."""


class SilentReporter:
    """Says nothing."""

    def begin(self, task: str, total: int) -> None: ...

    def phase(self, name: str) -> None: ...

    def advance(self, steps: int = 1) -> None: ...

    def say(self, text: str) -> None: ...


class LineReporter:
    """Plain lines, for logs and pipes: one line a `say`, and one when a piece of work begins."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, task: str, total: int) -> None: ...

    def phase(self, name: str) -> None: ...

    def advance(self, steps: int = 1) -> None: ...

    def say(self, text: str) -> None:
        self._stream.write(visible(text) + "\n")
        self._stream.flush()


class BarReporter:
    """A bar below the lines said so far."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._name = ""
        self._task = progress.add_task("", total=None, visible=False)

    def begin(self, task: str, total: int) -> None:
        self._name = escape(visible_line(task))
        self._progress.reset(self._task, total=total, description=self._name, visible=total > 0)

    def phase(self, name: str) -> None:
        self._progress.update(self._task, description=f"{self._name}: {escape(visible_line(name))}")

    def advance(self, steps: int = 1) -> None:
        self._progress.advance(self._task, steps)

    def say(self, text: str) -> None:
        self._progress.console.print(visible(text), markup=False, highlight=False)


@contextmanager
def open_progress(stream: TextIO | None = None) -> Iterator[ProgressReporter]:
    """A bar where `stream` (stderr by default) is a terminal, plain lines otherwise."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield LineReporter(stream)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(file=stream)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        yield BarReporter(progress)
