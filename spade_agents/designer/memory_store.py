"""Where memory records are: one SQLite file, an environment once and its outcomes appended."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from spade_agents.designer.memory_types import MemoryRecord
from spade_agents.errors import UsageError
from spade_agents.policy.sqlite_errors import SQLITE_ERRORS, described_error
from spade_environments import Skill

__all__ = ["MemoryStore"]

_TABLES = """
create table if not exists environments (
    id text primary key, name text not null, skill text not null, domain text not null, source text not null,
    hint text, certificate text, parents text not null, document text not null
) without rowid;
create table if not exists outcomes (
    number integer primary key, environment_id text not null references environments (id), rollout integer not null,
    win_rate real, regret real, hinted text not null, unhinted text not null, window text not null, fault text not null
);
create index if not exists outcomes_of on outcomes (environment_id);
"""
_JOINED = """select o.number, o.rollout, o.win_rate, o.regret, o.hinted, o.unhinted, o.window, o.fault,
    e.id, e.name, e.skill, e.domain, e.source, e.hint, e.certificate, e.parents, e.document
    from outcomes o join environments e on e.id = o.environment_id"""
_OUTCOME = "insert into outcomes values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_OFFERED = "o.fault = '' and o.win_rate is not null"
_IN_PROCESS = ":memory:"


class MemoryStore:
    """Records in the order in which they were appended, numbered from 1.

    Every statement is written out below with its values apart from it; a file that another program damaged raises
    `UsageError` when it is opened or read.
    """

    def __init__(self, connection: sqlite3.Connection, where: str) -> None:
        self.where = where
        self._connection = connection

    @classmethod
    def in_process(cls) -> Self:
        """A store that ends with the process."""
        return cls._opened(_IN_PROCESS, _IN_PROCESS)

    @classmethod
    def open(cls, path: Path, *, make: bool = True) -> Self:
        """A store in a file.

        Args:
            path: of the file.
            make: whether it is made where it is not there; without it no file is changed by being opened, so that a
                database of something else stays as it is.

        Raises:
            UsageError: it cannot be opened, or is no memory.
        """
        address = f"{path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
        return cls._opened(str(path), address, make=make)

    @classmethod
    def _opened(cls, where: str, address: str, *, make: bool = True) -> Self:
        try:
            connection = sqlite3.connect(address, isolation_level=None, uri=True)
            if make:
                connection.executescript(_TABLES)
            connection.execute(f"{_JOINED} limit 1").fetchone()
        except SQLITE_ERRORS as error:
            raise described_error(
                error, f"the memory {where}", f"cannot be used: {error}; give a memory.sqlite of a run"
            ) from error
        return cls(connection, where)

    def __len__(self) -> int:
        """How many records there are."""
        return int(self._rows("select coalesce(max(number), 0) from outcomes")[0][0])

    def append(self, record: MemoryRecord) -> None:
        """Add a record at the end; its environment is written where it is new."""
        with self._transaction() as connection:
            connection.execute(
                "insert or ignore into environments values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    record.environment_id,
                    record.name,
                    record.skill.value,
                    record.domain,
                    record.source,
                    record.hint,
                    record.certificate,
                    json.dumps(record.parents),
                    record.document,
                ),
            )
            connection.execute(
                _OUTCOME,
                (
                    len(self) + 1,
                    record.environment_id,
                    record.rollout,
                    record.win_rate,
                    record.regret,
                    json.dumps(record.hinted),
                    json.dumps(record.unhinted),
                    json.dumps(record.window),
                    record.fault,
                ),
            )

    def newest(self, count: int) -> list[MemoryRecord]:
        """The newest records with a win rate and without a fault, oldest first."""
        rows = self._rows(f"{_JOINED} where {_OFFERED} order by o.number desc limit ?", count)
        return self._records(reversed(rows))

    def all(self) -> list[MemoryRecord]:
        """Every record, oldest first."""
        return self._records(self._rows(f"{_JOINED} order by o.number"))

    def history(self, environment_id: str) -> list[MemoryRecord]:
        """Every record of one environment, oldest first."""
        rows = self._rows(f"{_JOINED} where o.environment_id = ? order by o.number", environment_id)
        return self._records(rows)

    def faulty(self) -> frozenset[str]:
        """Environments that ever faulted in play."""
        return frozenset(row[0] for row in self._rows("select environment_id from outcomes where fault <> ''"))

    def win_rates_by_round(self, skill: Skill) -> dict[int, list[float]]:
        """Win rates by rollout, in the order of the rollouts."""
        rates: dict[int, list[float]] = {}
        found = f"{_JOINED} where {_OFFERED} and e.skill = ? order by o.rollout, o.number"
        for row in self._rows(found, skill.value):
            rates.setdefault(row[1], []).append(row[2])
        return rates

    def lines(self, rows: int) -> Iterator[bytes]:
        """What the first `rows` records say, one line each, for a digest."""
        for row in self._rows(f"{_JOINED} where o.number <= ? order by o.number", rows):
            yield json.dumps(row, default=repr).encode() + b"\n"

    def truncate(self, rows: int) -> None:
        """Keep the first `rows` records, and the environments that they are about."""
        with self._transaction() as connection:
            connection.execute("delete from outcomes where number > ?", (rows,))
            connection.execute("delete from environments where id not in (select environment_id from outcomes)")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of what is written inside, or nothing of it.

        Raises:
            InfrastructureError: there is no room.
            UsageError: the file is damaged.
        """
        try:
            self._connection.execute("begin immediate")
            try:
                yield self._connection
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise
        except SQLITE_ERRORS as error:
            raise described_error(
                error, f"the memory {self.where}", f"cannot be written: {error}; put a whole copy back"
            ) from error

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except SQLITE_ERRORS as error:
            raise described_error(
                error, f"the memory {self.where}", f"cannot be read: {error}; put a whole copy back"
            ) from error

    def _records(self, rows: Iterable[tuple[Any, ...]]) -> list[MemoryRecord]:
        try:
            return [_record(row) for row in rows]
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise UsageError(f"the memory {self.where} cannot be read: {error}; put a whole copy back") from error


def _record(row: tuple[Any, ...]) -> MemoryRecord:
    _, rollout, win_rate, regret, hinted, unhinted, window, fault, *environment = row
    identity, name, skill, domain, source, hint, certificate, parents, document = environment
    fields = {
        "environment_id": identity,
        "name": name,
        "skill": skill,
        "domain": domain,
        "source": source,
        "hint": hint,
        "certificate": certificate,
        "document": document,
        "parents": json.loads(parents),
        "rollout": rollout,
        "win_rate": win_rate,
        "regret": regret,
        "hinted": json.loads(hinted),
        "unhinted": json.loads(unhinted),
        "window": json.loads(window),
        "fault": fault,
    }
    record = msgspec.convert(fields, MemoryRecord)
    if not all(math.isfinite(value) for value in (record.win_rate, record.regret) if value is not None):
        raise ValueError(f"a win rate or a regret of {identity[:12]} is no number")
    return record
