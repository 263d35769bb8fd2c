"""An in-process sandbox with the interface of the real one, for tests that need no isolation."""

from __future__ import annotations

from dataclasses import dataclass

import jsonschema
import pytest

from spade_environments import (
    EnvironmentFault,
    EnvironmentSpec,
    FaultKind,
    Observation,
    Reply,
    Skill,
    StepResult,
    ToolCall,
    ToolSpec,
)
from spade_environments.certificate import CertificateSettings, Gate, GateStatus, Verdict, certify, certify_many
from spade_environments.inside.episode import Episode
from spade_environments.limits import Limits
from spade_environments.sandbox import open_sandbox

DESK = '''from spade_environments import Call, Goal, ToolEnv, ToolError, tool


class OrderDesk(ToolEnv):
    """Read an order and cancel another one."""

    max_turns = 8

    def setup(self):
        self.ids = [f"A{n:03d}" for n in self.rng.sample(range(1000), 4)]
        self.state = {i: {"total": self.rng.randint(100, 999), "status": "open"} for i in self.ids}

    @tool
    def get_order(self, order_id: str) -> dict:
        """Read one order."""
        if order_id not in self.state:
            raise ToolError(f"no order {order_id}")
        return self.state[order_id]

    @tool
    def cancel_order(self, order_id: str) -> str:
        """Cancel an open order."""
        if order_id not in self.state:
            raise ToolError(f"no order {order_id}")
        self.state[order_id]["status"] = "cancelled"
        return "cancelled"

    def goals(self):
        first, second, third = self.ids[:3]
        return [
            Goal("replied", f"What is the total of order {first}?", value=self.state[first]["total"]),
            Goal("called", f"Have a look at {second}.", lambda state, calls, reply: any(
                call.name == "get_order" and call.arguments["order_id"] == second for call in calls)),
            Goal("asked", "Cancel another one."),
            Goal("state", f"I mean {third}.", lambda state, calls, reply: state[third]["status"] == "cancelled"),
        ]

    def solution(self):
        first, second, third = self.ids[:3]
        return [
            [Call("get_order", order_id=first), str(self.state[first]["total"])],
            [Call("get_order", order_id=second)],
            ["Which one?"],
            [Call("cancel_order", order_id=third)],
        ]
'''

DIAL = '''from spade_environments import TextEnv


class LockDial(TextEnv):
    """Open a dial lock; after each turn it says higher or lower."""

    max_turns = 10
    hidden = ("secret",)
    observability = "partial"

    def reset(self, seed):
        self.secret = self.rng.randrange(100)
        self.turns = 0
        return "Open the lock: say a number from 0 to 99.", {}

    def step(self, action):
        self.turns += 1
        word = action.strip()
        if not (word.isdecimal() and len(word) < 12):
            return "Say a number.", 0.0, False, False, {}
        if int(word) == self.secret:
            return "It opens.", 1.0, True, False, {}
        return "Higher." if int(word) < self.secret else "Lower.", 0.0, False, False, {}

    def solution(self):
        return ["50", str(self.secret)] if self.secret != 50 else ["50"]
'''
BASES = {"desk": DESK, "dial": DIAL}


@dataclass
class Description:
    base: str
    class_name: str
    tools: tuple
    max_turns: int
    observability: str
    hidden: tuple


