"""The journal of a designed pool: each slot with all its attempts, written when it is decided, read when it goes on."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from spade_agents.designer.attempts import DesignOutcome
from spade_agents.errors import ConfigurationError, UsageError
from spade_agents.files import plain_file, write_whole
from spade_agents.selfplay.design_settings import MAY_CHANGE, PoolDesignSettings
from spade_agents.selfplay.pool import Pool
from spade_agents.settings import changed_keys, load_settings, to_toml
from spade_agents.telemetry import MetricsLog

__all__ = ["DesignJournal", "DesignedSlot", "alone_at", "open_journal", "read_slots"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedSlot:
    """One slot, its number, and what became of it."""

    slot: int
    outcome: DesignOutcome


@dataclass(slots=True, kw_only=True)
class DesignJournal:
    """What is decided so far; the pool holds exactly the environments of the slots in it.

    Attributes:
        pool: the folder, the journal's own.
        slots: decided, by number.
    """

    pool: Pool
    slots: dict[int, DesignOutcome]

    @property
    def ids(self) -> tuple[str, ...]:
        """The environments, in the order in which they were admitted."""
        return tuple(outcome.spec.id for outcome in self.slots.values() if outcome.spec is not None)

    def keep(self, slot: int, outcome: DesignOutcome) -> None:
        """Enter a slot: first its environment, whole, then the line that says so."""
        if outcome.spec is not None:
            self.pool.add(outcome.spec, outcome.certificate)
        row = DesignedSlot(slot=slot, outcome=outcome)
        MetricsLog(_lines(self.pool.path)).append(msgspec.to_builtins(row))
        self.slots[slot] = outcome
        if outcome.spec is not None:
            self.pool.index(self.ids)


@contextmanager
def open_journal(out: Path, settings: PoolDesignSettings) -> Iterator[DesignJournal]:
    """Begin a pool, or go on with one under the same settings; it is kept to this process.

    What a kill left half-written is dropped: an environment without its line, a line without its end.

    Raises:
        UsageError: `out` is something else, or another process is at work on it.
        ConfigurationError: what decides its designs was changed.
    """
    begun = plain_file(_settings_path(out))
    if out.exists() and not begun.exists() and (not out.is_dir() or not all(map(_is_ours, out.iterdir()))):
        raise UsageError(f"{out} exists and is no pool that was begun here; give another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be made: {error.strerror}; give another --out") from error
    with alone_at(out):
        if begun.exists():
            _same(load_settings(PoolDesignSettings, begun), settings, out)
        write_whole(begun, to_toml(settings).encode())
        slots = {found.slot: found.outcome for found in read_slots(out)}
        journal = DesignJournal(pool=Pool(out), slots=slots)
        MetricsLog(_lines(out)).truncate(len(slots))
        journal.pool.truncate(journal.ids, rollout=sys.maxsize)
        yield journal


def read_slots(pool: Path) -> list[DesignedSlot]:
    """The slots of a designed pool, in the order in which they were decided; none of any other pool.

    Raises:
        UsageError: a line that is no slot.
    """
    try:
        return [msgspec.convert(row, DesignedSlot) for row in MetricsLog(_lines(pool)).rows()]
    except msgspec.ValidationError as error:
        raise UsageError(f"{_lines(pool)} cannot be read: {error}; it was changed, or is of another version") from error


def _lines(pool: Path) -> Path:
    return pool / "designs.jsonl"


def _settings_path(pool: Path) -> Path:
    return pool / "design.toml"


def _same(before: PoolDesignSettings, now: PoolDesignSettings, out: Path) -> None:
    changed = {key: values for key, values in changed_keys(before, now).items() if key not in MAY_CHANGE}
    if changed:
        told = "; ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in changed.items())
        raise ConfigurationError(f"the pool {out} was begun with other settings: {told}; put that back, or give --out")


def _is_ours(path: Path) -> bool:
    """Whether a kill or a full disk left it before the pool was begun: the lock, or a draft of the settings."""
    return path.name == "lock" or path.name.startswith(f".{_settings_path(path.parent).name}.")


@contextmanager
def alone_at(out: Path) -> Iterator[None]:
    """Keep a pool that was begun here to this process.

    Raises:
        UsageError: another process is at work on it.
    """
    with plain_file(out / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another process is at work on the pool {out}; wait until it ends") from error
        yield
