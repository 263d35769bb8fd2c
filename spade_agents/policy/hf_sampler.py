"""A sampler over any causal model of transformers: batches of prompts padded left, decoded together to the end."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from spade_agents.errors import CheckpointError, PolicyError
from spade_agents.policy.choice import choose
from spade_agents.policy.sampler import Sampled, SampleRequest

__all__ = ["HfSampler"]


@dataclass(slots=True, kw_only=True)
class _Row:
    """A request and what was sampled for it."""

    key: int
    request: SampleRequest
    room: int
    noise: random.Random
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return bool(self.token_ids) and self.token_ids[-1] in self.request.stop

    @property
    def is_done(self) -> bool:
        return self.ended or len(self.token_ids) >= self.room


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Rows that are decoded together; `mask` (rows, tokens so far) is 0 where a prompt was padded."""

    rows: list[_Row]
    mask: Tensor
    cache: Any
    logits: Tensor


class HfSampler:
    """The slower sampler, for models that `Sampler` does not read; same interface, one batch at a time.

    Args:
        model: a transformers causal language model in evaluation mode; weights are replaced in place.
        context_length: of the model, in tokens.
        rows: prompts decoded together.
    """

    def __init__(self, model: Any, *, context_length: int, rows: int = 16) -> None:
        self.model = model
        self.context_length = context_length
        self._rows = rows
        self._waiting: deque[_Row] = deque()
        self._batch: _Batch | None = None
        self._submitted = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting or being sampled."""
        return not self._waiting and self._batch is None

    def submit(self, request: SampleRequest) -> int:
        """Queue a request and return its key.

        Raises:
            PolicyError: an empty prompt, or no room left in the context.
        """
        room = min(request.max_tokens, self.context_length - len(request.prompt))
        if not request.prompt or room < 1:
            raise PolicyError(
                f"the prompt has {len(request.prompt)} tokens and max_tokens is {request.max_tokens}; "
                f"wanted at least one of each within the context of {self.context_length}"
            )
        self._submitted += 1
        row = _Row(key=self._submitted, request=request, room=room, noise=random.Random(request.seed))
        self._waiting.append(row)
        return row.key

    def cancel(self, key: int) -> None:
        """Forget a request, live or waiting; unknown keys are ignored."""
        self._waiting = deque(row for row in self._waiting if row.key != key)
        if self._batch is not None:
            self._keep([row for row in self._batch.rows if row.key != key])

    def clear(self) -> None:
        """Forget every request."""
        self._waiting.clear()
        self._batch = None

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace the weights.

        Raises:
            PolicyError: requests are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        if not self.is_idle:
            raise PolicyError("weights were loaded while completions are in flight; wait for them first")
        own = self.model.state_dict()
        for name, tensor in own.items():
            if name not in state:
                raise CheckpointError(f"the weights have no tensor {name!r}; wanted a checkpoint of this model")
            if state[name].shape != tensor.shape:
                raise CheckpointError(
                    f"the tensor {name!r} is {tuple(state[name].shape)}; this model wants {tuple(tensor.shape)}"
                )
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Sampled]]:
        """Begin a batch where none is live, else draw one token for each of its rows; returns what is done."""
        if self._batch is None:
            if not self._waiting:
                return []
            self._batch = self._prefill([self._waiting.popleft() for _ in range(min(self._rows, len(self._waiting)))])
        else:
            self._decode(self._batch)
        batch = self._batch
        self._draw(batch)
        done = [row for row in batch.rows if row.is_done]
        if done:
            self._keep([row for row in batch.rows if not row.is_done])
        return [(row.key, Sampled(tuple(row.token_ids), tuple(row.logprobs), not row.ended, 0)) for row in done]

    def _prefill(self, rows: list[_Row]) -> _Batch:
        width = max(len(row.request.prompt) for row in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, width - len(row.request.prompt) :] = torch.tensor(row.request.prompt)
            mask[index, width - len(row.request.prompt) :] = 1
        places = (mask.cumsum(dim=-1) - 1).clamp(min=0)
        out = self._forward(ids, mask, places, None)
        return _Batch(rows=rows, mask=mask, cache=out.past_key_values, logits=out.logits[:, -1].float())

    def _decode(self, batch: _Batch) -> None:
        ids = torch.tensor([[row.token_ids[-1]] for row in batch.rows])
        batch.mask = torch.cat([batch.mask, torch.ones(len(batch.rows), 1, dtype=torch.long)], dim=1)
        places = batch.mask.sum(dim=1, keepdim=True) - 1
        out = self._forward(ids, batch.mask, places, batch.cache)
        batch.cache, batch.logits = out.past_key_values, out.logits[:, -1].float()

    def _forward(self, ids: Tensor, mask: Tensor, places: Tensor, cache: Any) -> Any:
        return self.model(
            input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
        )

    def _draw(self, batch: _Batch) -> None:
        asked = [row.request for row in batch.rows]
        chosen = choose(
            batch.logits,
            torch.tensor([row.noise.random() for row in batch.rows], dtype=torch.float64),
            temperature=torch.tensor([request.temperature for request in asked]),
            top_k=torch.tensor([request.top_k for request in asked]),
            top_p=torch.tensor([request.top_p for request in asked]),
        )
        for row, token, logprob in zip(batch.rows, chosen.tokens.tolist(), chosen.logprobs.tolist(), strict=True):
            if math.isnan(logprob):
                raise PolicyError("the model's logits are not finite; its weights have diverged")
            row.token_ids.append(token)
            row.logprobs.append(logprob)

    @torch.inference_mode()
    def _keep(self, rows: Sequence[_Row]) -> None:
        """Drop the other rows of the batch, and the batch where none is left."""
        if self._batch is None or len(rows) == len(self._batch.rows):
            return
        if not rows:
            self._batch = None
            return
        places = torch.tensor([self._batch.rows.index(row) for row in rows])
        self._batch.rows = list(rows)
        self._batch.mask = self._batch.mask[places]
        self._batch.logits = self._batch.logits[places]
        self._batch.cache.batch_select_indices(places)
