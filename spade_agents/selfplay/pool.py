"""A pool of environments as a folder: source, spec, certificate and outcomes of each, and an index."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from spade_agents.errors import UsageError
from spade_agents.files import plain_file, write_whole
from spade_agents.telemetry import MetricsLog
from spade_environments import EnvironmentSpec
from spade_environments.certificate import Certificate, CertificateError, read_certificate
from spade_environments.loader import load_spec, read_source, spec_path
from spade_environments.registry import catalogue, is_catalogue
from spade_environments.spec import SpecError

__all__ = ["POOLED", "OutcomeRow", "Pool", "pool_specs", "trainable_specs"]

POOLED = ("environment.py", "spec.json", "certificate.json", "outcomes.jsonl")
"""The files of an environment in a pool."""

_ID = re.compile(r"[0-9a-f]{64}")
_OURS = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.[0-9]+")
"""Names of environments' folders, and of drafts that a kill left; whatever else lies there is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """What one rollout brought for one environment; one line of `outcomes.jsonl`.

    Attributes:
        rollout: when.
        unhinted, hinted: returns by seed, `None` where a play is missing; hinted only at a regeneration.
        win_rate: mean return over the window so far.
        regret: raw ρ, `None` where an arm is missing.
        regime: see `Regime`; empty where there is no regret.
        fault: why the environment was retired; empty where it was not.
    """

    rollout: int
    unhinted: tuple[float | None, ...]
    hinted: tuple[float | None, ...] = ()
    win_rate: float | None = None
    regret: float | None = None
    regime: str = ""
    fault: str = ""


class Pool:
    """A pool folder: `<id>/{environment.py, spec.json, certificate.json, outcomes.jsonl}` and `pool.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, spec: EnvironmentSpec, certificate: Certificate | None) -> None:
        """Keep an environment; its folder appears whole, and one that is there already is replaced."""
        draft = self.path / f".{spec.id}.{os.getpid()}"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        (draft / "environment.py").write_text(spec.source, encoding="utf-8")
        (draft / "spec.json").write_text(spec.to_json(source=False), encoding="utf-8")
        if certificate is not None:
            (draft / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
        (draft / "outcomes.jsonl").touch()
        shutil.rmtree(self.path / spec.id, ignore_errors=True)
        draft.rename(self.path / spec.id)

    def record(self, environment_id: str, row: OutcomeRow) -> None:
        """Append what a rollout brought."""
        MetricsLog(self.path / environment_id / "outcomes.jsonl").append(msgspec.to_builtins(row))

    def outcomes(self, environment_id: str) -> tuple[OutcomeRow, ...]:
        """All rows of an environment, oldest first."""
        rows = MetricsLog(self.path / environment_id / "outcomes.jsonl").rows()
        try:
            return tuple(msgspec.convert(row, OutcomeRow) for row in rows)
        except msgspec.ValidationError as error:
            raise UsageError(f"the outcomes of {self.path / environment_id} cannot be read: {error}") from error

    def index(self, ids: Sequence[str]) -> None:
        """Write `pool.json`: the environments of the pool, in the order of their admission."""
        entries = [{"id": identity, **_headline(self.spec(identity))} for identity in ids]
        text = json.dumps({"format": 1, "environments": entries}, indent=2, ensure_ascii=False) + "\n"
        write_whole(self.path / "pool.json", text.encode())

    def ids(self) -> tuple[str, ...]:
        """The environments of the pool, in the order of their admission.

        Raises:
            UsageError: the folder is no pool, or its index names what is no environment's id.
        """
        path = plain_file(self.path / "pool.json")
        try:
            named = [entry["id"] for entry in json.loads(path.read_text(encoding="utf-8"))["environments"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(
                f"{self.path} is no pool: its pool.json cannot be read ({error}); "
                "wanted a run's environments folder, or one with NAME.py and NAME.spec.json beside it"
            ) from error
        # An id names a folder: one that is no hash could name any place.
        strange = next((each for each in named if not (isinstance(each, str) and _ID.fullmatch(each))), None)
        if strange is not None or len(set(named)) < len(named):
            what = "an id twice" if strange is None else f"{str(strange)[:80]!r}"
            raise UsageError(f"{path} names {what}; wanted each environment's sha256 once: put a whole copy back")
        return tuple(named)

    def spec(self, environment_id: str) -> EnvironmentSpec:
        """One environment, hint included.

        Raises:
            UsageError: it is not there, or its spec is of other source.
        """
        folder = self.path / environment_id
        try:
            source = read_source(folder / "environment.py")
            spec = EnvironmentSpec.from_json(read_source(folder / "spec.json"), source=source)
        except (OSError, SpecError) as error:
            raise UsageError(f"the pool's environment {folder} cannot be read: {error}") from error
        if spec.id != environment_id:
            raise UsageError(f"{folder} holds the environment {spec.id[:12]}; wanted the one that it is named after")
        return spec

    def certificate(self, environment_id: str) -> Certificate | None:
        """The certificate of an environment, where one was kept."""
        path = plain_file(self.path / environment_id / "certificate.json")
        try:
            return Certificate.from_json(path.read_bytes()) if path.exists() else None
        except (OSError, CertificateError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error

    def truncate(self, ids: Sequence[str], *, rollout: int) -> None:
        """Forget the environments that are not among `ids`, and all outcomes of `rollout` and later.

        Raises:
            UsageError: one of `ids` is not there, or cannot be read; nothing was forgotten.
        """
        kept = {identity: sum(row.rollout < rollout for row in self.outcomes(identity)) for identity in ids}
        for identity in ids:
            self.spec(identity)
        for folder in list(self.path.iterdir()):
            if folder.is_dir() and _OURS.fullmatch(folder.name) and folder.name not in kept:
                shutil.rmtree(folder)
        for identity, rows in kept.items():
            MetricsLog(self.path / identity / "outcomes.jsonl").truncate(rows)
        self.index(ids)


def pool_specs(source: str) -> tuple[EnvironmentSpec, ...]:
    """The environments of a fixed pool: the hand-written `catalogue`, a pool folder, or a folder of files.

    Raises:
        UsageError: no such pool, or an empty one.
    """
    return catalogue() if source == "catalogue" else tuple(entry.spec for entry in _entries(Path(source)))


def trainable_specs(source: str) -> tuple[EnvironmentSpec, ...]:
    """As `pool_specs`, of a pool in which every environment is proven: the catalogue's own, or certified as it stands.

    Raises:
        UsageError: no such pool, or one with an environment that may be played and not trained on.
    """
    if source == "catalogue":
        return catalogue()
    entries = _entries(Path(source))
    for spec, certificate, place in entries:
        if is_catalogue(spec):
            continue
        found = "has no certificate" if certificate is None else f"is {certificate.verdict.value}"
        if certificate is not None and not certificate.holds_for(spec):
            found = "has a certificate of other source"
        elif certificate is not None and certificate.admitted:
            continue
        raise UsageError(
            f"the environment {spec.name!r} in the pool {source} {found}: it can be played, and is never trained on; "
            f"run spade env certify {place}, or take it out of the pool"
        )
    return tuple(entry.spec for entry in entries)


class _Entry(NamedTuple):
    """An environment of a fixed pool, and where it lies."""

    spec: EnvironmentSpec
    certificate: Certificate | None
    place: Path


def _entries(path: Path) -> tuple[_Entry, ...]:
    """What a pool folder holds, or, without a `pool.json`, the files `NAME.py` with `NAME.spec.json` beside them."""
    pool = Pool(path)
    files = [] if (path / "pool.json").exists() else [file for file in path.glob("*.py") if spec_path(file).exists()]
    if files:
        return tuple(_file_entry(file) for file in sorted(files))
    entries = tuple(_Entry(pool.spec(each), pool.certificate(each), path / each) for each in pool.ids())
    if not entries:
        raise UsageError(f"the pool {path} is empty; give one with environments, or 'catalogue'")
    return entries


def _file_entry(path: Path) -> _Entry:
    try:
        return _Entry(load_spec(path), read_certificate(path), path)
    except (OSError, SpecError, CertificateError) as error:
        raise UsageError(f"the pool's environment {path} cannot be read: {error}") from error


def _headline(spec: EnvironmentSpec) -> dict[str, Any]:
    return {"name": spec.name, "skill": spec.skill.value, "domain": spec.domain}
