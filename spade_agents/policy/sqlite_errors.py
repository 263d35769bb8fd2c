"""What SQLite's errors mean to a person: no room, a file in use, or a damaged one."""

from __future__ import annotations

import sqlite3

from spade_agents.errors import InfrastructureError, UsageError

__all__ = ["SQLITE_ERRORS", "described_error"]

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite raises; the second where its message quotes a damaged file."""

_FOR_NOW = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)


def described_error(
    error: sqlite3.Error | UnicodeDecodeError, what: str, otherwise: str
) -> UsageError | InfrastructureError:
    """The error to raise in the place of SQLite's own.

    Args:
        error: as it was raised.
        what: the file, in words.
        otherwise: what is wrong with it, and what to do, unless it is only full or in use.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _FOR_NOW:
        advice = "wait for whoever uses it" if code == sqlite3.SQLITE_BUSY else "make room and go on"
        return InfrastructureError(f"{what} cannot be written or read now: {error}; {advice}")
    return UsageError(f"{what} {otherwise}")
