"""`bfcl_v4`: entries, conversations and grades are the package's own; completions, with native calls, any policy's."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spade_agents.errors import InfrastructureError
from spade_agents.messages import Conversation, Message
from spade_agents.policy.protocol import Policy, Sampling
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.seeds import derive_seed
from spade_agents.trajectory import Completion
from spade_evals.suite import Missing, Runtime, SuiteData, UnscorableError, complete_task
from spade_evals.suites.bfcl.calls import gold_messages, without_programs
from spade_evals.suites.bfcl.categories import MULTI_TURN, NOT_OFFLINE, SINGLE_TURN, chosen_columns, shares
from spade_evals.suites.bfcl.checking import Checker
from spade_evals.suites.bfcl.environment import VERSION, bfcl_folder, bfcl_python
from spade_evals.suites.bfcl.memory import Sessions
from spade_evals.suites.bfcl.playing import Ask, Play, Player, read_tools
from spade_evals.types import ColumnSettings, Sample, SampleOutcome, Score, Task

__all__ = ["SINGLE_TURN", "BfclSuite"]

_SETTINGS = ColumnSettings(n=1, sampling=Sampling(temperature=0.0, max_tokens=4096))
_ENTRIES = Path(__file__).with_name("entries.py")


@dataclass(slots=True, kw_only=True)
class BfclSuite:
    """`part` is a group (`non_live`, `live`, `irrelevance`, `multi_turn`, `agentic`) or categories, comma-separated."""

    part: str = ""
    grading: str = f"bfcl-eval {VERSION}"
    protocol: str = "default"
    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    concurrency: int = 64
    _checker: Checker | None = None
    _player: Player | None = None
    _sessions: Sessions = field(default_factory=Sessions)

    def __post_init__(self) -> None:
        columns = chosen_columns(self.part)
        self.columns = dict.fromkeys(columns, _SETTINGS)
        self.weights = shares(columns)

    @property
    def name(self) -> str:
        return f"bfcl_v4:{self.part}" if self.part else "bfcl_v4"

    def preflight(self) -> Sequence[Missing]:
        lacking = [Missing(column=name, what=NOT_OFFLINE[name]) for name in self.columns if name in NOT_OFFLINE]
        if bfcl_python() is None:
            told = f"bfcl-eval has no environment at {bfcl_folder()}; make it: spade-eval setup bfcl_v4"
            lacking += [Missing(column=name, what=told) for name in self.columns if name not in NOT_OFFLINE]
        return lacking

    def load(self, columns: Sequence[str]) -> SuiteData:
        """The package's entries, in its order.

        Raises:
            InfrastructureError: the package does not run.
        """
        python = bfcl_python()
        if python is None or not columns:
            return SuiteData(tasks=())
        rows = _entries(python, columns)
        digests = {name: hashlib.sha256() for name in columns}
        for row in rows:
            digests[row["category"]].update(json.dumps(row, sort_keys=True).encode())
        return SuiteData(
            tasks=tuple(_task(row) for row in rows),
            checksums={name: digest.hexdigest() for name, digest in digests.items()},
        )

    async def attempt(self, task: Task, epoch: int, runtime: Runtime) -> Sample:
        if task.column in SINGLE_TURN:
            return await complete_task(self, task, epoch, runtime)
        started = time.monotonic()
        before = await self._remembered(task, epoch, runtime)
        play = await self._play(task, task.id, epoch, runtime, before.snapshot)
        sample = Sample(
            id=task.id, epoch=epoch, attempt=0, column=task.column, outcome=SampleOutcome.SCORED,
            messages=play.messages, response="" if play.result is None else json.dumps(play.result),
            target=task.target, finish=play.finish, tokens_in=play.tokens_in, tokens_out=play.tokens_out,
            seconds=time.monotonic() - started, tags=task.tags,
        )  # fmt: skip
        if play.result is None:
            return replace(sample, score=0.0, reason=play.error)
        score = await self.grade(task, sample)
        cut = "length" if play.finish == "length" and score.value < 1.0 else score.reason
        return replace(sample, score=score.value, reason=cut)

    async def grade(self, task: Task, sample: Sample) -> Score:
        if self._checker is None:
            self._checker = Checker(python=_python())
        found = await self._checker.check(task.column, task.id, _result(task, sample.response))
        if found.error and task.column in SINGLE_TURN:
            raise UnscorableError(f"the package's checker failed: {found.error}")
        # There the checker carries out the model's calls: what they break is the model's own doing.
        reason = f"broke the check: {found.error}" if found.error else found.fault
        return Score(value=float(not reason), reason=reason)

    async def aclose(self) -> None:
        await self._sessions.aclose()
        for process in (self._player, self._checker):
            if process is not None:
                await process.aclose()

    async def _remembered(self, task: Task, epoch: int, runtime: Runtime) -> Play:
        """What the sessions before a question left behind; nothing where it has none."""
        if not task.data["sessions"]:
            return Play()

        async def play(session: str, snapshot: str | None) -> Play:
            return await self._play(task, session, epoch, runtime, snapshot)

        return await self._sessions.played(task.column, epoch, tuple(task.data["sessions"]), play)

    async def _play(self, task: Task, identity: str, epoch: int, runtime: Runtime, snapshot: str | None) -> Play:
        if self._player is None:
            self._player = Player(python=_python())
        ask = self._asking(task, identity, epoch, runtime)
        return await self._player.play(
            task.column, identity, ask, known=frozenset(task.data["known"]), snapshot=snapshot
        )

    def _asking(self, task: Task, identity: str, epoch: int, runtime: Runtime) -> Ask:
        policy, deadline = _policy(runtime.policy, task), time.monotonic() + runtime.seconds

        async def ask(conversation: Conversation, number: int) -> Completion:
            return await policy.complete(
                conversation,
                self.columns[task.column].sampling,
                seed=derive_seed(runtime.seed, "eval", identity, number, epoch, runtime.draw),
                deadline=deadline,
            )

        return ask


def _policy(policy: Policy, task: Task) -> Policy:
    """The policy, or for `scripted:gold` one that plays the published answer."""
    if isinstance(policy, ScriptedPolicy) and policy.needs_solution and task.column in MULTI_TURN:
        gold = gold_messages(task.data["gold"], (*task.tools, *task.data["later"]))
        return ScriptedPolicy(
            lambda conversation, _: gold[sum(message.role == "assistant" for message in conversation.messages)],
            name=policy.info.name,
        )
    return policy


def _python() -> Path:
    python = bfcl_python()
    if python is None:
        raise InfrastructureError(f"bfcl-eval has no environment at {bfcl_folder()}; spade-eval setup bfcl_v4")
    return python


def _entries(python: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="spade-bfcl-") as root:
        environment = {"HOME": root, "BFCL_PROJECT_ROOT": root}
        try:
            run = subprocess.run(
                [str(python), "-I", str(_ENTRIES), *columns], capture_output=True, check=True, env=environment
            )
        except (OSError, subprocess.CalledProcessError) as error:
            told = getattr(error, "stderr", b"") or b""
            raise InfrastructureError(
                f"bfcl-eval could not list its entries: {error}: {told.decode(errors='replace')[-400:]}"
            ) from error
    return [json.loads(line) for line in run.stdout.splitlines()]


def _result(task: Task, response: str) -> Any:
    """What the package grades: of a single turn calls or text, else by turn and step; arguments are JSON in both."""
    try:
        found = json.loads(response)
        if task.column in SINGLE_TURN:
            return [{call["name"]: json.dumps(call["arguments"])} for call in found["calls"]]
        known = frozenset(task.data["known"])
        return [[without_programs(step, known) for step in turn] for turn in found]
    except (ValueError, TypeError, KeyError, AttributeError):
        return response


def _task(row: Mapping[str, Any]) -> Task:
    messages = tuple(Message(role=said["role"], content=said["content"]) for said in row["messages"])
    tools, later = read_tools(row["tools"]), read_tools(row["later"])
    known = [tool.name for tool in (*tools, *later)]
    return Task(
        id=row["id"], column=row["category"], messages=messages, tools=tools,
        target=json.dumps(row["gold"], ensure_ascii=False) if row["gold"] is not None else row["category"],
        data={"gold": row["gold"], "later": later, "known": known, "sessions": row["sessions"]},
    )  # fmt: skip
