"""Pools as sets: several merged into one without copies, one split into parts that share no family."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from spade_agents.errors import UsageError
from spade_agents.files import plain_file
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.pool import POOLED, Pool
from spade_agents.selfplay.pool_card import write_card
from spade_agents.selfplay.pool_figures import pool_figures, pool_folder
from spade_environments import EnvironmentSpec
from spade_environments.certificate import MinHash, NoveltyIndex, fingerprint

__all__ = ["Merged", "clusters_of", "merge_pools", "split_pool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge brought.

    Attributes:
        environments: in the new pool.
        same: left out because their very source was there already.
        alike: left out as near copies of another.
    """

    environments: int
    same: int
    alike: int


def merge_pools(pools: Sequence[Path], out: Path, *, threshold: float = 0.9) -> Merged:
    """Put the environments of several pools into a new one, outcomes included, in their order.

    Args:
        pools: of pools or runs.
        out: the new pool; must not exist.
        threshold: similarity of syntax trees from which the later of two is left out; 1 leaves out equal trees alone.

    Raises:
        UsageError: `out` exists, or a pool cannot be read; nothing was written.
    """
    _check_free(out)
    index, ids, same, alike = NoveltyIndex(threshold=threshold), dict[str, Path](), 0, 0
    for path in pools:
        pool = Pool(pool_folder(path))
        for spec in _whole(pool):
            if spec.id in ids:
                same += 1
            elif not index.admits(spec.source)[0]:
                alike += 1
            else:
                index.add(spec.name, spec.source)
                ids[spec.id] = pool.path / spec.id
    with _draft_of(out) as draft:
        _write(draft, ids, out.name, {"merged from": ", ".join(map(str, pools))})
    return Merged(environments=len(ids), same=same, alike=alike)


def split_pool(
    path: Path, out: Path, parts: Mapping[str, float], *, seed: int = 0, threshold: float = 0.9
) -> dict[str, int]:
    """Split a pool into parts of about the shares asked for, near copies always in the same one.

    Args:
        path: of a pool or a run.
        out: the folder of the new pools, one for each part; must not exist.
        parts: share of each part by its name; they sum to 1.
        seed: of the draw.
        threshold: similarity of syntax trees from which two environments stay together.

    Returns:
        Environments of each part.

    Raises:
        UsageError: the shares do not sum to 1, `out` exists, or the pool cannot be read; nothing was written.
    """
    if not parts or min(parts.values()) <= 0 or abs(sum(parts.values()) - 1) > 1e-6:
        raise UsageError(f"the shares sum to {sum(parts.values()):g}; wanted shares above 0 that sum to 1")
    if any(not name.replace("-", "").replace("_", "").isalnum() for name in parts):
        raise UsageError("a part's name names a folder; give letters and digits")
    _check_free(out)
    pool = Pool(pool_folder(path))
    specs = list(_whole(pool))
    if len(specs) < len(parts):
        raise UsageError(f"{path} holds {len(specs)} environments, fewer than the {len(parts)} parts asked for")
    chosen = _shared_out(clusters_of(specs, threshold), parts, random.Random(derive_seed(seed, "split")))
    with _draft_of(out) as draft:
        for name, members in chosen.items():
            folders = {spec.id: pool.path / spec.id for spec in specs if spec.id in members}
            _write(draft / name, folders, name, {"part of": str(path), "part": name})
    return {name: len(members) for name, members in chosen.items()}


def clusters_of(specs: Sequence[EnvironmentSpec], threshold: float) -> list[list[EnvironmentSpec]]:
    """Environments that are near copies of each other, directly or through others, in the order of the first."""
    sketches = [(fingerprint(spec.source), MinHash.of(spec.source)) for spec in specs]
    root = list(range(len(specs)))

    def found(place: int) -> int:
        while root[place] != place:
            place = root[place]
        return place

    for second, (mark, sketch) in enumerate(sketches):
        for first in range(second):
            other_mark, other = sketches[first]
            if mark == other_mark or sketch.similarity(other) >= threshold:
                root[found(second)] = found(first)
    clusters: dict[int, list[EnvironmentSpec]] = {}
    for place, spec in enumerate(specs):
        clusters.setdefault(found(place), []).append(spec)
    return list(clusters.values())


def _shared_out(
    clusters: Sequence[Sequence[EnvironmentSpec]], parts: Mapping[str, float], rng: random.Random
) -> dict[str, set[str]]:
    """Each cluster, the largest first, to the part that lacks most of what it should hold of that skill."""
    total = sum(map(len, clusters))
    held: dict[str, set[str]] = {name: set() for name in parts}
    of_skill: dict[tuple[str, str], int] = {}
    shuffled = sorted(rng.sample(clusters, len(clusters)), key=len, reverse=True)
    for cluster in shuffled:
        skill = cluster[0].skill.value

        def lack(name: str, skill: str = skill) -> tuple[float, float]:
            taken = of_skill.get((name, skill), 0)
            return taken / parts[name], len(held[name]) / (parts[name] * total)

        name = min(parts, key=lack)
        held[name] |= {spec.id for spec in cluster}
        of_skill[name, skill] = of_skill.get((name, skill), 0) + len(cluster)
    return held


def _whole(pool: Pool) -> Iterator[EnvironmentSpec]:
    """Its environments, all of whose files are read: what is damaged is told where it lies."""
    for identity in pool.ids():
        pool.certificate(identity)
        pool.outcomes(identity)
        yield pool.spec(identity)


def _check_free(out: Path) -> None:
    if out.exists():
        raise UsageError(f"{out} exists and is left as it is; choose another --out")


@contextmanager
def _draft_of(out: Path) -> Iterator[Path]:
    """A folder beside `out` that becomes `out` when all is written, and is gone where that fails.

    Raises:
        UsageError: there is no such place, or another process has made `out` meanwhile.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise UsageError(f"{out} cannot be made: {error.strerror}; choose another --out") from error
    try:
        yield draft
        draft.chmod(0o755)
        try:
            draft.rename(out)
        except OSError as error:
            raise UsageError(f"{out} cannot be made: {error.strerror}; choose another --out") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(folder: Path, environments: Mapping[str, Path], name: str, facts: Mapping[str, str]) -> None:
    """A pool of copies, with its card."""
    folder.mkdir(parents=True, exist_ok=True)
    for identity, source in environments.items():
        (folder / identity).mkdir()
        for file in POOLED:  # and nothing else: what lies beside them may be a link out of the pool
            if plain_file(source / file).exists():
                shutil.copyfile(source / file, folder / identity / file)
    Pool(folder).index(tuple(environments))
    write_card(folder, replace(pool_figures(folder), name=name), facts)
