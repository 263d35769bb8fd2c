"""Builds nano from a seed: tokenizer, warm start, figures, and a folder that can be shipped."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from spade_agents.nano.demonstrate import demonstrate
from spade_agents.nano.examples import Mixture, warm_program
from spade_agents.nano.grammar.words import varying, whole_words
from spade_agents.nano.measure import FINGERPRINTS, MARK_BYTES, measure, read_fingerprints
from spade_agents.nano.stream import open_stream
from spade_agents.nano.tokenizer import save_tokenizer, train_tokenizer
from spade_agents.nano.unused import settle_unused_words
from spade_agents.nano.warmup import NanoShape, Progress, WarmupSettings, new_model, warm_up
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.rendering import written_text
from spade_agents.rendering.tools import tools_block
from spade_agents.training.folder import load_model

__all__ = ["build", "build_tokenizer"]

VOCABULARY = 2048
FRAGMENTS = 400
MERGES = 250

Say = Callable[[str], None]


def build(
    out: Path,
    *,
    seed: int,
    minutes: float,
    steps: int | None = None,
    start: Path | None = None,
    shape: NanoShape | None = None,
    mixture: Mixture | None = None,
    settings: WarmupSettings | None = None,
    tokenizer_programs: int = 600,
    measured: bool = True,
    say: Say = print,
) -> None:
    """Write a Hugging Face folder with a warm-started nano.

    Args:
        out: the folder; made when missing.
        seed: of data, tokenizer and weights.
        minutes: of training; making the tokenizer takes half a minute more.
        steps: ends training earlier.
        start: an earlier nano to go on from, with its tokenizer and shape; its fingerprints are added to.
        shape: of the model; this and the next two are by default those of the shipped one.
        mixture: of the data.
        settings: of training.
        tokenizer_programs: how many programs the tokenizer is made from.
        measured: whether the figures of `measure` are taken at the end and kept in `spade.json`.
        say: gets one line of progress at a time.
    """
    shape, mixture = shape or NanoShape(), mixture or Mixture()
    settings = settings or WarmupSettings(minutes=minutes, steps=steps)
    out.mkdir(parents=True, exist_ok=True)
    model = _new(out, shape, seed, tokenizer_programs) if start is None else _continued(start, out)
    say(f"{sum(p.numel() for p in model.parameters())} parameters, {model.config.vocab_size} tokens")
    log: list[dict[str, Any]] = []
    started = time.monotonic()
    with open_stream(out, seed=seed, mixture=mixture) as chunks:
        seen = warm_up(
            model,
            chunks,
            settings,
            seed=seed,
            report=lambda progress: _report(progress, log, say),
            save=lambda progress: save_model(model, out, seed=seed, trained=asdict(progress)),
        )
    earlier = _earlier(start) if start is not None else {}
    trained = {"seconds": time.monotonic() - started, "programs": len(seen), **(log[-1] if log else {}), **earlier}
    settle_unused_words(model, load_tokenizer(out))
    save_model(model, out, seed=seed, trained=trained)
    _write_fingerprints(out, seen, start)
    (out / "warmup_log.json").write_text(json.dumps(log), encoding="utf-8")
    if measured:
        say("measuring designs and plays")
        figures = asyncio.run(measure(out))
        save_model(model, out, seed=seed, trained=trained, figures=figures)
        say(json.dumps(figures))


def _new(out: Path, shape: NanoShape, seed: int, programs: int) -> Any:
    """A model with random weights, and its tokenizer in `out`."""
    save_tokenizer(build_tokenizer(seed=seed, programs=programs), out, context=shape.context)
    return new_model(shape, vocabulary=load_tokenizer(out).vocabulary_size, seed=seed)


def _report(progress: Progress, log: list[dict[str, Any]], say: Say) -> None:
    log.append(asdict(progress))
    say(
        f"{progress.seconds / 60:5.1f} min {progress.share:4.0%} step {progress.step} loss {progress.loss:.3f} "
        f"{progress.tokens / 1e6:.2f}M tokens {progress.tokens_per_second:.0f}/s"
    )


def _continued(start: Path, out: Path) -> Any:
    """The model of an earlier nano, whose tokenizer comes along."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(start / name, out / name)
    return load_model(start).train()


def _write_fingerprints(out: Path, seen: set[str], start: Path | None) -> None:
    marks = {bytes.fromhex(mark)[:MARK_BYTES] for mark in seen}
    if start is not None and (start / FINGERPRINTS).is_file():
        marks |= read_fingerprints(start)
    (out / FINGERPRINTS).write_bytes(b"".join(sorted(marks)))


def _earlier(start: Path) -> dict[str, Any]:
    """What the start was trained on, to stand beside what came after."""
    return {"before": json.loads((start / "spade.json").read_text(encoding="utf-8")).get("trained", {})}


def build_tokenizer(*, seed: int, programs: int = 600) -> Tokenizer:
    """The tokenizer of a seed, trained on so many programs and plays of the grammar."""
    rng = random.Random(f"nano tokenizer {seed}")
    texts: list[str] = []
    for _ in range(programs):
        warmup = warm_program(rng)
        program, document = warmup.program, warmup.document
        texts.append(
            f"system\ndesign\nuser\nskill: {program.skill.value}\ndocument: {document.text}\nassistant\n"
            f"```python\n{program.source}```"
        )
        play = demonstrate(program.source, rng.randrange(1000), rng, hint=program.hint)
        turns = "\n".join(f"{message.role}\n{written_text(message)}" for message in play.messages[1:])
        texts.append(f"system\nact\n{''.join(tools_block(play.tools, 'compact'))}\n{turns}")
    return train_tokenizer(
        texts, size=VOCABULARY, fragment_count=FRAGMENTS, merges=MERGES, words=whole_words(), varying=varying()
    )


def save_model(
    model: Any, out: Path, *, seed: int, trained: dict[str, Any], figures: dict[str, Any] | None = None
) -> None:
    """Weights in bf16, configuration, and `spade.json`."""
    state = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items() if name != "lm_head.weight"}
    model.save_pretrained(out, state_dict=state)
    about = {
        "template_family": "hermes",
        "style": "compact",
        "name": "nano",
        "step": 0,
        "seed": seed,
        "trained": trained,
    }
    if figures is not None:
        about["figures"] = figures
    (out / "spade.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
