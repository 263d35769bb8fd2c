"""A sandbox for a whole test module, and the small programs that the tests run in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from spade_environments import EnvironmentSpec, Skill
from spade_environments.sandbox import Limits, LocalSandboxSettings, Sandbox, open_sandbox

IMPORT = "from spade_environments import Call, Goal, TextEnv, ToolEnv, ToolError, tool\n"

DESK = '''
class Desk(ToolEnv):
    """Orders that can be read, cancelled and, once the user asks for it, refunded."""

    hidden = ("state",)

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
    def cancel_order(self, order_id: str, reasons: list[str] | None = None, notify: bool = False, days: int = 1) -> str:
        """Cancel an open order."""
        self.get_order(order_id)["status"] = "cancelled"
        return "cancelled"

    @tool
    def refund_order(self, order_id: str) -> str:
        """Refund a cancelled order."""
        self.get_order(order_id)["status"] = "refunded"
        return "refunded"

    def goals(self):
        first, second = self.ids[:2]
        return [
            Goal("replied", f"What is the total of {first}?", value=self.state[first]["total"]),
            Goal("state", f"Cancel {second}.", lambda s, c, r: s[second]["status"] == "cancelled",
                 unlocks=("refund_order",)),
            Goal("state", "And refund it.", lambda s, c, r: s[second]["status"] == "refunded"),
        ]

    def solution(self):
        first, second = self.ids[:2]
        return [
            [Call("get_order", order_id=first), str(self.state[first]["total"])],
            [Call("cancel_order", order_id=second)],
            [Call("refund_order", order_id=second)],
        ]
'''


def spec_of(body: str, **provenance: str) -> EnvironmentSpec:
    """A spec whose source is the contract's import and `body`."""
    return EnvironmentSpec(name="probe", source=IMPORT + body, skill=Skill.DATA_RETRIEVAL, provenance=provenance)


def text_env(reset: str = "return 'go', {}", step: str = "return 'ok', 0.0, False, False, {}", top: str = "") -> str:
    """A TextEnv whose method bodies are the given lines."""
    return (
        f"{top}\nclass Probe(TextEnv):\n"
        f"    def reset(self, seed):\n        {_indented(reset)}\n"
        f"    def step(self, action):\n        {_indented(step)}\n"
        "    def solution(self):\n        return ['x']\n"
    )


def _indented(body: str) -> str:
    return body.strip("\n").replace("\n", "\n        ")


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., EnvironmentSpec]:
    return spec_of


@pytest.fixture(scope="session")
def make_text_env() -> Callable[..., str]:
    return text_env


@pytest.fixture(scope="session")
def desk() -> EnvironmentSpec:
    return spec_of(DESK)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    """The limits of every day, but for a wall limit that a crowded machine does not reach."""
    async with open_sandbox(LocalSandboxSettings(limits=Limits(wall_floor=120.0, episode_wall=600.0))) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tight_sandbox() -> AsyncIterator[Sandbox]:
    """The same with small limits on CPU and memory, so that a test reaches them soon."""
    limits = Limits(step_cpu=0.15, load_cpu=0.2, episode_cpu=0.6, wall_floor=120.0, memory=64 * 2**20)
    async with open_sandbox(LocalSandboxSettings(limits=limits)) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient_sandbox() -> AsyncIterator[Sandbox]:
    """The same with a small wall limit."""
    limits = Limits(wall_factor=0.0, wall_floor=1.0)
    async with open_sandbox(LocalSandboxSettings(limits=limits)) as opened:
        yield opened


@pytest.fixture
def victims(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A file and a folder outside of the jail, and a file that is listed."""
    tmp_path.chmod(0o755)
    outside, listed, folder = tmp_path / "outside", tmp_path / "listed", tmp_path / "folder"
    outside.write_text("kept")
    listed.mkdir()
    (listed / "file").write_text("kept")
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    outside.chmod(0o666)
    (listed / "file").chmod(0o666)
    return outside, listed / "file", folder
