import asyncio

import pytest

from spade_environments import ToolCall
from spade_environments.sandbox import open_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACT = ToolCall(name="act", arguments={"action": "x"})

CLOCKS = {
    "time": "time.time(), time.time_ns(), time.monotonic(), time.perf_counter()",
    "localtime": "time.localtime(), time.gmtime(), time.strftime('%c'), time.ctime(), time.asctime()",
    "sleep": "(time.time(), time.sleep(3600), time.time())",
    "datetime": "datetime.datetime.now(), datetime.date.today(), datetime.datetime.now(datetime.timezone.utc)",
    "uuid": "uuid.uuid1(), uuid.uuid4()",
    "secrets": "secrets.token_hex(8), secrets.randbelow(10**9), secrets.choice(range(10**6))",
    "random": "random.random(), random.Random().random(), random.SystemRandom().random()",
    "rng": "self.rng.random()",
    "set order": "list({'a', 'b', 'c'} & {'a', 'b', 'c'}) and 0",
}


@pytest.mark.parametrize("name", CLOCKS)
async def test_what_changes_by_nature_comes_from_the_seed(name, sandbox, make_spec, make_text_env):
    body = make_text_env(
        top="import datetime, random, secrets, time, uuid",
        step=f"return repr(({CLOCKS[name]},)), 0.0, False, False, {{}}",
    )

    async def said(seed, zygote):
        async with await sandbox.open(make_spec(body), zygote=zygote) as env:
            await env.reset(seed)
            return [(await env.step(ACT)).observation.text for _ in range(2)]

    first, second, other = await said(1, 0), await said(1, 1), await said(2, 0)
    assert first == second
    assert name == "set order" or first != other


async def test_a_sleep_takes_no_time_and_moves_the_clock(sandbox, make_spec, make_text_env):
    body = make_text_env(
        top="import time",
        step="t = time.time(); time.sleep(3600)\nreturn str(round(time.time() - t)), 0.0, False, False, {}",
    )
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert (await asyncio.wait_for(env.step(ACT), 5)).observation.text == "3600"


async def test_the_two_zygotes_differ_in_hash_order(sandbox, make_spec, make_text_env):
    body = make_text_env(step="return str(hash('a')), 0.0, False, False, {}")
    said = []
    for zygote in (0, 0, 1):
        async with await sandbox.open(make_spec(body), zygote=zygote) as env:
            await env.reset(0)
            said.append((await env.step(ACT)).observation.text)
    assert said[0] == said[1] != said[2]


LIBRARY = """
from __future__ import annotations
import abc, collections, dataclasses, datetime, decimal, enum, fractions, functools, heapq, json, re, statistics, string
import textwrap, difflib, calendar, csv, io, itertools, unicodedata, hashlib, base64, html, pprint, typing

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass(order=True)
class Card:
    rank: int
    suit: str = "x"
    tags: list[str] = dataclasses.field(default_factory=list)

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
"""
HONEST = [
    "datetime.datetime.strptime('2024-02-29', '%Y-%m-%d').strftime('%A %B')",
    "datetime.date(2024, 1, 31) + datetime.timedelta(days=1)",
    "sorted([Card(3), Card(1)])[0], dataclasses.asdict(Card(2))",
    "decimal.Decimal('1.10') + 2, fractions.Fraction(1, 3), statistics.stdev([1, 2, 4])",
    "unicodedata.name('é'), 'ß'.casefold(), 'bücher'.encode('idna'), '\\\\N{BULLET}'.encode('latin-1', 'replace')",
    "calendar.month(2024, 2), pprint.pformat({'a': [1] * 30}), textwrap.fill('word ' * 40)",
    "list(difflib.unified_diff(['a'], ['b'])), list(csv.reader(io.StringIO('a,b')))",
    "hashlib.sha256(b'x').hexdigest(), base64.b64encode(b'x'), html.escape('<')",
    "json.loads(json.dumps({'a': 1.5})), re.sub(r'(a) (b)', r'\\\\2', 'a b'), string.Template('$x').substitute(x=1)",
    "typing.get_type_hints(Card), functools.reduce(max, [1, 5, 2]), Colour.RED",
    "format(1234567.891, ',.2f'), f'{0.1 + 0.2!r:>30}', 10**50 // 7",
]


@pytest.mark.parametrize("expression", HONEST)
async def test_honest_use_of_the_library_works(expression, sandbox, make_spec, make_text_env):
    body = LIBRARY + make_text_env(step=f"return repr(({expression},)), 0.0, False, False, {{}}")
    spec = make_spec("").with_source(
        body.replace("import abc", "from spade_environments import TextEnv\nimport abc", 1)
    )
    async with await sandbox.open(spec) as env:
        await env.reset(0)
        assert (await env.step(ACT)).observation.text.startswith("(")


NUMPY = {
    "arrays": "np.arange(6).reshape(2, 3).T @ np.eye(2)",
    "linear algebra": "np.linalg.solve(np.eye(2) * 3, np.ones(2)), np.linalg.svd(np.ones((30, 30)))[1][0]",
    "a product of matrices that threads would share": "(np.ones((300, 300)) @ np.ones((300, 300))).sum()",
    "the module's own generator": "np.random.random()",
    "a generator without a seed": "np.random.default_rng().integers(10**9)",
    "masked arrays and transforms": "np.ma.masked_less(np.arange(3), 1).sum(), np.fft.rfft(np.ones(4))[0]",
    "the standard clock beside it": "datetime.datetime.now(), np.datetime64('2024-02-29') + 1",
}


@pytest.mark.parametrize("name", NUMPY)
async def test_numpy_is_there_for_source_that_imports_it_and_is_seeded(name, sandbox, make_spec, make_text_env):
    body = make_text_env(
        top="import datetime\nimport numpy as np", step=f"return repr(({NUMPY[name]},)), 0.0, False, False, {{}}"
    )
    said = []
    for seed, zygote in ((1, 0), (1, 1), (2, 0)):
        async with await sandbox.open(make_spec(body), zygote=zygote) as env:
            await env.reset(seed)
            said.append((await env.step(ACT)).observation.text)
    assert said[0] == said[1]
    assert (said[0] != said[2]) == ("generator" in name or "clock" in name)


async def test_source_without_numpy_does_not_find_it(sandbox, make_spec, make_text_env):
    body = make_text_env(
        step="return str('num' + 'py' in __import__('dataclasses').sys.modules), 0.0, False, False, {}"
    )
    async with await sandbox.open(make_spec(body)) as env:
        await env.reset(0)
        assert (await env.step(ACT)).observation.text == "False"


FINALISED = """
class Loop:
    gone = 0

    def __init__(self):
        self.own = self

    def __del__(self):
        Loop.gone += 1
"""


async def test_objects_are_finalised_at_the_same_point_however_old_the_zygote_is(make_spec, make_text_env):
    reset = "made = 0\nwhile not Loop.gone:\n    made += 1\n    Loop()\nreturn str(made), {}"
    spec, said = make_spec(make_text_env(top=FINALISED, reset=reset)), []
    async with open_sandbox() as sandbox:
        for _ in range(30):
            async with await sandbox.open(spec) as env:
                said.append((await env.reset(0)).text)
    assert len(set(said)) == 1
