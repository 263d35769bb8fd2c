"""HfPolicy: any causal language model of a Hugging Face folder, run by transformers in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from spade_agents.errors import CheckpointError
from spade_agents.policy.arrival import Arrival, tensor_sums
from spade_agents.policy.hf_sampler import HfSampler
from spade_agents.policy.model_files import read_json, renderer_of
from spade_agents.policy.sampler_engine import SamplerEngine
from spade_agents.policy.token_policy import TokenPolicy
from spade_agents.rendering import Deviation, Renderer, RenderStyle

__all__ = ["HfPolicy"]


class HfPolicy(TokenPolicy):
    """A policy of any architecture that transformers loads; `TorchPolicy` is faster where the model is a Llama.

    Args:
        model: a transformers causal language model in evaluation mode.
        renderer: of its tokenizer.
        name: shown in `info`.
        deviation: how the renderer departs from the model's own template.
        rows: prompts decoded together.
    """

    def __init__(
        self,
        model: Any,
        renderer: Renderer,
        *,
        name: str = "hf",
        deviation: Deviation = Deviation.NONE,
        rows: int = 16,
    ) -> None:
        context = int(model.config.get_text_config().max_position_embeddings)
        self.model = model
        self.engine = SamplerEngine(HfSampler(model, context_length=context, rows=rows))
        super().__init__(
            self.engine,
            renderer,
            name=name,
            context_length=context,
            deviation=deviation,
            backend=f"transformers {version('transformers')}, torch {torch.__version__}",
        )

    @classmethod
    def from_folder(cls, folder: Path, *, dtype: torch.dtype = torch.float32, style: RenderStyle | None = None) -> Self:
        """A policy from a Hugging Face folder, its renderer held against the folder's chat template.

        Raises:
            CheckpointError: a missing or unreadable file, no causal language model, or a template of no known family.
        """
        from transformers import AutoModelForCausalLM

        read_json(folder / "config.json")
        found = renderer_of(folder, style=style)
        try:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{folder} does not load as a causal language model: {error}") from error
        return cls(model.eval(), found.renderer, name=found.name, deviation=found.deviation)

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over weights by the model's own names.

        Raises:
            PolicyError: completions are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        self.engine.load(state)
        self.info = replace(self.info, weight_version=version)

    def arrival(self) -> Arrival:
        """What weights it holds, for `check_arrival`; it keeps no prefixes."""
        state = self.model.state_dict()
        sums = tensor_sums(state, self.model.dtype)
        return Arrival(version=self.info.weight_version, dtype=self.model.dtype, sums=sums, prefixes=0)

    @torch.inference_mode()
    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """Log-probability of each token but the first, given those before it, by the sampling weights."""
        ids = torch.tensor([list(token_ids)])
        logprobs = (self.model(input_ids=ids).logits[0, :-1].float() / temperature).log_softmax(dim=-1)
        return [float(value) for value in logprobs.gather(1, ids[0, 1:].unsqueeze(1)).squeeze(1)]

    def close(self) -> None:
        """End the worker thread; requests in flight are finished first."""
        self.engine.close()
