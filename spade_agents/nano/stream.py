"""An endless, reproducible stream of warm-up samples, made by a process beside the training one."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spade_agents.nano.examples import Mixture, program_samples, warm_program
from spade_agents.nano.grammar.program import Program
from spade_agents.nano.tokenizer import word_ids
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.rendering import HermesRenderer

__all__ = ["Chunk", "make_chunk", "open_stream"]

PROGRAMS_IN_A_CHUNK = 32
_AHEAD = 12
_MOST_DRILLS = 80
_FEWEST_DRILLS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Samples of a few programs: tokens (T,) uint16 and masks (T,) bool, and the programs' fingerprints (hex)."""

    tokens: list[np.ndarray]
    masks: list[np.ndarray]
    fingerprints: list[str]


def make_chunk(renderer: HermesRenderer, *, words: list[int], seed: int, index: int, mixture: Mixture) -> Chunk:
    """The samples of chunk `index`: a function of its arguments alone. Early chunks hold more copying drills."""
    rng = random.Random(f"nano warm-up {seed} {index}")
    recent: list[Program] = []
    tokens, masks, fingerprints = [], [], []
    for _ in range(PROGRAMS_IN_A_CHUNK):
        warmup = warm_program(rng)
        alike = [program for program in recent if program.skill is warmup.program.skill]
        memory = rng.sample(alike, min(len(alike), rng.choice((0, 0, 1, 2))))
        for sample in program_samples(renderer, warmup, memory, rng, mixture):
            tokens.append(np.array(sample.token_ids, dtype=np.uint16))
            masks.append(np.array(sample.mask, dtype=bool))
        fingerprints.append(warmup.fingerprint)
        recent.append(warmup.program)
    for _ in range(max(_FEWEST_DRILLS, _MOST_DRILLS - index // 2)):
        row, mask = copying_drill(rng, words)
        tokens.append(row)
        masks.append(mask)
    return Chunk(tokens=tokens, masks=masks, fingerprints=fingerprints)


def copying_drill(rng: random.Random, words: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Random words in three runs, then the runs again in another order, twice; what repeats is imitated.

    A small model learns late to copy words that it never saw; drills bring that forward, and they are all that teaches
    it the words that only held-out programs use.
    """
    runs = [[rng.choice(words) for _ in range(rng.randint(3, 9))] for _ in range(3)]
    again = rng.sample(runs, 3) + rng.sample(runs, 3)
    row = [token for run in runs + again for token in run]
    mask = [False] * sum(map(len, runs)) + [place > 0 for run in again for place in range(len(run))]
    return np.array(row, dtype=np.uint16), np.array(mask, dtype=bool)


@contextmanager
def open_stream(folder: Path, *, seed: int, mixture: Mixture, processes: int = 1) -> Iterator[Iterator[Chunk]]:
    """Chunks 0, 1, 2, … made in `processes` processes; the tokenizer is read from `folder`."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _open_worker, (str(folder), seed, mixture)) as pool:

        def chunks() -> Iterator[Chunk]:
            waiting = [pool.apply_async(_work, (index,)) for index in range(_AHEAD)]
            index = _AHEAD
            while True:
                yield waiting.pop(0).get()
                waiting.append(pool.apply_async(_work, (index,)))
                index += 1

        yield chunks()


_worker: tuple[HermesRenderer, list[int], int, Mixture] | None = None


def _open_worker(folder: str, seed: int, mixture: Mixture) -> None:
    global _worker  # noqa: PLW0603 (what a pool's initialiser leaves for its process)
    tokenizer = load_tokenizer(Path(folder))
    _worker = HermesRenderer(tokenizer, style="compact"), word_ids(tokenizer.inner), seed, mixture


def _work(index: int) -> Chunk:
    if _worker is None:
        raise RuntimeError("the worker was not opened; use open_stream")
    renderer, words, seed, mixture = _worker
    return make_chunk(renderer, words=words, seed=seed, index=index, mixture=mixture)
