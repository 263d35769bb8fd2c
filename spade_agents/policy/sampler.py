"""A batched sampler for Llama models: shared prompts prefilled once, rows admitted and dropped between steps."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from spade_agents.errors import PolicyError
from spade_agents.policy.choice import choose
from spade_agents.policy.kv_cache import KvArena, PrefixStore
from spade_agents.policy.llama import Llama

__all__ = ["SampleRequest", "Sampled", "Sampler", "SamplerLimits"]

_SHARED_AT_LEAST = 32
_PREFILL_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerLimits:
    """How much a sampler may hold.

    Attributes:
        rows: sequences decoded together.
        live_bytes: keys and values of live rows.
        prefix_bytes: keys and values kept for conversations that may continue.
    """

    rows: int = 64
    live_bytes: int = 2 * 1024**3
    prefix_bytes: int = 512 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """One row.

    Attributes:
        prompt: at least one token.
        max_tokens: sampled tokens at most; the context's end may come first.
        seed: of this row's noise alone.
        stop: tokens that end the row; the one that did is part of the result.
        keep: whether its keys and values are kept for a prompt that continues it.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    stop: frozenset[int] = frozenset()
    keep: bool = False


class Sampled(NamedTuple):
    """Sampled tokens, their log-probabilities, whether no stop token ended them, and how much prompt was cached."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool
    cached: int


@dataclass(slots=True, kw_only=True)
class _Row:
    """A live row; `length` tokens of `tokens` have their keys and values in the arena's row `index`."""

    key: int
    request: SampleRequest
    room: int
    noise: random.Random
    tokens: list[int]
    index: int = -1
    length: int = 0
    cached: int = 0
    logprobs: list[float] = field(default_factory=list)

    @property
    def sampled(self) -> tuple[int, ...]:
        return tuple(self.tokens[len(self.request.prompt) :])

    def is_done(self) -> bool:
        return len(self.logprobs) >= self.room or self.tokens[-1] in self.request.stop


class _Batch(NamedTuple):
    """Per-row settings of the live rows as tensors."""

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor


