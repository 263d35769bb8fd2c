"""TorchPolicy: a Llama model in this process; concurrent requests are sampled together in one worker thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from spade_agents.errors import PolicyError
from spade_agents.policy.llama import Llama, LlamaShape, read_state
from spade_agents.policy.model_files import read_json, renderer_of
from spade_agents.policy.sampler import Sampler, SamplerLimits
from spade_agents.policy.sampler_engine import SamplerEngine
from spade_agents.policy.scoring import score_tokens
from spade_agents.policy.token_policy import TokenPolicy
from spade_agents.policy.tokenizer import PlainTokenizer
from spade_agents.rendering import Deviation, HermesRenderer, Renderer, RenderStyle

__all__ = ["TorchPolicy"]


class TorchPolicy(TokenPolicy):
    """A Llama model behind the Policy Protocol.

    Args:
        model: sampling weights.
        renderer: of the tokenizer that the model was trained with.
        name: shown in `info`.
        limits: rows and memory of the sampler.
        one_call: whether a message ends with its first call; without it, it ends with the template's stop token only.
        deviation: how the renderer departs from the model's own template.
    """

    def __init__(
        self,
        model: Llama,
        renderer: Renderer,
        *,
        name: str = "torch",
        limits: SamplerLimits | None = None,
        one_call: bool = False,
        deviation: Deviation = Deviation.NONE,
    ) -> None:
        if one_call and renderer.call_end_id is None:
            raise PolicyError("the tokenizer spells </tool_call>, so a message cannot end with it; use one_call=False")
        ends = (renderer.end_id, renderer.call_end_id if one_call else None)
        self.sampler = Sampler(model, limits)
        self.engine = SamplerEngine(self.sampler)
        super().__init__(
            self.engine,
            renderer,
            name=name,
            context_length=model.shape.context_length,
            deviation=deviation,
            stop=[token for token in ends if token is not None],
            backend=f"torch {torch.__version__}",
        )

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        dtype: torch.dtype = torch.float32,
        style: RenderStyle | None = None,
        limits: SamplerLimits | None = None,
    ) -> Self:
        """A policy from a Hugging Face Llama folder; `spade.json` in it may name the template's family and style.

        Where the folder has a chat template, the renderer is held against it. Its weights are version 0, whatever step
        of whatever run wrote them.

        Raises:
            CheckpointError: a missing or unreadable file, another architecture, or a template that no family renders.
        """
        shape = LlamaShape.from_config(read_json(folder / "config.json"))
        found = renderer_of(folder, style=style)
        model = Llama(shape, read_state(folder), dtype=dtype)
        return cls(model, found.renderer, name=found.name, limits=limits, deviation=found.deviation)

    @classmethod
    def from_model(
        cls,
        model: Any,
        tokenizer: PlainTokenizer,
        *,
        style: RenderStyle = "full",
        name: str = "torch",
        dtype: torch.dtype = torch.float32,
        limits: SamplerLimits | None = None,
        one_call: bool = False,
    ) -> Self:
        """A policy that copies the weights of a transformers LlamaForCausalLM."""
        llama = Llama(LlamaShape.from_config(model.config.to_dict()), model.state_dict(), dtype=dtype)
        return cls(llama, HermesRenderer(tokenizer, style=style), name=name, limits=limits, one_call=one_call)

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over weights by their Hugging Face names; kept prefixes are dropped.

        Raises:
            PolicyError: completions are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        self.engine.load(state)
        self.info = replace(self.info, weight_version=version)

    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """Log-probability of each token but the first, given those before it, by the sampling weights.

        Compare with the trainer's own numbers to prove that weights arrived.
        """
        return score_tokens(self.sampler.model, token_ids, temperature=temperature)

    def close(self) -> None:
        """End the worker thread; requests in flight are finished first."""
        self.engine.close()
