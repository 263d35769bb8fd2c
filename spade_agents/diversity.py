"""How different designs are: distinct share, largest family, Vendi score, runs of copies, the alarm for a collapse."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

__all__ = [
    "CollapseSettings",
    "Diversity",
    "Matrix",
    "collapse_alarm",
    "distinct_share",
    "largest_share",
    "longest_run",
    "measure",
    "tfidf_similarity",
    "vendi_score",
]

Matrix = list[list[float]]

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseSettings:
    """When a set of designs counts as collapsed.

    Attributes:
        min_distinct: least share of distinct fingerprints, in [0, 1].
        max_family: largest share that one family may hold, in [0, 1].
        min_vendi: least Vendi score as a share of the designs, in [0, 1]. Programs that share nothing but the
            contract have about 0.6, a set that holds each of its programs four times about 0.2.
        near: similarity of normalised syntax trees from which a design is a near-duplicate of the one before it.
        max_run: how many near-duplicates may stand in a row.
        min_designs: of fewer designs nothing is said.
        window: how many of the newest designs are looked at.
    """

    min_distinct: float = 0.5
    max_family: float = 0.5
    min_vendi: float = 0.25
    near: float = 0.9
    max_run: int = 4
    min_designs: int = 8
    window: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Diversity:
    """The diversity of one set of designs.

    Attributes:
        designs: how many there are.
        distinct_share: distinct fingerprints / designs, in (0, 1]; 0 for an empty set.
        largest_family: share of the most frequent family, in (0, 1]; 0 for an empty set.
        vendi: Vendi score / designs, in (0, 1]; 0 for an empty set.
        longest_run: the longest stretch of designs, in the order written, in which each is a near-duplicate of the one
            before it; 1 where no two in a row are, 0 for an empty set.
    """

    designs: int
    distinct_share: float
    largest_family: float
    vendi: float
    longest_run: int = 0


def measure(
    sources: Sequence[str],
    fingerprints: Sequence[str],
    families: Sequence[str],
    *,
    near: Callable[[str, str], bool] | None = None,
) -> Diversity:
    """The diversity of designs in the order written, each with its source, fingerprint and family.

    Args:
        sources: the programs.
        fingerprints: of their normalised syntax trees.
        families: by structure or name.
        near: whether two sources are near-duplicates; without it, those of one fingerprint are.

    Raises:
        ValueError: the three sequences differ in length.
    """
    if not len(sources) == len(fingerprints) == len(families):
        raise ValueError(f"found {len(sources)} sources, {len(fingerprints)} fingerprints, {len(families)} families")
    score = vendi_score(tfidf_similarity(sources)) / len(sources) if sources else 0.0
    same = near or (lambda before, after: before == after)
    alike = [
        fingerprints[place] == fingerprints[place - 1] or same(sources[place - 1], sources[place])
        for place in range(1, len(sources))
    ]
    return Diversity(
        designs=len(sources),
        distinct_share=distinct_share(fingerprints),
        largest_family=largest_share(families),
        vendi=score,
        longest_run=longest_run(alike) if sources else 0,
    )


def distinct_share(keys: Sequence[Hashable]) -> float:
    """Distinct keys / keys; 0 for none.

    >>> distinct_share(["a", "b", "a", "a"])
    0.5
    """
    return len(set(keys)) / len(keys) if keys else 0.0


def largest_share(keys: Sequence[Hashable]) -> float:
    """Share of the most frequent key; 0 for none.

    >>> largest_share(["a", "b", "a", "a"])
    0.75
    """
    return max(Counter(keys).values()) / len(keys) if keys else 0.0


def longest_run(alike: Sequence[bool]) -> int:
    """Items in the longest stretch whose neighbours are alike, where `alike` tells it of each item but the first.

    >>> longest_run([False, True, True, False])
    3
    """
    longest = current = 1
    for same in alike:
        current = current + 1 if same else 1
        longest = max(longest, current)
    return longest


def vendi_score(similarity: Matrix) -> float:
    """The effective number of different items (Friedman and Dieng 2023): exp of the entropy of the eigenvalues of K/n.

    Args:
        similarity: K, shape (n, n): symmetric, positive semi-definite, ones on the diagonal.

    Returns:
        1 where all items are alike, n where none resembles another, 0 for no items.
    """
    import numpy as np

    if not similarity:
        return 0.0
    eigenvalues = np.linalg.eigvalsh(np.asarray(similarity, dtype=np.float64) / len(similarity))
    positive = [float(value) for value in eigenvalues if value > 1e-12]
    return math.exp(-sum(value * math.log(value) for value in positive))


def tfidf_similarity(texts: Sequence[str], *, shingle: int = 3) -> Matrix:
    """Cosine similarity of texts by their runs of `shingle` tokens, weighted by TF-IDF; shape (n, n), values in [0, 1].

    Weight of a run: its count × (ln((1 + n) / (1 + texts that hold it)) + 1). Texts shorter than a run are compared by
    the whole of their tokens; two empty texts are alike.
    """
    counts = [Counter(_shingles(_TOKEN.findall(text), shingle)) for text in texts]
    holding = Counter(run for count in counts for run in count)
    rarity = {run: math.log((1 + len(texts)) / (1 + held)) + 1 for run, held in holding.items()}
    vectors = [_unit({run: times * rarity[run] for run, times in count.items()}) for count in counts]
    return [[1.0 if i == j else _dot(a, b) for j, b in enumerate(vectors)] for i, a in enumerate(vectors)]


def collapse_alarm(diversity: Diversity, settings: CollapseSettings | None = None) -> tuple[str, ...]:
    """What is wrong with a set of designs, one sentence each; nothing where it is diverse or too small to tell."""
    settings = settings or CollapseSettings()
    if diversity.designs < settings.min_designs:
        return ()
    told = []
    if diversity.distinct_share < settings.min_distinct:
        found = f"{diversity.distinct_share:.0%} of {diversity.designs} designs are distinct"
        told.append(f"{found}; wanted at least {settings.min_distinct:.0%}")
    if diversity.largest_family > settings.max_family:
        found = f"one family holds {diversity.largest_family:.0%} of {diversity.designs} designs"
        told.append(f"{found}; wanted at most {settings.max_family:.0%}")
    if diversity.vendi < settings.min_vendi:
        found = f"{diversity.designs} designs are as diverse as {diversity.vendi * diversity.designs:.1f} unlike ones"
        told.append(f"{found}; wanted at least {settings.min_vendi * diversity.designs:.1f} (Vendi score)")
    if diversity.longest_run > settings.max_run:
        found = f"{diversity.longest_run} designs in a row are near-duplicates, each of the one before it"
        told.append(f"{found}; wanted at most {settings.max_run}")
    return tuple(told)


def _shingles(tokens: list[str], size: int) -> list[tuple[str, ...]]:
    if len(tokens) < size:
        return [tuple(tokens)]
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


def _unit(weights: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {run: weight / length for run, weight in weights.items()}


def _dot(a: dict[tuple[str, ...], float], b: dict[tuple[str, ...], float]) -> float:
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    return sum(weight * large[run] for run, weight in small.items() if run in large)
