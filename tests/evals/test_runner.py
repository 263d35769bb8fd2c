"""Running and resuming against a policy that fails in the ways servers do."""

from __future__ import annotations

import asyncio

import pytest

from spade_agents.errors import ContextExhaustedError, InfrastructureError, UsageError
from spade_agents.messages import Message
from spade_agents.policy.protocol import PolicyInfo
from spade_agents.trajectory import Completion
from spade_evals.log import EvalLog
from spade_evals.runner import RETRIES, RunOptions, make_header, run_suite
from spade_evals.suite import Runtime, SuiteData, UnscorableError, complete_task
from spade_evals.summary import write_summary
from spade_evals.types import ColumnSettings, ModelFacts, SampleOutcome, Score, Task


class Doubles:
    """A suite of our own: twice a number, one completion a task."""

    grading = "1"
    protocol = "default"
    name = "doubles"
    packages = ()
    concurrency = 8

    def __init__(self, count=10, n=1):
        self.columns = {"doubles": ColumnSettings(n=n)}
        self.weights = {}
        self.count = count

    def preflight(self):
        return ()

    def load(self, columns):
        tasks = (
            Task(id=str(k), column="doubles", messages=(Message(role="user", content=str(k)),), target=str(2 * k))
            for k in range(self.count)
        )
        return SuiteData(tasks=tuple(tasks), checksums={"numbers": "1"})

    async def attempt(self, task, epoch, runtime):
        return await complete_task(self, task, epoch, runtime)

    async def grade(self, task, sample):
        if task.target == "0":
            raise UnscorableError("twice nothing")
        return Score(value=float(sample.response == task.target))

    async def aclose(self): ...


class Server:
    """Answers rightly, but for tasks that `faults` names: each fault is raised so often."""

    info = PolicyInfo(name="server", context_length=100, has_tokens=False)

    def __init__(self, faults=None):
        self.faults = dict(faults or {})
        self.asked = []

    async def complete(self, conversation, sampling, *, seed, deadline=None):
        name = conversation.messages[-1].content
        self.asked.append(name)
        await asyncio.sleep(0)
        error, times = self.faults.get(name, (None, 0))
        if times:
            self.faults[name] = (error, times - 1)
            raise error
        return Completion(text=str(2 * int(name)), temperature=sampling.temperature)


def begun(path, suite, policy):
    data = suite.load(list(suite.columns))
    header = make_header(
        suite, data, data.tasks, model=ModelFacts(target="x"), user_model=None, seed=0, options=RunOptions()
    )
    return EvalLog.create(path, header), data.tasks, Runtime(policy=policy)


BROKEN = InfrastructureError("the server answered 500")


async def test_a_server_that_fails_on_a_third_leaves_no_score_and_resuming_redoes_only_those(tmp_path):
    suite = Doubles()
    server = Server(dict.fromkeys("369", (BROKEN, 99)))
    log, tasks, runtime = begun(tmp_path / "log", suite, server)
    summary = await run_suite(suite, log, tasks, runtime)
    column = summary.columns["doubles"]
    assert (column.scored, column.infrastructure, column.unscorable, column.missing) == (6, 3, 1, 0)
    assert column.scored + column.infrastructure + column.unscorable == column.asked
    assert summary.overall is None
    assert server.asked.count("3") == RETRIES + 1
    assert all(one.score is None for one in log.samples().latest.values() if one.id in "369")

    sound = Server()
    again = await run_suite(suite, log, tasks, Runtime(policy=sound))
    assert sorted(sound.asked) == ["3", "6", "9"]
    assert again.overall == 1.0
    assert log.samples().latest["3", 0].attempt == 1
    assert log.samples().doubled == ()


async def test_an_error_that_passes_is_tried_again_and_leaves_one_sample(tmp_path):
    suite = Doubles(4)
    log, tasks, runtime = begun(tmp_path / "log", suite, Server({"2": (BROKEN, RETRIES)}))
    assert (await run_suite(suite, log, tasks, runtime)).overall == 1.0
    assert len(list(log.rows())) == 4


async def test_a_prompt_beyond_the_context_scores_0_with_its_reason(tmp_path):
    suite = Doubles(4)
    server = Server({"2": (ContextExhaustedError("too long"), 9)})
    log, tasks, runtime = begun(tmp_path / "log", suite, server)
    summary = await run_suite(suite, log, tasks, runtime)
    assert summary.columns["doubles"].reasons["context"] == 1
    assert log.samples().latest["2", 0].score == 0.0
    assert server.asked.count("2") == 1


async def test_an_attempt_past_its_time_is_an_infrastructure_error(tmp_path):
    class Slow(Server):
        async def complete(self, conversation, sampling, *, seed, deadline=None):
            if conversation.messages[-1].content == "1":
                await asyncio.Event().wait()
            return await super().complete(conversation, sampling, seed=seed)

    suite = Doubles(3)
    log, tasks, _ = begun(tmp_path / "log", suite, None)
    summary = await run_suite(suite, log, tasks, Runtime(policy=Slow(), seconds=0.05))
    assert summary.columns["doubles"].infrastructure == 1
    assert log.samples().latest["1", 0].reason == "the attempt's time limit passed"


async def test_a_fault_of_the_program_ends_the_run_and_keeps_what_was_taken(tmp_path):
    suite = Doubles(6)
    suite.concurrency = 1
    log, tasks, runtime = begun(tmp_path / "log", suite, Server({"4": (ZeroDivisionError("a fault"), 1)}))
    with pytest.raises(ZeroDivisionError):
        await run_suite(suite, log, tasks, runtime)
    assert {one.outcome for one in log.rows()} == {SampleOutcome.SCORED, SampleOutcome.UNSCORABLE}
    summary = write_summary(log)
    assert summary.columns["doubles"].missing == 2
    assert summary.overall is None


async def test_a_log_of_other_tasks_is_refused(tmp_path):
    suite = Doubles(6)
    log, tasks, runtime = begun(tmp_path / "log", suite, Server())
    await run_suite(suite, log, tasks, runtime)
    with pytest.raises(UsageError, match="samples that these settings do not ask for"):
        await run_suite(suite, log, tasks[:3], runtime)
