"""Designing a pool without training: slots in windows, each saved when it is decided, gone on with after a kill."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from spade_agents.designer.assignment import Assignment
from spade_agents.designer.attempts import DesignOutcome
from spade_agents.designer.corpus import Corpus, corpus_named
from spade_agents.designer.design import GATE_BUDGET, GATE_INFRASTRUCTURE, Designer, DesignerSettings
from spade_agents.designer.memory import Memory
from spade_agents.designer.requests import DesignRequest
from spade_agents.errors import InfrastructureError
from spade_agents.policy import Policy, open_policy
from spade_agents.policy.budget import Budget
from spade_agents.policy.cached import CachedPolicy, CompletionCache, Spent
from spade_agents.rollout import prompt_style
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.admission import SandboxCertifier, novelty_rule
from spade_agents.selfplay.design_journal import DesignJournal, open_journal
from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.telemetry import ProgressReporter, SilentReporter
from spade_environments import EnvironmentSpec
from spade_environments.certificate import NoveltyIndex
from spade_environments.sandbox import Sandbox, open_sandbox

__all__ = ["PoolDesigned", "PoolDesigner", "check_answered", "design_pool", "fill_pool"]

PASSES = 2
"""How often a slot that failed for the endpoint's reasons is tried before it is left for another day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDesigned:
    """Where a pool stands when control returns.

    Attributes:
        path: of the pool.
        environments: in it.
        undone: slots that are still open, by why: `infrastructure` or `budget`.
        told: the last error behind an open slot; empty where there is none.
        spent: on completions, by earlier processes too.
        cached: completions of this process that were there already.
        requests, retries: made to an endpoint by this process.
    """

    path: Path
    environments: int
    undone: Counter[str]
    told: str
    spent: Spent
    cached: int = 0
    requests: int = 0
    retries: int = 0


@dataclass(slots=True, kw_only=True)
class PoolDesigner:
    """Fills the open slots of a journal.

    Attributes:
        policy: behind a cache and a budget.
        corpus, memory: `None` for none.
        undone, told: see `PoolDesigned`.
    """

    settings: PoolDesignSettings
    journal: DesignJournal
    policy: CachedPolicy
    sandbox: Sandbox
    progress: ProgressReporter
    corpus: Corpus | None = None
    memory: Memory | None = None
    undone: Counter[str] = field(default_factory=Counter)
    told: str = ""
    _novelty: NoveltyIndex | None = None
    _known: set[str] = field(default_factory=set)

    async def fill(self) -> None:
        """Design until every slot is decided, the budget is spent, or nothing is answered any more.

        Raises:
            UsageError, PolicyError: the endpoint refuses what is asked of it; what was decided before is saved.
        """
        settings, slots = self.settings, self.journal.slots
        if settings.novelty.enabled:
            self._novelty = NoveltyIndex(threshold=settings.novelty.threshold)
        for outcome in slots.values():
            if outcome.spec is not None:
                self._remember(outcome.spec)
        self.progress.begin("designing", settings.slots)
        self.progress.advance(sum(slot < settings.slots for slot in slots))
        for _ in range(PASSES):
            still_open = [slot for slot in range(settings.slots) if slot not in slots]
            self.undone = Counter()
            for start in range(0, len(still_open), settings.at_once):
                decided = len(slots)
                await self._window(still_open[start : start + settings.at_once])
                if self.undone[GATE_BUDGET] or (self.undone and len(slots) == decided):
                    rest = len(still_open) - start - settings.at_once
                    why = GATE_BUDGET if self.undone[GATE_BUDGET] else GATE_INFRASTRUCTURE
                    self.undone[why] += max(0, rest)
                    return
            if not self.undone:
                return

    async def _window(self, numbers: list[int]) -> None:
        designer = Designer(
            policy=self.policy,
            certifier=SandboxCertifier(self.sandbox, self.settings.certificate),
            settings=self._call,
            admit=self._admission(),
            known=lambda spec: spec.id in self._known,
            bears_faults=True,
        )
        requests = [self._request(number) for number in numbers]
        await designer.design_set(requests, seed=self.settings.seed, numbers=numbers, report=self._decided)

    def _admission(self) -> Callable[[EnvironmentSpec], str | None]:
        """Novelty, and no environment twice even where that rule is off."""
        is_new, in_this_window = novelty_rule(self._novelty), set[str]()

        def admit(spec: EnvironmentSpec) -> str | None:
            if spec.id in in_this_window:
                return "another slot has just brought this very environment: write another one"
            in_this_window.add(spec.id)
            return is_new(spec)

        return admit

    def _decided(self, slot: int, outcome: DesignOutcome) -> None:
        last = outcome.attempts[-1]
        if last.gate in (GATE_INFRASTRUCTURE, GATE_BUDGET):
            self.undone[last.gate] += 1
            self.told = last.repair
            return
        self.journal.keep(slot, outcome)
        if outcome.spec is not None:
            self._remember(outcome.spec)
        self.progress.advance()

    def _remember(self, spec: EnvironmentSpec) -> None:
        self._known.add(spec.id)
        if self._novelty is not None:
            self._novelty.add(spec.name, spec.source)

    @property
    def _call(self) -> DesignerSettings:
        style = self.settings.style
        return replace(
            self.settings.call,
            style=prompt_style(self.policy.policy) if style == "auto" else style,
            max_source_bytes=self.settings.certificate.max_source_bytes,
        )

    def _request(self, slot: int) -> DesignRequest:
        settings, style = self.settings, self._call.style
        skills = settings.skills_for(style)
        assignment = Assignment(
            settings=settings.assignment,
            style=style,
            corpus=self.corpus,
            words=settings.corpus_words,
            memory=self.memory,
        )
        return assignment.request(
            skills[slot % len(skills)],
            position=slot,
            seed=derive_seed(settings.seed, "assignment", slot),
            memory_seed=derive_seed(settings.seed, "memory", slot),
        )