class Sampler:
    """Submit requests, then call `step` until nothing is left; not thread-safe.

    Same request, same tokens: a row has its own noise, and rows beside it change its logits by rounding only.
    """

    def __init__(self, model: Llama, limits: SamplerLimits | None = None) -> None:
        self.model = model
        self.limits = limits or SamplerLimits()
        self.prefixes = PrefixStore(self.limits.prefix_bytes)
        self._arena = KvArena(model.shape, dtype=model.dtype, device=model.device)
        context = model.shape.context_length
        if self._arena.bytes_for(self.limits.rows, context) <= self.limits.live_bytes:
            # All at once where it fits: growing later would copy every live row.
            self._arena.reserve(self.limits.rows, context, live=0)
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._batch: _Batch | None = None
        self._submitted = 0

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._rows

    def submit(self, request: SampleRequest) -> int:
        """Queue a request and return its key.

        Raises:
            PolicyError: an empty prompt, or no room left in the context.
        """
        room = min(request.max_tokens, self.model.shape.context_length - len(request.prompt))
        if not request.prompt or room < 1:
            raise PolicyError(
                f"the prompt has {len(request.prompt)} tokens and max_tokens is {request.max_tokens}; "
                f"wanted at least one of each within the context of {self.model.shape.context_length}"
            )
        self._submitted += 1
        row = _Row(
            key=self._submitted,
            request=request,
            room=room,
            noise=random.Random(request.seed),
            tokens=list(request.prompt),
        )
        self._waiting.append(row)
        return row.key

    @torch.inference_mode()
    def cancel(self, key: int) -> None:
        """Forget a request, live or waiting; unknown keys are ignored."""
        self._waiting = deque(row for row in self._waiting if row.key != key)
        self._drop([row for row in self._rows if row.key == key])

    def clear(self) -> None:
        """Forget every request and every kept prefix."""
        self._waiting.clear()
        self._rows.clear()
        self._batch = None
        self.prefixes.clear()

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace the weights and forget the prefixes computed with the old ones.

        Raises:
            PolicyError: requests are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        if not self.is_idle:
            raise PolicyError("weights were loaded while completions are in flight; wait for them first")
        self.model.load(state)
        self.prefixes.clear()

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Sampled]]:
        """Admit what fits, else draw one token for every live row; returns the requests that are done."""
        admitted = self._admit()
        if admitted:
            logits = self._prefill(admitted)
            self._batch = None
            self._draw(admitted, logits)
        elif self._rows:
            self._draw(self._rows, self._decode())
        done = [row for row in self._rows if row.is_done()]
        for row in done:
            if row.request.keep:
                self.prefixes.put(row.tokens[: row.length], self._arena.read(row.index, row.length))
        self._drop(done)
        return [(row.key, _result(row)) for row in done]

    def run(self, requests: Sequence[SampleRequest]) -> list[Sampled]:
        """Sample all requests, in their order."""
        keys = [self.submit(request) for request in requests]
        results: dict[int, Sampled] = {}
        while not self.is_idle:
            results.update(self.step())
        return [results[key] for key in keys]

    def _admit(self) -> list[_Row]:
        """Take waiting rows while rows and memory last; each gets the next row of the arena."""
        admitted: list[_Row] = []
        capacity = self._arena.capacity
        while self._waiting and len(self._rows) < self.limits.rows:
            row = self._waiting[0]
            needed = max(capacity, len(row.tokens) + row.room)
            fits = self._arena.bytes_for(len(self._rows) + 1, needed) <= self.limits.live_bytes
            if not fits and self._rows:
                break
            capacity = needed
            row.index = len(self._rows)
            self._rows.append(self._waiting.popleft())
            admitted.append(row)
        if admitted:
            self._arena.reserve(len(self._rows), capacity, live=len(self._rows) - len(admitted))
        return admitted

    def _prefill(self, admitted: Sequence[_Row]) -> Tensor:
        """Logits (len(admitted), vocabulary) after each prompt; every distinct prompt is computed once."""
        leaders: dict[tuple[int, ...], _Row] = {}
        for row in admitted:
            leaders.setdefault(row.request.prompt, row)
        alone, sharing = self._sources(leaders)
        hidden = self._prefill_rows(alone)
        for row, source, length in sharing:
            self._arena.move(source.index, row.index, length)
            row.length = row.cached = length
        hidden.update(self._prefill_rows([row for row, _, _ in sharing]))
        for row in admitted:
            leader = leaders[row.request.prompt]
            if row is not leader:
                self._arena.move(leader.index, row.index, leader.length)
                row.length = row.cached = leader.length
        order = list(hidden)
        logits = self.model.logits(torch.stack([hidden[key] for key in order]))
        place = {key: number for number, key in enumerate(order)}
        return logits[torch.tensor([place[leaders[row.request.prompt].key] for row in admitted])]

    def _sources(self, leaders: Mapping[tuple[int, ...], _Row]) -> tuple[list[_Row], list[tuple[_Row, _Row, int]]]:
        """Which rows are computed from a stored prefix or from nothing, and which begin as a copy of another row."""
        heads = [row for row in self._rows if row.length]
        alone: list[_Row] = []
        sharing: list[tuple[_Row, _Row, int]] = []
        for prompt, row in sorted(leaders.items()):
            stored, memory = self.prefixes.take(prompt)
            if memory is not None:
                self._arena.write(row.index, memory)
                row.length = row.cached = stored
                alone.append(row)
                continue
            source, shared = _closest(prompt, heads)
            if source is not None and shared >= _SHARED_AT_LEAST:
                sharing.append((row, source, shared))
            else:
                alone.append(row)
                heads.append(row)
        return alone, sharing

    def _prefill_rows(self, rows: Sequence[_Row]) -> dict[int, Tensor]:
        """Compute what rows lack of their prompts, packed one after another; last hidden states by key."""
        hidden: dict[int, Tensor] = {}
        pack: list[_Row] = []
        size = 0
        for row in rows:
            count = len(row.tokens) - row.length
            if pack and size + count > _PREFILL_TOKENS:
                hidden.update(self._prefill_pack(pack))
                pack, size = [], 0
            pack.append(row)
            size += count
        return {**hidden, **self._prefill_pack(pack)} if pack else hidden

    def _prefill_pack(self, rows: Sequence[_Row]) -> dict[int, Tensor]:
        spans: list[tuple[int, int, int, Tensor | None]] = []
        ids: list[int] = []
        positions: list[int] = []
        for row in rows:
            start, end = row.length, len(row.tokens)
            mask = None if start == 0 or end - start == 1 else torch.ones(end - start, end).tril(start).bool()
            spans.append((row.index, start, end, mask))
            ids += row.tokens[start:end]
            positions += range(start, end)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._arena.layer(layer, self._arena.rows, self._arena.capacity)
            out = torch.empty_like(q)
            offset = 0
            for index, start, end, mask in spans:
                here = slice(offset, offset + end - start)
                keys[index, :, start:end] = k[here].transpose(0, 1)
                values[index, :, start:end] = v[here].transpose(0, 1)
                out[here] = functional.scaled_dot_product_attention(
                    q[here].transpose(0, 1).unsqueeze(0),
                    keys[index : index + 1, :, :end],
                    values[index : index + 1, :, :end],
                    attn_mask=mask,
                    is_causal=start == 0 and end > 1,
                    enable_gqa=True,
                )[0].transpose(0, 1)
                offset += end - start
            return out

        x = self.model.forward(torch.tensor(ids), torch.tensor(positions), attend)
        last = 0
        hidden: dict[int, Tensor] = {}
        for row in rows:
            last += len(row.tokens) - row.length
            row.length = len(row.tokens)
            hidden[row.key] = x[last - 1]
        return hidden

    def _decode(self) -> Tensor:
        """Logits (rows, vocabulary) after the last token of every live row."""
        rows = self._rows
        lengths = torch.tensor([row.length for row in rows])
        numbers = torch.arange(len(rows))
        longest = max(row.length for row in rows) + 1
        shape = self.model.shape
        hidden_keys = torch.arange(longest).unsqueeze(0) > lengths.unsqueeze(1)
        mask = torch.zeros(len(rows), longest, dtype=self.model.dtype).masked_fill_(hidden_keys, -torch.inf)
        mask = mask.repeat_interleave(shape.kv_heads, dim=0).unsqueeze(1)
        scale = 1 / math.sqrt(shape.head_size)
        group = shape.heads // shape.kv_heads
        # Batched products of 3 rows take longer than those of 4.
        padding = -group % 4 if group > 2 else 0

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self._arena.layer(layer, len(rows), longest)
            keys[numbers, :, lengths] = k
            values[numbers, :, lengths] = v
            # The heads that share a key head are the query's rows: no key is repeated.
            queries = functional.pad(q.reshape(len(rows) * shape.kv_heads, group, shape.head_size), (0, 0, 0, padding))
            scores = torch.baddbmm(mask, queries, keys.flatten(0, 1).transpose(1, 2), alpha=scale)
            attended = torch.bmm(scores.softmax(dim=-1), values.flatten(0, 1))
            return attended[:, :group].reshape(q.shape)

        x = self.model.forward(torch.tensor([row.tokens[-1] for row in rows]), lengths, attend)
        for row in rows:
            row.length += 1
        return self.model.logits(x)

    def _draw(self, rows: Sequence[_Row], logits: Tensor) -> None:
        batch = self._batch if rows is self._rows and self._batch is not None else _settings(rows)
        self._batch = batch if rows is self._rows else None
        uniforms = torch.tensor([row.noise.random() for row in rows], dtype=torch.float64)
        chosen = choose(logits, uniforms, temperature=batch.temperature, top_k=batch.top_k, top_p=batch.top_p)
        for row, token, logprob in zip(rows, chosen.tokens.tolist(), chosen.logprobs.tolist(), strict=True):
            if math.isnan(logprob):
                raise PolicyError("the model's logits are not finite; its weights have diverged")
            row.tokens.append(token)
            row.logprobs.append(logprob)

    def _drop(self, done: Iterable[_Row]) -> None:
        """Remove rows from the arena; the last live row moves into each gap."""
        for row in sorted(done, key=lambda row: row.index, reverse=True):
            last = self._rows.pop()
            self._batch = None
            if last is not row:
                self._arena.move(last.index, row.index, last.length)
                last.index = row.index
                self._rows[row.index] = last


def _settings(rows: Sequence[_Row]) -> _Batch:
    return _Batch(
        temperature=torch.tensor([row.request.temperature for row in rows]),
        top_k=torch.tensor([row.request.top_k for row in rows]),
        top_p=torch.tensor([row.request.top_p for row in rows]),
    )


def _closest(prompt: tuple[int, ...], heads: Sequence[_Row]) -> tuple[_Row | None, int]:
    """The row that shares the longest prefix with `prompt`, and that prefix's length, its last token left out."""
    best: _Row | None = None
    longest = 0
    for row in heads:
        limit = min(row.length or len(row.tokens), len(prompt) - 1)
        # A row that cannot beat the best one is told by one comparison.
        if limit <= longest or row.tokens[:longest] != list(prompt[:longest]):
            continue
        low, high = longest, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if row.tokens[low:middle] == list(prompt[low:middle]) else (low, middle - 1)
        if low > longest:
            best, longest = row, low
    return best, longest


def _result(row: _Row) -> Sampled:
    return Sampled(row.sampled, tuple(row.logprobs), row.tokens[-1] not in row.request.stop, row.cached)
