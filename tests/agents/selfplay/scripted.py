"""A whole run without a model: scripted designs and plays, an engine that counts, everything else real."""

from __future__ import annotations

import json
import os
import random
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spade_agents.designer.corpus import Corpus, Document
from spade_agents.designer.memory import Memory
from spade_agents.messages import Message
from spade_agents.policy.scripted import ScriptedPolicy
from spade_agents.rendering import HermesRenderer
from spade_agents.rollout import open_transport
from spade_agents.selfplay.loop import StopRequest, run_loop
from spade_agents.selfplay.pool import pool_specs
from spade_agents.selfplay.preflight import continued_from
from spade_agents.selfplay.resources import Resources
from spade_agents.selfplay.run import take_up
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings
from spade_agents.selfplay.state import LoopState
from spade_agents.settings import load_settings
from spade_agents.telemetry import LineReporter, SilentReporter
from spade_agents.training.metrics import TokenStats, summary
from spade_agents.training.samples import SupervisedSample
from spade_environments import ToolCall
from spade_environments.certificate import NoveltyIndex
from spade_environments.sandbox import open_sandbox
from tests.agents.tiny import tokenizer

NOUNS = ("lamp", "kiln", "fan", "pump", "valve", "motor", "mixer", "oven")
QUICK = (
    "run.rollouts=4",
    "selfplay.environments=3",
    "selfplay.plays=4",
    "selfplay.hint_plays=4",
    "selfplay.period=2",
    "designer.call.attempts=3",
    "designer.call.sampling.max_tokens=4000",
    "certificate.seeds=2",
    "certificate.gates=['lint', 'load', 'reset', 'determinism', 'goals', 'gold']",
    "novelty.threshold=1.0",
    "designer.skills=['state modification', 'data retrieval']",
)


def environment(rng: random.Random) -> str:
    """A short one-tool environment whose structure depends on the draw; on 13 its tool breaks."""
    noun, rounds = rng.choice(NOUNS), rng.randint(1, 2)
    extras = "".join(
        f'''
    @tool
    def read_{name}(self) -> str:
        """Read the {name}."""
        return str(self.state["level"] {operator} {rng.randint(2, 9)})
'''
        for name, operator in zip(rng.sample(("gauge", "meter", "dial"), rng.randint(0, 3)), "+-*", strict=False)
    )
    goals = ", ".join(
        f'Goal("state", f"Set the {noun} to {{self.wanted[{i}]}}.", lambda state, calls, reply: '
        f'state["level"] == self.wanted[{i}])'
        for i in range(rounds)
    )
    gold = ", ".join(f'[Call("set_level", value=self.wanted[{i}]), "done"]' for i in range(rounds))
    return f'''from spade_environments import Call, Goal, ToolEnv, tool


class {noun.title()}Desk(ToolEnv):
    def setup(self):
        self.state = {{"level": 0}}
        self.wanted = [self.rng.randint(20, 900) * {rng.randint(2, 9)} + i for i in range({rounds})]

    @tool
    def set_level(self, value: int) -> str:
        """Set the level."""
        if value == 13:
            raise ZeroDivisionError("13")
        self.state["level"] = value
        return "set"
{extras}
    def goals(self):
        return [{goals}]

    def solution(self):
        return [{gold}]
'''


@dataclass(kw_only=True)
class Behaviour:
    """How often designs are broken, and how well plays go with and without a hint."""

    broken: float = 0.3
    skill: float = 0.4
    hinted_skill: float = 0.9
    thirteen: float = 0.0

    def respond(self, conversation, rng: random.Random) -> Message | str:
        opening = conversation.messages[0].content
        if opening == "design":
            source = "class Broken:" if rng.random() < self.broken else environment(rng)
            return Message(role="assistant", content=f"```python\n{source}\n```")
        if opening == "hint":
            return Message(role="assistant", content="Set it first, then say so.")
        return self.play(conversation, rng)

    def play(self, conversation, rng: random.Random) -> Message:
        last = conversation.messages[-1]
        if last.role == "tool":
            return Message(role="assistant", content="done")
        wanted = int(re.search(r"to (\d+)\.", last.content)[1])
        if rng.random() < self.thirteen:
            wanted = 13
        elif rng.random() > (self.hinted_skill if "hint:" in conversation.messages[1].content else self.skill):
            wanted += 1
        call = ToolCall(name="set_level", arguments={"value": wanted}, id="1")
        return Message(role="assistant", content="", calls=(call,))

    def policy(self) -> ScriptedPolicy:
        return ScriptedPolicy(self.respond, renderer=HermesRenderer(tokenizer(), style="compact"))


