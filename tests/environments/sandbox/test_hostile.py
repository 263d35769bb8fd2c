"""Hostile programs: each ends its own episode, under a name that says what it did."""

import ast
import dataclasses

import pytest

from spade_environments import EnvironmentFault, FaultKind, Reply, ToolCall
from spade_environments.sandbox import Limits, LocalSandboxSettings, open_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACT = ToolCall(name="act", arguments={"action": "x"})

SPIN = "while True: pass"
SLEEP = "import queue; queue.Queue().get()"
GROW = "kept = []\nwhile True: kept.append(bytearray(1 << 20))"
STEP = "return 'ok', 0.0, False, False, {}"


async def fault_of(sandbox, spec, *, steps=1):
    with pytest.raises(EnvironmentFault) as caught:
        async with await sandbox.open(spec) as env:
            await env.reset(0)
            for _ in range(steps):
                await env.step(ACT)
    assert len(caught.value.detail) <= 500
    return caught.value.kind, caught.value.phase


LIMITS = {
    "spins on import": ({"top": SPIN}, FaultKind.TIMEOUT_CPU, "load"),
    "spins in reset": ({"reset": SPIN}, FaultKind.TIMEOUT_CPU, "reset"),
    "spins in step": ({"step": SPIN}, FaultKind.TIMEOUT_CPU, "step"),
    "spins in one long regular expression": (
        {"step": "import re; re.match('(a|a)*$', 'a' * 40 + 'b')"}, FaultKind.TIMEOUT_CPU, "step",
    ),
    "catches everything and spins on": (
        {"step": "while True:\n    try:\n        while True: pass\n    except BaseException: pass"},
        FaultKind.TIMEOUT_CPU, "step",
    ),
    "spins in one power of large integers": ({"step": "10 ** 10 ** 9"}, FaultKind.TIMEOUT_CPU, "step"),
    "spins in a finaliser": (
        {"top": "class Late:\n    def __del__(self):\n        while True: pass", "step": f"Late()\n{STEP}"},
        FaultKind.TIMEOUT_CPU, "step",
    ),
    "spins in a finaliser that runs as the step returns": (
        {"top": "class Late:\n    def __del__(self):\n        while True: pass", "step": f"late = Late()\n{STEP}"},
        FaultKind.TIMEOUT_CPU, "step",
    ),
    "spins as its observation is read": (
        {"top": "class Word(str):\n    def __len__(self):\n        while True: pass",
         "step": "return len(Word()), 0.0, False, False, {}"}, FaultKind.TIMEOUT_CPU, "step",
    ),
    "grows on import": ({"top": GROW}, FaultKind.MEMORY, "load"),
    "grows in step": ({"step": GROW}, FaultKind.MEMORY, "step"),
    "asks for 64 GiB": ({"step": "bytearray(64 << 30)"}, FaultKind.MEMORY, "step"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
async def test_a_limit_is_kept_from_outside(name, tight_sandbox, make_spec, make_text_env):
    parts, kind, phase = LIMITS[name]
    assert await fault_of(tight_sandbox, make_spec(make_text_env(**parts))) == (kind, phase)


TOOL_ENV = """
class Desk(ToolEnv):
    def setup(self):
        self.state = {SETUP}

    @tool
    def act(self, action: str) -> str:
        "Do it."
        {TOOL}
        return "done"

    def goals(self):
        {GOALS}
        return [Goal("state", "Do it.", lambda state, calls, reply: {CHECK})]

    def solution(self):
        return [[Call("act", action="x")]]
"""
TOOL_PARTS = {
    "setup": ({"SETUP": "sum(iter(int, 1))"}, [], "reset"),
    "goals()": ({"GOALS": "while True: pass"}, [], "reset"),
    "a tool": ({"TOOL": "while True: pass"}, [ACT], "step"),
    "a goal's check": (
        {"TOOL": "self.state += 1", "CHECK": "sum(iter(int, 1))"}, [ACT, Reply(text="done")], "step",
    ),
    "the comparison of states": (
        {"SETUP": "type('S', (), {'__ne__': lambda a, b: sum(iter(int, 1))})()"}, [Reply(text="done")], "step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOOL_PARTS)
async def test_a_tool_environment_that_spins_is_stopped_wherever_it_does(name, tight_sandbox, make_spec):
    parts, actions, phase = TOOL_PARTS[name]
    body = TOOL_ENV
    for part, default in (("SETUP", "1"), ("TOOL", "pass"), ("GOALS", "pass"), ("CHECK", "True")):
        body = body.replace("{" + part + "}", parts.get(part, default))
    with pytest.raises(EnvironmentFault) as caught:
        async with await tight_sandbox.open(make_spec(body)) as env:
            await env.reset(0)
            for action in actions:
                await env.step(action)
    assert (caught.value.kind, caught.value.phase) == (FaultKind.TIMEOUT_CPU, phase)


async def test_memory_that_grows_step_by_step_is_found(tight_sandbox, make_spec, make_text_env):
    grow = "KEPT.append(bytearray(b'x') * (4 << 20))\n" + STEP
    spec = make_spec(make_text_env(top="KEPT = []", step=grow))
    assert await fault_of(tight_sandbox, spec, steps=200) == (FaultKind.MEMORY, "step")


async def test_the_heaviest_episode_ends_when_all_together_pass_the_machines_share(make_spec, make_text_env):
    settings = LocalSandboxSettings(limits=Limits(total_memory=80 * 2**20))
    fill = "self.kept = bytearray(seed << 20)\nfor place in range(0, seed << 20, 4096): self.kept[place] = 1"
    body = make_text_env(reset=f"{fill}\nreturn 'go', {{}}")
    async with open_sandbox(settings) as sandbox:
        light, heavy = await sandbox.open(make_spec(body)), await sandbox.open(make_spec(body))
        await light.reset(20)
        with pytest.raises(EnvironmentFault, match="all episodes together") as caught:
            await heavy.reset(70)
            while True:
                await heavy.step(ACT)
        assert caught.value.kind is FaultKind.MEMORY
        assert (await light.step(ACT)).observation.text == "ok"


@pytest.mark.parametrize(("part", "phase"), [("top", "load"), ("reset", "reset"), ("step", "step")])
async def test_waiting_for_ever_is_a_wall_timeout(part, phase, impatient_sandbox, make_spec, make_text_env):
    spec = make_spec(make_text_env(**{part: SLEEP}))
    assert await fault_of(impatient_sandbox, spec) == (FaultKind.TIMEOUT_WALL, phase)


async def test_many_cheap_steps_use_up_the_episode_budget(tight_sandbox, make_spec, make_text_env):
    body = make_text_env(
        top="import itertools, collections",
        step=f"collections.deque(itertools.repeat(None, 4_000_000), maxlen=0)\n{STEP}",
    )
    assert await fault_of(tight_sandbox, make_spec(body), steps=400) == (FaultKind.BUDGET_EPISODE, "step")


ENDS = {
    "raises SystemExit on import": ({"top": "raise SystemExit"}, FaultKind.EXIT, "load"),
    "raises SystemExit in step": ({"step": "raise SystemExit(0)"}, FaultKind.EXIT, "step"),
    "finds os and leaves": (
        {"step": "import dataclasses; dataclasses.sys.modules['os']._exit(0)"}, FaultKind.EXIT, "step",
    ),
    "leaves with the status of a failed set-up": (
        {"step": "import dataclasses; dataclasses.sys.modules['os']._exit(70)"}, FaultKind.EXIT, "step",
    ),
    "dies of a signal": (
        {"step": "import dataclasses; dataclasses.sys.modules['ctypes'].string_at(0)"}, FaultKind.CRASH, "step",
    ),
    "recurses without end": (
        {"step": "import dataclasses; dataclasses.sys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)"},
        (FaultKind.MEMORY, FaultKind.CRASH, FaultKind.ENV_ERROR, FaultKind.TIMEOUT_CPU), "step",
    ),
    "raises": ({"step": "return 1 // 0"}, FaultKind.ENV_ERROR, "step"),
    "raises what cannot be printed": (
        {
            "top": "class Rude(BaseException):\n    def __str__(self): raise self",
            "step": "raise Rude",
        }, FaultKind.ENV_ERROR, "step",
    ),
    "raises KeyboardInterrupt": ({"step": "raise KeyboardInterrupt"}, FaultKind.ENV_ERROR, "step"),
    "raises a long story": ({"step": "raise ValueError('x' * 10**6)"}, FaultKind.ENV_ERROR, "step"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
async def test_an_end_is_seen_at_once_and_named(name, sandbox, make_spec, make_text_env):
    parts, kind, phase = ENDS[name]
    found, where = await fault_of(sandbox, make_spec(make_text_env(**parts)))
    assert where == phase
    assert found in (kind if isinstance(kind, tuple) else (kind,))


REPLIES = {
    "reward NaN": "return 'x', float('nan'), False, False, {}",
    "reward infinite": "return 'x', float('inf'), False, False, {}",
    "reward above one": "return 'x', 1.0000001, False, False, {}",
    "reward below zero": "return 'x', -0.1, False, False, {}",
    "reward true": "return 'x', True, False, False, {}",
    "reward text": "return 'x', '1', False, False, {}",
    "reward huge": "return 'x', 10**400, False, False, {}",
    "observation None": "return None, 0.0, False, False, {}",
    "observation bytes": "return b'x', 0.0, False, False, {}",
    "observation a subclass of str": "return type('S', (str,), {})('x'), 0.0, False, False, {}",
    "observation of 32,001 characters": "return 'x' * 32001, 0.0, False, False, {}",
    "observation of 300 KB": "return 'x' * 300_000, 0.0, False, False, {}",
    "observation of half a surrogate pair": r"return '\ud800', 0.0, False, False, {}",
    "info with a function": "return 'x', 0.0, False, False, {'f': print}",
    "info of 5 KB": "return 'x', 0.0, False, False, {'f': 'x' * 5000}",
    "info with NaN": "return 'x', 0.0, False, False, {'f': float('nan')}",
    "info nested deep": "d = {}\nfor _ in range(600): d = {'d': d}\nreturn 'x', 0.0, False, False, d",
    "three values": "return 'x', 0.0, False",
    "observation that claims to be a str": (
        "return type('S', (), {'__class__': property(lambda self: str)})(), 0.0, False, False, {}"
    ),
    "reward a subclass of float": "return 'x', type('F', (float,), {})(1.0), False, False, {}",
    "reward that claims to be a float": (
        "return 'x', type('F', (), {'__class__': property(lambda self: float)})(), False, False, {}"
    ),
    "reward complex": "return 'x', 1j, False, False, {}",
    "reward a Decimal": "import decimal; return 'x', decimal.Decimal(1), False, False, {}",
    "info a subclass of dict": "return 'x', 0.0, False, False, type('D', (dict,), {})()",
    "info that holds itself": "d = {}\nd['d'] = d\nreturn 'x', 0.0, False, False, d",
    "a tuple that claims to have five values": (
        "return type('T', (tuple,), {'__len__': lambda self: 5})(('x', 1.0, True))"
    ),
    "terminated a number": "return 'x', 0.0, 1, False, {}",
}


@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_outside_the_contract_is_a_protocol_fault(name, sandbox, make_spec, make_text_env):
    found, where = await fault_of(sandbox, make_spec(make_text_env(step=REPLIES[name])))
    assert where == "step"
    assert found in (FaultKind.PROTOCOL, FaultKind.ENV_ERROR)
    if not name.startswith(("reward huge", "a tuple")):
        assert found is FaultKind.PROTOCOL


FRAME = (
    "import dataclasses, json\nos = dataclasses.sys.modules['os']\n"
    "def send(value, head=None):\n"
    "    body = value if isinstance(value, bytes) else json.dumps(value).encode()\n"
    "    os.write(3, (len(body) if head is None else head).to_bytes(4, 'big') + body)\n"
    "WIN = {'observation': 'x', 'role': 'tool', 'reward': 1.0, 'terminated': True, 'truncated': False, 'info': {},"
    " 'unlocked': []}\n"
)
FORGED = {
    "a frame before it was asked": {"top": FRAME + "send({'nonce': '0' * 16, 'ok': WIN})"},
    "an answer without the nonce": {"top": FRAME, "step": f"send({{'nonce': '', 'ok': WIN}})\n{STEP}"},
    "a second answer to come": {"top": FRAME, "reset": "send({'nonce': 'x', 'ok': WIN})\nreturn 'go', {}"},
    "a length of 4 GiB": {"top": FRAME, "step": f"send(b'', 2**32 - 1)\n{STEP}"},
    "no JSON": {"top": FRAME, "step": f"send(b'\\xff\\x00')\n{STEP}"},
    "an empty frame": {"top": FRAME, "step": f"send(b'')\n{STEP}"},
    "a pickle": {"top": FRAME, "step": f"send(b'cos\\nsystem\\n(S\"true\"\\ntR.')\n{STEP}"},
    "an unknown field": {"top": FRAME, "step": f"send({{'nonce': '', 'ok': {{**WIN, 'extra': 1}}}})\n{STEP}"},
    "200 MB": {"top": FRAME, "step": f"for _ in range(200): os.write(3, b'x' * 2**20)\n{STEP}"},
    "4 KiB byte by byte": {
        "top": FRAME, "step": f"for n in range(4200): os.write(3, b'\\x00\\x00\\x10\\x00'[n % 4:][:1])\n{STEP}",
    },
    "its own answer, and a second one": {
        "top": FRAME,
        "step": "frame = dataclasses.sys._getframe()\nwhile 'request' not in frame.f_locals: frame = frame.f_back\n"
        f"send({{'nonce': frame.f_locals['request']['nonce'], 'ok': {{**WIN, 'terminated': False}}}})\n{STEP}",
    },
    "a closed channel": {"top": FRAME, "step": f"os.close(3)\nimport queue; queue.Queue().get()\n{STEP}"},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
async def test_a_forged_frame_ends_the_episode(name, sandbox, make_spec, make_text_env):
    found, _ = await fault_of(sandbox, make_spec(make_text_env(**FORGED[name])), steps=2)
    assert found is FaultKind.PROTOCOL


async def test_a_frame_that_never_ends_is_a_wall_timeout(impatient_sandbox, make_spec, make_text_env):
    step = "os.write(3, b'\\x00\\x00\\x10\\x00{')\nimport queue; queue.Queue().get()"
    spec = make_spec(make_text_env(top=FRAME, step=step))
    assert await fault_of(impatient_sandbox, spec) == (FaultKind.TIMEOUT_WALL, "step")


async def test_a_fault_is_told_again_to_whoever_goes_on(sandbox, make_spec, make_text_env):
    async with await sandbox.open(make_spec(make_text_env(step="return 1 // 0"))) as env:
        await env.reset(0)
        faults = []
        for _ in range(2):
            with pytest.raises(EnvironmentFault) as caught:
                await env.step(ACT)
            faults.append(caught.value)
    assert faults[0] is faults[1]
    assert faults[0].detail == "ZeroDivisionError: integer division or modulo by zero (line 7)"


REFUSED = {
    "a syntax error": "def f(:",
    "an import outside the list": "import socket",
    "no class": "x = 1",
    "a tool without a type": "class A(ToolEnv):\n    @tool\n    def f(self, x):\n        '''Do.'''",
}


@pytest.mark.parametrize("name", REFUSED)
async def test_source_that_cannot_be_an_environment_is_rejected_at_load(name, sandbox, make_spec):
    assert await fault_of(sandbox, make_spec(REFUSED[name])) == (FaultKind.REJECT, "load")


async def test_a_refused_import_is_named_with_what_to_use(sandbox, make_spec):
    with pytest.raises(EnvironmentFault, match=r"'socket' is not available here; use one of .*math"):
        await sandbox.open(make_spec("import socket"))


async def test_a_source_beyond_the_size_limit_never_reaches_a_child(sandbox, make_spec):
    with pytest.raises(EnvironmentFault, match="at most 262144") as caught:
        await sandbox.open(make_spec("#" * 300_000))
    assert caught.value.kind is FaultKind.REJECT


PEEKS = {
    "environment variables": "dict(sys.modules['os'].environ)",
    "arguments": "(sys.argv, sys.orig_argv)",
    "modules": "sorted(sys.modules)",
}


async def test_a_child_holds_no_secret_and_no_host_module(monkeypatch, make_spec, make_text_env):
    monkeypatch.setenv("HF_TOKEN", "CANARY")
    seen = {}
    async with open_sandbox() as sandbox:
        for name, expression in PEEKS.items():
            step = f"import dataclasses; sys = dataclasses.sys\nreturn repr({expression}), 0.0, False, False, {{}}"
            async with await sandbox.open(make_spec(make_text_env(step=step))) as env:
                await env.reset(0)
                seen[name] = (await env.step(ACT)).observation.text
    assert seen["environment variables"] == "{'PYTHONHASHSEED': '0', 'LC_CTYPE': 'C.UTF-8', 'TZ': 'UTC'}"
    assert seen["arguments"] == "([], [])"
    assert "'inside.episode'" in seen["modules"]
    assert not any(name in seen["modules"] for name in ("msgspec", "jsonschema", "torch", "site-packages"))


async def test_a_child_that_searches_its_own_memory_finds_no_hint_and_no_host_object(sandbox, make_spec, make_text_env):
    step = (
        "import dataclasses; gc = dataclasses.sys.modules['inside.zygote'].gc; gc.unfreeze()\n"
        "wanted = ' '.join(['say', 'please'])\n"
        "texts = [t for o in gc.get_objects() for t in gc.get_referents(o) if type(t) is str and t is not wanted]\n"
        "frame, names = dataclasses.sys._getframe(), []\n"
        "while frame: names.append(frame.f_code.co_filename.rpartition('/')[2]); frame = frame.f_back\n"
        "return repr((sum(wanted in t for t in texts), len(texts) > 1000, names)), 0.0, False, False, {}"
    )
    spec = dataclasses.replace(make_spec(make_text_env(step=step)), hint="say please")
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        hints, searched, files = ast.literal_eval((await env.step(ACT)).observation.text)
    assert (hints, searched) == (0, True)
    assert set(files) <= {"environment.py", "episode.py", "worker.py", "zygote.py", "attendant.py", "<string>"}


SPOILS = """
import builtins, dataclasses, json, random
sys = dataclasses.sys
builtins.len = lambda value: 5
json.dumps = json.loads = random.random = lambda *_: 1
sys.modules["inside.contract"].TextEnv.reset = None
for name in list(sys.modules):
    if name != "inside.worker": sys.modules[name] = None
"""


async def test_what_an_episode_spoils_is_whole_in_the_next(sandbox, make_spec, make_text_env):
    clean = make_spec(make_text_env(top="import json", step="return json.dumps([len('abc')]), 0.0, False, False, {}"))
    spoiling = make_spec(make_text_env(reset=SPOILS + "return 'go', {}"))
    said = []
    for spec in (clean, spoiling, clean):
        async with await sandbox.open(spec) as env:
            try:
                await env.reset(0)
                said.append((await env.step(ACT)).observation.text)
            except EnvironmentFault:
                said.append("fault")
    assert said[0] == said[2] == "[3]"


CONTAINED = {
    "fork": "sys.modules['os'].fork()",
    "the parent's death": "sys.modules['os'].kill(sys.modules['os'].getppid(), 9)",
    "more address space": "__import__('resource').setrlimit(__import__('resource').RLIMIT_AS, (2**40, 2**40))",
}


@pytest.mark.parametrize("name", CONTAINED)
async def test_what_a_child_tries_on_the_machine_is_refused(name, sandbox, make_spec, make_text_env):
    step = f"import dataclasses; sys = dataclasses.sys\ntry:\n    {CONTAINED[name]}\n    said = 'done'\n" + (
        "except Exception as error: said = type(error).__name__\nreturn said, 0.0, False, False, {}"
    )
    async with await sandbox.open(make_spec(make_text_env(step=step))) as env:
        await env.reset(0)
        assert (await env.step(ACT)).observation.text != "done"
