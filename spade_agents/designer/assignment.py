"""What a slot is asked for: document, memory, domain, variant, form and target, drawn from the slot's own seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from spade_agents.agent.prompts import PromptStyle
from spade_agents.designer.corpus import Corpus
from spade_agents.designer.memory import Memory
from spade_agents.designer.requests import DesignRequest, drawn_domain, drawn_form, drawn_variant
from spade_agents.designer.targets import TargetSettings, target_of
from spade_environments import Skill

__all__ = ["Assignment", "AssignmentSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSettings:
    """How slots differ from each other.

    Attributes:
        grounded: share of slots that get a document; the others show what grounding is worth.
        single_turn: share of text environments that are a single question.
        target: the difficulty aimed at.
    """

    grounded: float = 1.0
    single_turn: float = 0.5
    target: TargetSettings = field(default_factory=TargetSettings)

    def __post_init__(self) -> None:
        for name, value in (("grounded", self.grounded), ("single_turn", self.single_turn)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value:g}; wanted a share from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Draws requests.

    Attributes:
        corpus: `None` for no grounding; words: of a document, at most.
        memory: `None` for none.
        style: of the prompts; `compact` ones name no form, variant, domain or target, and so none is drawn.
    """

    settings: AssignmentSettings
    style: PromptStyle
    corpus: Corpus | None = None
    words: int = 6000
    memory: Memory | None = None

    def request(self, skill: Skill, *, position: int, seed: int, memory_seed: int) -> DesignRequest:
        """The request of one slot.

        Args:
            skill: whose turn it is.
            position: in the corpus.
            seed: of domain, variant, form and grounding.
            memory_seed: of the draw from memory.
        """
        rng, drawn = random.Random(seed), random.Random(memory_seed)
        request = DesignRequest(skill=skill)
        if self.memory is not None:
            seeds = self.memory.seeds(skill, drawn)
            request = replace(request, seeds=seeds, avoid=self.memory.negatives(skill, drawn))
        if self.corpus is not None and rng.random() < self.settings.grounded:
            document = self.corpus.at(position)
            request = replace(
                request,
                document=document.words(self.words),
                document_id=document.id,
                corpus=self.corpus.checksum[:12],
                domain=document.domain,
            )
        return request if self.style == "compact" else self._full(request, rng)

    def _full(self, request: DesignRequest, rng: random.Random) -> DesignRequest:
        target = target_of(request.skill, self.memory, self.settings.target)
        if request.uses_tools:
            return replace(request, target=target, domain=drawn_domain(rng), variant=drawn_variant(rng))
        return replace(request, target=target, form=drawn_form(rng, self.settings.single_turn))
