"""The state of one certification: what the gates have found out so far and hand on to the next."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spade_environments.faults import EnvironmentFault
from spade_environments.spec import EnvironmentSpec
from spade_environments.types import Action, Reply

from .findings import Rejection, Unproven, fault_evidence, fault_repair, is_ours
from .novelty import Admission, Novelty
from .plays import REPLACEMENTS, Children, Slot, Step, Transcript, scripted
from .types import CertificateSettings

if TYPE_CHECKING:
    from spade_environments.sandbox import EnvironmentDescription, Sandbox

__all__ = ["Trial", "by_goal", "seeds_of"]


SEEDS_A_REPLACEMENT = 50


def seeds_of(spec: EnvironmentSpec, count: int, *, skip: int = 0) -> tuple[int, ...]:
    """Seeds drawn from the hash of the source, so that no source can be written for the seeds it is tried on."""
    return tuple(random.Random(spec.id).sample(range(1_000_000), skip + count)[skip:])


@dataclass(slots=True, kw_only=True)
class Trial:
    """One environment on trial.

    Attributes:
        gold: `solution()` of each seed in a child that only computes it; empty until `compute_gold`.
        gold_fault: why there is no gold, if there is none.
        replay_fault: how the environment faulted when its gold was played.
        step_fault: how it faulted in a play that gate `goals` or `floor` watched; gate `robustness` judges it.
        probes: plays of the prober, one a seed, in a child of zygote 0.
        gold_plays: replays of `gold` in another child of zygote 0.
        odd_steps: what came of hostile and malformed actions, by seed.
    """

    spec: EnvironmentSpec
    settings: CertificateSettings
    seeds: tuple[int, ...]
    children: Children
    novelty: Novelty | Admission | None = None
    description: EnvironmentDescription | None = None
    gold: dict[int, tuple[Action, ...]] = field(default_factory=dict)
    gold_fault: EnvironmentFault | None = None
    replay_fault: EnvironmentFault | None = None
    step_fault: EnvironmentFault | None = None
    probes: dict[int, Transcript] = field(default_factory=dict)
    gold_plays: dict[int, Transcript] = field(default_factory=dict)
    odd_steps: dict[int, list[Step]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        spec: EnvironmentSpec,
        sandbox: Sandbox,
        settings: CertificateSettings,
        novelty: Novelty | Admission | None = None,
    ) -> Trial:
        seeds = seeds_of(spec, settings.seeds)
        children = Children(spec, sandbox, replacements=REPLACEMENTS + len(seeds) // SEEDS_A_REPLACEMENT)
        return cls(spec=spec, settings=settings, seeds=seeds, children=children, novelty=novelty)

    @property
    def declared(self) -> EnvironmentDescription:
        """What the class declares; there once gate `load` has passed."""
        if self.description is None:
            raise RuntimeError("the gate 'load' must run before any gate that plays")
        return self.description

    @property
    def is_text(self) -> bool:
        return bool(self.declared.base == "text")

    def keep_step_fault(self, fault: EnvironmentFault) -> None:
        """Keep the first fault of a step for gate `robustness`, which judges it; any other fault is raised again."""
        if is_ours(fault) or fault.phase != "step":
            raise fault
        self.step_fault = self.step_fault or fault

    async def compute_gold(self) -> None:
        """Ask for `solution()` on every seed; a fault inside it is kept for the gate that judges it.

        Raises:
            EnvironmentFault: elsewhere than in `solution()`.
            HostFault: our fault.
        """
        for seed in self.seeds:
            try:
                self.gold[seed] = await self.children.solution(Slot.FIRST, seed)
            except EnvironmentFault as fault:
                if is_ours(fault) or fault.phase != "solution":
                    raise
                self.gold_fault = fault
                self.gold.clear()
                return

    async def play_gold(self) -> None:
        """Play the gold in a child that has not computed it; a fault in a step is kept for the gate that judges it.

        Raises:
            EnvironmentFault: elsewhere than in `step`.
            HostFault: our fault.
        """
        try:
            self.gold_plays = await self.replay_gold(Slot.GOLD, self.seeds)
        except EnvironmentFault as fault:
            if is_ours(fault) or fault.phase != "step":
                raise
            self.replay_fault = fault

    async def replay_gold(self, slot: Slot, seeds: Sequence[int]) -> dict[int, Transcript]:
        """Play each seed's gold to its end in the child of `slot`."""
        return {
            seed: await self.children.play(slot, seed, scripted(self.gold[seed]), limit=len(self.gold[seed]))
            for seed in seeds
        }

    def demand_gold(self) -> None:
        """Pass when there is a solution for every seed.

        Raises:
            Unproven: none, of an imported environment.
            Rejection: none, of any other; or one that cannot be played.
        """
        if self.replay_fault is not None:
            evidence = f"solution() cannot be played: {fault_evidence(self.replay_fault)}"
            raise Rejection(evidence, fault_repair(self.replay_fault))
        if self.gold_fault is None:
            return
        evidence = f"there is no runnable solution(): {fault_evidence(self.gold_fault)}"
        if self.spec.provenance.get("kind") == "imported":
            raise Unproven(evidence)
        raise Rejection(evidence, "Write solution(self) so that it returns the actions that solve the instance.")


def by_goal(actions: Sequence[Action]) -> list[tuple[Action, ...]]:
    """A ToolEnv's gold in one part a goal: each part ends with the Reply that hands the turn back."""
    parts: list[tuple[Action, ...]] = []
    start = 0
    for position, action in enumerate(actions):
        if isinstance(action, Reply):
            parts.append(tuple(actions[start : position + 1]))
            start = position + 1
    return parts
