"""CachedPolicy: a policy whose completions are kept on disk, so that the same request is never paid for twice."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import msgspec

from spade_agents.errors import UsageError
from spade_agents.files import plain_file
from spade_agents.messages import Conversation
from spade_agents.policy.budget import Budget
from spade_agents.policy.protocol import Policy, PolicyInfo, Sampling
from spade_agents.policy.sqlite_errors import SQLITE_ERRORS, described_error
from spade_agents.trajectory import Completion

__all__ = ["CachedPolicy", "CompletionCache", "Spent"]

_TABLE = """create table if not exists completions (
    key text primary key, model text not null, prompt_tokens integer not null, completion_tokens integer not null,
    price real not null, completion blob not null) without rowid"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the completions of a cache took, whichever process asked for them."""

    completions: int
    prompt_tokens: int
    completion_tokens: int
    price: float


@dataclass(slots=True)
class CompletionCache:
    """Completions by the hash of all that decides them, in one SQLite file; each is on disk before it is used."""

    connection: sqlite3.Connection
    where: str = ":memory:"

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """A cache in a file, made where it is not there; `None` for one that ends with the process.

        Raises:
            UsageError: the file cannot be opened, or is no cache.
        """
        where = ":memory:" if path is None else str(plain_file(path))
        try:
            connection = sqlite3.connect(where, isolation_level=None)
            connection.execute("pragma synchronous = full")
            connection.execute(_TABLE)
            connection.execute("select key, price, completion from completions limit 1")
        except SQLITE_ERRORS as error:
            what = f"the cache of completions {where}"
            raise described_error(error, what, f"cannot be used: {error}; give another file") from error
        return cls(connection, where)

    def get(self, key: str) -> Completion | None:
        """What was answered to this request, or `None` where it was never asked."""
        row = self._run("select completion from completions where key = ?", key).fetchone()
        try:
            return None if row is None else msgspec.json.decode(row[0], type=Completion)
        except msgspec.DecodeError as error:
            raise UsageError(f"the cache of completions {self.where} is damaged ({error}); remove it") from error

    def put(self, key: str, model: str, completion: Completion, price: float) -> None:
        """Keep an answer; one that is kept already stays."""
        used = completion.usage
        self._run(
            "insert or ignore into completions values (?, ?, ?, ?, ?, ?)",
            key,
            model,
            used.prompt_tokens,
            used.completion_tokens,
            price,
            msgspec.json.encode(completion),
        )

    def spent(self) -> Spent:
        """Sums over everything kept."""
        row = self._run(
            "select count(*), sum(prompt_tokens), sum(completion_tokens), sum(price) from completions"
        ).fetchone()
        return Spent(completions=row[0], prompt_tokens=row[1] or 0, completion_tokens=row[2] or 0, price=row[3] or 0.0)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        """Run a statement.

        Raises:
            InfrastructureError: there is no room.
            UsageError: the file is damaged.
        """
        try:
            return self.connection.execute(statement, values)
        except SQLITE_ERRORS as error:
            what = f"the cache of completions {self.where}"
            raise described_error(error, what, f"is damaged ({error}); remove it") from error


@dataclass(slots=True, kw_only=True)
class CachedPolicy:
    """A policy behind a cache and a budget.

    Attributes:
        policy: asked for what is not in the cache.
        cache, budget: see there.
        hits: answers that came from the cache in this process.
    """

    policy: Policy
    cache: CompletionCache
    budget: Budget = field(default_factory=Budget)
    hits: int = 0

    @property
    def info(self) -> PolicyInfo:
        """Of the policy within."""
        return self.policy.info

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """As the policy within.

        Raises:
            BudgetSpentError: the budget does not cover it.
        """
        key = _key(self.info, conversation, sampling, seed)
        found = self.cache.get(key)
        if found is not None:
            self.hits += 1
            return found
        async with self.budget.held(conversation, sampling) as held:
            completion = await self.policy.complete(conversation, sampling, seed=seed, deadline=deadline)
            held.settle(self.budget.price(completion.usage))
        completion = _writable(completion)
        self.cache.put(key, self.info.name, completion, held.taken or 0.0)
        return completion


def _writable(completion: Completion) -> Completion:
    """The completion with halves of surrogate pairs replaced, which no file and no request can hold."""
    text, thinking = (part.encode(errors="replace").decode() for part in (completion.text, completion.thinking))
    if (text, thinking) == (completion.text, completion.thinking):
        return completion
    return replace(completion, text=text, thinking=thinking)


def _key(info: PolicyInfo, conversation: Conversation, sampling: Sampling, seed: int) -> str:
    asked = msgspec.json.encode([info.name, info.weight_version, conversation, sampling, seed])
    return hashlib.sha256(asked).hexdigest()
