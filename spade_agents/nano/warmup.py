"""The warm start: a small Llama imitates the stream, Muon for its matrices and AdamW for the rest."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from spade_agents.nano.copying import hold_copying_heads, write_copying_heads
from spade_agents.nano.stream import Chunk
from spade_agents.training.attention import use_causal_attention

__all__ = ["NanoShape", "Progress", "WarmupSettings", "new_model", "warm_up"]

_IGNORED = -100
_WIDTH = 32
_SHUFFLED = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoShape:
    """The model's size."""

    hidden: int = 192
    layers: int = 5
    heads: int = 4
    intermediate: int = 512
    context: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupSettings:
    """How it is trained.

    Attributes:
        minutes: wall time after which it ends; the learning rate falls to zero with it.
        steps: optimiser steps after which it ends, or `None`: what comes first.
        batch_tokens: padded tokens of one step.
        prompt_share: share of the other tokens (drawn anew in each batch) that are imitated as well, for what they
            teach about copying.
        muon_rate, adam_rate: peak learning rates of matrices, and of embeddings and norms.
        rising: share of the budget during which the rates rise.
        held: share of the budget during which the copying heads stay as they were written.
    """

    minutes: float
    steps: int | None = None
    batch_tokens: int = 3072
    prompt_share: float = 0.15
    muon_rate: float = 0.015
    adam_rate: float = 0.004
    rising: float = 0.02
    held: float = 0.1
    report_every: int = 50
    save_every_minutes: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where training stands: `share` of the budget in [0, 1], tokens seen, mean loss since the last report."""

    step: int
    share: float
    tokens: int
    tokens_per_second: float
    loss: float
    seconds: float


def new_model(shape: NanoShape, *, vocabulary: int, seed: int) -> Any:
    """A fresh Llama with tied embeddings, fp32, that can already copy."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    write_copying_heads(model, seed=seed)
    return model


def warm_up(
    model: Any,
    chunks: Iterator[Chunk],
    settings: WarmupSettings,
    *,
    seed: int,
    report: Callable[[Progress], None],
    save: Callable[[Progress], None],
) -> set[str]:
    """Train until the budget is used up; returns the fingerprints of the programs that were imitated."""
    seen: set[str] = set()
    use_causal_attention(model)
    optimizers = _optimizers(model, settings)
    let_go = hold_copying_heads(model)
    started = reported = saved = time.monotonic()
    losses: list[float] = []
    tokens = tokens_reported = 0
    for step, batch in enumerate(_batches(chunks, settings, random.Random(seed), seen), 1):
        share = (time.monotonic() - started) / (60 * settings.minutes)
        share = max(share, (step - 1) / settings.steps) if settings.steps else share
        if share >= 1:
            break
        if share >= settings.held:
            let_go()
        losses.append(_step(model, batch, optimizers, _rate(share, settings.rising)))
        tokens += batch[0].numel()
        now = time.monotonic()
        if step % settings.report_every == 0:
            speed = (tokens - tokens_reported) / (now - reported)
            progress = Progress(
                step=step,
                share=share,
                tokens=tokens,
                tokens_per_second=speed,
                loss=sum(losses) / len(losses),
                seconds=now - started,
            )
            report(progress)
            losses, reported, tokens_reported = [], now, tokens
            if now - saved > 60 * settings.save_every_minutes:
                save(progress)
                saved = time.monotonic()
    return seen


def _rate(share: float, rising: float) -> float:
    return min(1.0, share / rising if rising else 1.0, (1 - share) / (1 - rising)) if share < 1 else 0.0


def _optimizers(model: Any, settings: WarmupSettings) -> list[tuple[torch.optim.Optimizer, float]]:
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    kept = {id(p) for p in inner}
    rest = [p for p in model.parameters() if id(p) not in kept]
    muon = torch.optim.Muon(inner, lr=settings.muon_rate, momentum=0.95, weight_decay=0.01)
    adam = torch.optim.AdamW(rest, lr=settings.adam_rate, betas=(0.9, 0.98), weight_decay=0.0)
    return [(muon, settings.muon_rate), (adam, settings.adam_rate)]


def _step(
    model: Any, batch: tuple[Tensor, Tensor], optimizers: list[tuple[torch.optim.Optimizer, float]], rate: float
) -> float:
    tokens, targets = batch
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = model.model(tokens).last_hidden_state
        wanted = targets != _IGNORED
        logits = model.lm_head(hidden[wanted])
    loss = functional.cross_entropy(logits.float(), targets[wanted])
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer, peak in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = peak * rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return float(loss.detach())


def _batches(
    chunks: Iterator[Chunk], settings: WarmupSettings, rng: random.Random, seen: set[str]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of rows of similar length, padded on the right; targets are the next tokens that are imitated.

    Widths are multiples of `_WIDTH` and rows as many as fit, so that few shapes occur: each new one costs compilation.
    """
    waiting: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    ready: list[list[tuple[np.ndarray, np.ndarray]]] = []
    for chunk in chunks:
        seen.update(chunk.fingerprints)
        for item in zip(chunk.tokens, chunk.masks, strict=True):
            width = _WIDTH * math.ceil(len(item[0]) / _WIDTH)
            rows = waiting.setdefault(width, [])
            rows.append(item)
            if len(rows) == max(1, settings.batch_tokens // width):
                ready.append(waiting.pop(width))
        while len(ready) > _SHUFFLED:
            yield _padded(ready.pop(rng.randrange(len(ready))), settings.prompt_share, rng)


def _padded(
    rows: list[tuple[np.ndarray, np.ndarray]], prompt_share: float, rng: random.Random
) -> tuple[Tensor, Tensor]:
    width = _WIDTH * math.ceil(max(len(tokens) for tokens, _ in rows) / _WIDTH)
    tokens = np.zeros((len(rows), width), dtype=np.int64)
    targets = np.full((len(rows), width), _IGNORED, dtype=np.int64)
    draws = np.random.default_rng(rng.getrandbits(32))
    for index, (row, mask) in enumerate(rows):
        mask = mask | (draws.random(len(mask)) < prompt_share)
        tokens[index, : len(row)] = row
        targets[index, : len(row) - 1] = np.where(mask[1:], row[1:].astype(np.int64), _IGNORED)
    return torch.from_numpy(tokens), torch.from_numpy(targets)


def settings_json(settings: WarmupSettings) -> dict[str, Any]:
    """The settings as JSON-able values, for the model card."""
    return asdict(settings)