@dataclass(kw_only=True)
class CountingEngine:
    """Keeps what it was asked to train on; its only weight is the number of updates."""

    step: int = 0
    rank: int = 0
    batches: list[tuple] = field(default_factory=list)

    def update(self, samples, *, replay=()):
        self.step += 1
        self.batches.append((tuple(samples), tuple(replay)))
        stats = TokenStats(policy_loss=sum(sample.advantage * len(sample.token_ids) for sample in samples))
        kept = sum(sample.advantage != 0 for sample in samples)
        return summary(stats, step=self.step, norms=[1.0], kl_coefficient=0.0, replay_weight=1.0,
                       kept=kept, dropped=len(samples) - kept, seconds=0.0)  # fmt: skip

    def state_dict(self):
        return {"step": self.step}

    def export(self, folder: Path):
        folder.mkdir()
        (folder / "weights.json").write_text(json.dumps(self.state_dict()))

    def save(self, folder: Path):
        folder.mkdir()
        (folder / "engine.json").write_text(json.dumps(self.state_dict()))

    def load(self, folder: Path):
        self.step = json.loads((folder / "engine.json").read_text())["step"]


def replay(seed: int, count: int) -> tuple[SupervisedSample, ...]:
    rng = random.Random(seed)
    return tuple(SupervisedSample(token_ids=(rng.randrange(9), 1, 2), mask=(False, True, True)) for _ in range(count))


def open_replay(folder: Path):
    return replay


def settings(*overrides: str) -> RunSettings:
    return load_settings(RunSettings, None, [*QUICK, *overrides])


@asynccontextmanager
async def scripted_resources(path: Path, chosen: RunSettings, behaviour: Behaviour | None = None, evaluator=None):
    """Resources of a run at `path`, new or existing, with scripted policies."""
    policy = (behaviour or Behaviour()).policy()
    is_there = os.path.exists(path)  # noqa: PTH110, ASYNC240
    async with (
        open_sandbox(chosen.sandbox) as sandbox,
        open_transport(chosen.rollout.transport, sandbox) as plays,
    ):
        directory = RunDirectory(path) if is_there else RunDirectory.create(path, chosen, sandbox.level)
        yield Resources(
            settings=chosen,
            directory=directory,
            policy=policy,
            designer=policy,
            engine=CountingEngine(),
            sandbox=sandbox,
            plays=plays,
            memory=Memory.open(directory.memory, chosen.designer.memory),
            progress=SilentReporter(),
            corpus=None
            if chosen.designer.corpus == "none"
            else Corpus(documents=tuple(Document(id=str(i), text=f"text {i}") for i in range(5))),
            novelty=NoveltyIndex(threshold=chosen.novelty.threshold) if chosen.novelty.enabled else None,
            fixed_pool=pool_specs(chosen.selfplay.pool.source) if hasattr(chosen.selfplay.pool, "source") else (),
            evaluator=evaluator,
            replay=replay if chosen.training.replay.type == "supervised" else None,
        )


def state_of(resources: Resources, is_there: bool) -> LoopState:
    """Where a run begins or goes on."""
    if not is_there:
        return LoopState()
    return take_up(resources, continued_from(resources.directory.checkpoints, resources.settings))


async def run(path: Path, chosen: RunSettings, behaviour: Behaviour | None = None, evaluator=None):
    """Start or resume a run and go on to its end; resources and final state."""
    is_there = os.path.exists(path)  # noqa: PTH110, ASYNC240
    async with scripted_resources(path, chosen, behaviour, evaluator) as resources:
        return resources, await run_loop(resources, state_of(resources, is_there), StopRequest())


async def interruptible(path: Path, chosen: RunSettings) -> None:
    """As `run`, but Ctrl-C stops it after the rollout in hand; every line said goes to standard output."""
    is_there = os.path.exists(path)  # noqa: PTH110, ASYNC240
    stop, progress = StopRequest(), LineReporter(sys.stdout)
    async with scripted_resources(path, chosen) as resources:
        state = state_of(resources, is_there)
        resources.progress = progress
        with stop.on_interrupt(progress.say):
            await run_loop(resources, state, stop)


if __name__ == "__main__":
    import asyncio

    asyncio.run(interruptible(Path(sys.argv[1]), settings(*sys.argv[2:])))
