"""Settings of a pool that is designed without training: who designs, how many slots, within what means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from spade_agents.designer.assignment import AssignmentSettings
from spade_agents.designer.design import DesignerSettings
from spade_agents.designer.memory import MemorySettings
from spade_agents.policy.endpoint_client import EndpointSettings
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.rollout import PlaySettings
from spade_agents.selfplay.settings import DesignerTable, NoveltyTable
from spade_agents.settings import Section
from spade_environments import TOOL_SKILLS, Skill
from spade_environments.certificate import CertificateSettings
from spade_environments.sandbox.settings import LocalSandboxSettings, SandboxSettings

__all__ = ["MAY_CHANGE", "PoolDesignSettings", "ReferenceTable"]


class ReferenceTable(Section):
    """An agent whose plays tell how hard the environments are."""

    model: str = ""
    """As for `spade play --model`; empty for none."""
    plays: int = Field(default=8, ge=1)
    """Unhinted plays of each environment."""
    hint_plays: int = Field(default=8, ge=0)
    """Hinted plays of each, on the first of the same seeds; at most `plays`."""
    play: PlaySettings = PlaySettings(sampling=Sampling(max_tokens=1024))

    @pydantic.model_validator(mode="after")
    def _hinted_seeds_are_shared(self) -> ReferenceTable:
        if self.hint_plays > self.plays:
            raise ValueError(f"hint_plays is {self.hint_plays}; wanted at most plays, {self.plays}: arms share seeds")
        return self


class PoolDesignSettings(Section):
    """Everything that decides a designed pool."""

    model: str = "nano"
    """Who designs: a model's folder, a run, `nano`, an endpoint as URL#MODEL, or a script."""
    backend: Literal["auto", "torch", "vllm"] = "auto"
    """What samples a model's folder: this process, or a vLLM server that it starts (or that `vllm.url` names)."""
    vllm: VllmSettings = VllmSettings()
    """How, for backend `vllm`."""
    slots: int = Field(default=200, ge=1, le=1_000_000)
    """Environments asked for; each slot has up to `call.attempts` attempts, and may stay empty."""
    seed: int = 0
    """Root of every random choice."""
    at_once: int = Field(default=32, ge=1)
    """Slots in hand at a time; the requests of an endpoint are bounded by `endpoint.concurrency`."""
    style: Literal["auto", "full", "compact"] = "auto"
    """Of the prompts; `auto` takes the model's own: compact for one that was trained on it, else full."""
    skills: tuple[Skill, ...] = ()
    """Taken in turn; `games`, `tools` or `all`. Without any: all in the full style, tool use in the compact one."""
    corpus: str = "builtin"
    """`builtin`, `none`, or a JSONL or Parquet file."""
    corpus_words: int = Field(default=6000, ge=1)
    """Words of a document that enter a prompt."""
    call: DesignerSettings = DesignerSettings()
    assignment: AssignmentSettings = AssignmentSettings()
    memory_file: str = ""
    """The memory.sqlite of a run, which seeds are drawn from; it is read and never written. Empty for none."""
    memory: MemorySettings = MemorySettings()
    certificate: CertificateSettings = CertificateSettings()
    novelty: NoveltyTable = NoveltyTable()
    sandbox: Annotated[SandboxSettings, Field(discriminator="type")] = LocalSandboxSettings()
    endpoint: EndpointSettings = EndpointSettings(request_seconds=600.0)
    """Retries, concurrency and prices of an endpoint."""
    budget: float | None = Field(default=None, gt=0)
    """What may be spent in all, in the currency of the prices; nothing more is asked for once it would be exceeded."""
    reference: ReferenceTable = ReferenceTable()

    @pydantic.field_validator("skills", mode="before")
    @classmethod
    def _group(cls, value: object) -> object:
        return DesignerTable._group(value)

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> PoolDesignSettings:
        if self.budget is not None and not (self.endpoint.prompt_price or self.endpoint.completion_price):
            raise ValueError("budget needs prices: set endpoint.prompt_price and endpoint.completion_price")
        if self.sandbox.type == "inline":
            raise ValueError("sandbox.type is 'inline', which has no isolation; wanted 'local' for designed programs")
        if self.memory_file and not Path(self.memory_file).is_file():
            raise ValueError(f"memory_file is {self.memory_file!r}, and no such file is there")
        return self

    def skills_for(self, style: str) -> tuple[Skill, ...]:
        """The skills in turn."""
        return self.skills or (TOOL_SKILLS if style == "compact" else tuple(Skill))


MAY_CHANGE = frozenset(
    {
        "slots",
        "at_once",
        "budget",
        "endpoint.concurrency",
        "endpoint.retries",
        "endpoint.request_seconds",
        "endpoint.backoff_seconds",
        "endpoint.prompt_price",
        "endpoint.completion_price",
        "reference.model",
        "reference.plays",
        "reference.hint_plays",
        "vllm.url",
        "vllm.python",
        "vllm.devices",
        "vllm.memory_share",
        "vllm.cache_gib",
        "vllm.eager",
        "vllm.threads",
        "vllm.concurrency",
        "vllm.start_seconds",
        "vllm.request_seconds",
        "vllm.exchange",
        "sandbox.allow_degraded",
        "sandbox.layers",
    }
)
"""What a pool may be gone on with under another value of: none of it decides a design."""