class InProcessEnv:
    def __init__(self, episode, count):
        self._episode = episode
        self._count = count
        described = episode.describe()
        specs = tuple(ToolSpec(**tool) for tool in described["tools"])
        self._specs = {spec.name: spec for spec in specs}
        self.description = Description(
            base=described["base"],
            class_name=described["class_name"],
            tools=specs,
            max_turns=described["max_turns"],
            observability=described["observability"],
            hidden=tuple(described["hidden"]),
        )
        self.max_turns = described["max_turns"]
        self._open = set()

    @property
    def tools(self):
        return tuple(spec for name, spec in self._specs.items() if name in self._open)

    def _guard(self, phase, function, *arguments):
        self._count(phase)
        try:
            return function(*arguments)
        except Exception as error:
            raise EnvironmentFault(FaultKind.ENV_ERROR, phase, f"{type(error).__name__}: {error}") from error

    async def reset(self, seed, *, fresh=True):
        reply = self._guard("reset", self._episode.reset, seed)
        self._open = set(reply["tools"])
        return Observation(role="user", text=reply["observation"])

    async def step(self, action):
        if isinstance(action, Reply):
            return self._result(self._guard("step", self._episode.step, None, None, action.text), None)
        spec = self._specs.get(action.name) if action.name in self._open else None
        kind = "unknown_tool" if spec is None else None
        if spec is not None and not jsonschema.Draft202012Validator(spec.parameters).is_valid(dict(action.arguments)):
            kind = "bad_argument"
        if kind is not None:
            observation = Observation(role="tool", text=f"Error: {kind}", call_id=action.id)
            return StepResult(
                observation=observation, reward=0.0, terminated=False, truncated=False, info={"error": kind}
            )
        return self._result(
            self._guard("step", self._episode.step, action.name, dict(action.arguments), None), action.id
        )

    def _result(self, reply, call_id):
        self._open |= set(reply["unlocked"])
        if not 0 <= reply["reward"] <= 1:
            raise EnvironmentFault(FaultKind.PROTOCOL, "step", f"reward {reply['reward']}")
        tools = tuple(self._specs[name] for name in reply["unlocked"])
        observation = Observation(role=reply["role"], text=reply["observation"], call_id=call_id, tools=tools)
        return StepResult(
            observation=observation,
            reward=reply["reward"],
            terminated=reply["terminated"],
            truncated=reply["truncated"],
            info=reply["info"],
        )

    async def solution(self):
        actions = self._guard("solution", self._episode.solution)
        return tuple(
            Reply(text=action["text"])
            if "text" in action
            else ToolCall(name=action["name"], arguments=action["arguments"])
            for action in actions
        )

    async def hidden_values(self):
        return self._guard("solution", self._episode.hidden_values)

    async def aclose(self):
        self._count("close")


class InProcessSandbox:
    """`planted` maps the number of an operation (0 is the first) to the exception that it raises."""

    level = "none"
    limits = Limits()

    def __init__(self, planted=None):
        self.planted = planted or {}
        self.operations = []
        self.children = 0

    def _count(self, phase):
        self.operations.append(phase)
        error = self.planted.get(len(self.operations) - 1)
        if error is not None:
            raise error

    async def open(self, spec, *, zygote=0):
        self._count("load")
        self.children += 1
        try:
            episode = Episode(spec.source)
        except Exception as error:
            raise EnvironmentFault(FaultKind.ENV_ERROR, "load", f"{type(error).__name__}: {error}") from error
        return InProcessEnv(episode, self._count)


@pytest.fixture
def make_sandbox():
    return InProcessSandbox


@pytest.fixture
def make_spec():
    def make(source, *, skill=Skill.DATA_RETRIEVAL, kind="designed"):
        return EnvironmentSpec(name="example", source=source, skill=skill, provenance={"kind": kind})

    return make


@pytest.fixture
def desk():
    """Source of a sound ToolEnv with four goals."""
    return DESK


@pytest.fixture
def dial():
    """Source of a sound TextEnv, partially observed."""
    return DIAL


def edited(source, edits):
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return source


@pytest.fixture
def check_broken(make_spec):
    """Certify an edited base in process: rejected at `gate`, all before passed, and the repair holds `words`."""

    async def check(gate, base, edits, words):
        certificate = await certify(make_spec(edited(BASES[base], edits)), InProcessSandbox())
        assert certificate.verdict is Verdict.REJECTED, certificate
        assert certificate.reason.gate == Gate(gate), certificate.reason
        for word in words:
            assert word in certificate.repair
        told = certificate.repair
        assert len(told) > len(certificate.reason.evidence) + 10, told  # what was seen, and what would mend it
        assert gate in ("lint", "load", "floor", "leak") or "seed" in told.lower(), told
        before = certificate.gates[: certificate.gates.index(certificate.reason)]
        assert {result.status for result in before} <= {GateStatus.PASSED}

    return check


@pytest.fixture
def check_all_sandboxed(make_spec):
    """Certify all entries of a table in the real sandbox: each is rejected at its gate."""

    async def check(table):
        specs = [make_spec(edited(BASES[base], edits)) for _, _, base, edits, _ in table]
        async with open_sandbox() as sandbox:
            certificates = await certify_many(specs, sandbox, settings=CertificateSettings(seeds=5))
        for (gate, defect, *_), certificate in zip(table, certificates, strict=True):
            assert certificate.verdict is Verdict.REJECTED, (defect, certificate)
            assert certificate.reason.gate == Gate(gate), (defect, certificate.reason)

    return check
