"""Metrics sent on to a tracker, Weights & Biases or Trackio, where a configuration asks for one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from spade_agents.errors import UsageError

__all__ = [
    "NoTracker",
    "Tracker",
    "TrackerConfig",
    "TrackioTracker",
    "WandbTracker",
    "check_tracker",
    "numbers_of",
    "open_tracker",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTracker:
    """`metrics.jsonl` and the console alone."""

    type: Literal["none"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbTracker:
    """Weights & Biases; its key comes from WANDB_API_KEY or `wandb login`.

    Attributes:
        project: that the run appears in.
        entity: user or team; empty for the key's own.
        mode: `offline` keeps everything in the run's folder, for `wandb sync`.
    """

    type: Literal["wandb"] = "wandb"
    project: str = "spade-agents"
    entity: str = ""
    mode: Literal["online", "offline"] = "online"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackioTracker:
    """Trackio: on this machine, or in a Space of Hugging Face.

    Attributes:
        project: that the run appears in.
        space: `user/name` of a Space; empty for this machine alone.
    """

    type: Literal["trackio"] = "trackio"
    project: str = "spade-agents"
    space: str = ""


TrackerConfig: TypeAlias = NoTracker | WandbTracker | TrackioTracker


class Tracker(Protocol):
    """Takes a run's rows of metrics."""

    def log(self, row: Mapping[str, Any], number: int) -> None:
        """The row of that number; a resumed run sends again what it does again, with the same numbers."""
        ...


class _Silent:
    def log(self, row: Mapping[str, Any], number: int) -> None: ...


class _Guarded:
    """A tracker whose failure ends the tracking and not the run: the metrics are on disk already."""

    def __init__(self, send: Callable[[dict[str, float], int], object], say: Callable[[str], None], name: str) -> None:
        self._send: Callable[[dict[str, float], int], object] | None = send
        self._say = say
        self._name = name

    def log(self, row: Mapping[str, Any], number: int) -> None:
        if self._send is None:
            return
        try:
            self._send(numbers_of(row), number)
        except Exception as error:  # whatever a library or its server makes of a row
            self._send = None
            self._say(f"{self._name} took no more metrics ({error}); metrics.jsonl has all of them.")


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row by their paths, such as `train/loss`; those of an evaluation below `held_out/`."""
    kind = str(row.get("kind", ""))
    if kind == "evaluation":
        row = {"rollout": row.get("rollout"), "held_out": row.get("parts", {}), "seconds": row.get("seconds", {})}
    return dict(_numbers(row, ""))


def check_tracker(config: TrackerConfig) -> None:
    """See that the tracker's package is installed.

    Raises:
        UsageError: it is not.
    """
    if config.type != "none" and importlib.util.find_spec(config.type) is None:
        raise UsageError(
            f"metrics.tracker is {config.type!r}, and the package {config.type} is not installed: pip install "
            f"{config.type}, or set metrics.tracker.type=none"
        )


@contextmanager
def open_tracker(
    config: TrackerConfig,
    *,
    name: str,
    identity: str,
    folder: Path,
    settings: Mapping[str, Any],
    say: Callable[[str], None],
) -> Iterator[Tracker]:
    """Open what `config` asks for, and finish it at the end.

    Args:
        config: which tracker.
        name: of the run, as people see it.
        identity: of the run, the same when it is resumed.
        folder: where a tracker may keep files.
        settings: shown beside the metrics.
        say: takes one line where the tracker fails.

    Raises:
        UsageError: its package is not installed.
    """
    check_tracker(config)
    match config:
        case NoTracker():
            yield _Silent()
            return
        case WandbTracker():
            wandb = importlib.import_module("wandb")
            run = wandb.init(
                project=config.project,
                entity=config.entity or None,
                mode=config.mode,
                name=name,
                id=identity,
                resume="allow",
                dir=str(folder),
                config=dict(settings),
                settings=wandb.Settings(console="off", silent=True),
            )
        case TrackioTracker():
            trackio = importlib.import_module("trackio")
            run = trackio.init(
                project=config.project,
                name=f"{name}-{identity}",
                space_id=config.space or None,
                resume="allow",
                config=dict(settings),
                embed=False,
            )
    try:
        yield _Guarded(lambda numbers, number: run.log(numbers, step=number), say, config.type)
    finally:
        run.finish()


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _numbers(part, f"{path}/{name}" if path else str(name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