def design_pool(
    settings: PoolDesignSettings, out: Path, *, policy: Policy | None = None, progress: ProgressReporter | None = None
) -> PoolDesigned:
    """Design a pool, or go on with one that was begun under the same settings.

    Every certified environment is on disk as soon as its slot is decided, and every completion as soon as it is there:
    a process that is killed loses nothing that was paid for, and the next one repeats nothing.

    Args:
        settings: who designs what.
        out: the pool's folder; new, or one that was begun here.
        policy: the designer; opened from `settings.model` unless given.
        progress: where progress goes; nowhere by default.

    Raises:
        UsageError: `out` is something else, the model or the corpus is missing, or the endpoint refuses the request.
        ConfigurationError: the pool was begun under other settings.
    """
    return asyncio.run(_designed(settings, out, policy, progress or SilentReporter()))


async def _designed(
    settings: PoolDesignSettings, out: Path, policy: Policy | None, progress: ProgressReporter
) -> PoolDesigned:
    corpus = corpus_named(settings.corpus, seed=settings.seed)
    if policy is None:
        async with open_policy(
            settings.model, backend=settings.backend, vllm=settings.vllm, endpoint=settings.endpoint
        ) as opened:
            return await fill_pool(settings, out, opened, corpus, progress)
    return await fill_pool(settings, out, policy, corpus, progress)


async def fill_pool(
    settings: PoolDesignSettings, out: Path, policy: Policy, corpus: Corpus | None, progress: ProgressReporter
) -> PoolDesigned:
    """As `design_pool`, inside a running event loop and with everything opened that a model or a file names."""
    async with open_sandbox(settings.sandbox) as sandbox:
        with (
            _memory(settings) as memory,
            open_journal(out, settings) as journal,
            closing(CompletionCache.open(out / "completions.sqlite")) as cache,
        ):
            cached = CachedPolicy(policy=policy, cache=cache, budget=_budget(settings, cache))
            designer = PoolDesigner(
                settings=settings,
                journal=journal,
                policy=cached,
                sandbox=sandbox,
                progress=progress,
                corpus=corpus,
                memory=memory,
            )
            try:
                await designer.fill()
            finally:
                journal.pool.index(journal.ids)
            cost = getattr(policy, "cost", None)
            return PoolDesigned(
                path=out,
                environments=len(journal.ids),
                undone=designer.undone,
                told=designer.told,
                spent=cache.spent(),
                cached=cached.hits,
                requests=getattr(cost, "requests", 0),
                retries=getattr(cost, "retries", 0),
            )


@contextmanager
def _memory(settings: PoolDesignSettings) -> Iterator[Memory | None]:
    """The memory that seeds are drawn from, before anything is begun that an unfit file would leave behind."""
    if not settings.memory_file:
        yield None
        return
    with closing(Memory.open(Path(settings.memory_file), settings.memory, make=False)) as memory:
        yield memory


def _budget(settings: PoolDesignSettings, cache: CompletionCache) -> Budget:
    return Budget(
        limit=settings.budget,
        prompt_price=settings.endpoint.prompt_price,
        completion_price=settings.endpoint.completion_price,
        spent=cache.spent().price,
    )


def check_answered(result: PoolDesigned) -> None:
    """See that no slot is left open because the endpoint failed.

    Raises:
        InfrastructureError: some are; what was certified is saved.
    """
    if count := result.undone[GATE_INFRASTRUCTURE]:
        raise InfrastructureError(
            f"{count} slots got no answer, last: {result.told}. {result.environments} environments are saved in "
            f"{result.path}; the same command goes on with the rest"
        )
