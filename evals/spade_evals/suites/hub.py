"""Data of the Hugging Face hub by the name of a column: fetched when asked to, kept only where its digest fits."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2

from spade_agents.errors import InfrastructureError, UsageError

__all__ = ["HUB", "HubFile", "fetch"]

_ENDPOINT = "https://huggingface.co"
_SECONDS = 30.0
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """One file of the hub.

    Attributes:
        repository, revision, path: where it lies; the revision is a commit.
        name: what it is called in the user's folder, where the column looks for it.
        digest: `sha256:...`, or `blob:...` as git has it.
        terms: what must be accepted there first; empty for what anybody may read.
    """

    repository: str
    revision: str
    path: str
    name: str
    digest: str
    terms: str = ""


HUB = {
    "aime25": HubFile(
        repository="math-ai/aime25",
        revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
        path="test.jsonl",
        name="aime25.jsonl",
        digest="sha256:b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331",
    ),
    "aime26": HubFile(
        repository="math-ai/aime26",
        revision="79037aebdb6580008fb960d17cb21fd3099083e3",
        path="aime2026.jsonl",
        name="aime26.jsonl",
        digest="sha256:52822957957a3f577d1e9706c36a66a8108a3f99b6aff424cfb72dff0094a9ee",
    ),
    "gpqa_diamond": HubFile(
        repository="Idavidrein/gpqa",
        revision="633f5ee89ab8ad4522a9f850766b73f62147ffdd",
        path="gpqa_diamond.csv",
        name="gpqa_diamond.csv",
        digest="blob:7589e3e467d69a1dceb126a60c4108d6d4f1d166",
        terms="the data set's terms",
    ),
    "livecodebench_v6": HubFile(
        repository="livecodebench/code_generation_lite",
        revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
        path="test6.jsonl",
        name="livecodebench_test6.jsonl",
        digest="sha256:bb4c364f71921c4495a6ad15abe1a927350b720009f4933e2e71f8af0f6fd1f5",
    ),
}
"""By column. LiveCodeBench's is the 175 problems that release_v6 added; all 1,055 are in its six files together."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


def fetch(
    column: str, folder: Path, *, endpoint: str | None = None, told: Callable[[int], None] = lambda size: None
) -> Path:
    """Fetch a column's file into a folder; one that is there and fits is left as it is.

    Args:
        column: one of `HUB`.
        folder: made where it is missing.
        endpoint: of the hub; `HF_ENDPOINT`, or the public one, unless given. `HF_TOKEN` is sent along.
        told: called with the bytes that have come so far.

    Raises:
        UsageError: no such column, or another file of that name is there.
        InfrastructureError: the hub cannot be reached, refuses, or has another file than was pinned.
    """
    if column not in HUB:
        raise UsageError(f"the hub has no data for {column!r}; wanted one of: {', '.join(HUB)}")
    file = HUB[column]
    target = folder / file.name
    if target.is_file():
        if _digest_of(target, file.digest) == file.digest:
            return target
        raise UsageError(
            f"{target} is another file than {file.repository} has; move it away, or go on with it as it is"
        )
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{file.name}.{os.getpid()}.draft"
    host = endpoint or os.environ.get("HF_ENDPOINT") or _ENDPOINT
    url = f"{host}/datasets/{file.repository}/resolve/{file.revision}/{file.path}"
    try:
        _download(url, draft, file, told)
        found = _digest_of(draft, file.digest)
        if found != file.digest:
            raise InfrastructureError(f"{url} is {found}; wanted {file.digest}: nothing was kept")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def _download(url: str, draft: Path, file: HubFile, told: Callable[[int], None]) -> None:
    token = os.environ.get("HF_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with (
            httpx2.Client(timeout=_SECONDS, follow_redirects=True) as client,
            client.stream("GET", url, headers=headers) as answer,
            draft.open("wb") as out,
        ):
            if answer.status_code in (401, 403):
                raise InfrastructureError(_refused(file, answer.status_code, bool(token)))
            answer.raise_for_status()
            size = 0
            for piece in answer.iter_bytes(_PIECE):
                out.write(piece)
                size += len(piece)
                told(size)
    except httpx2.HTTPError as error:
        raise InfrastructureError(
            f"{url} could not be fetched ({type(error).__name__}: {error}); where there is no network, put the file "
            f"there by other means, as {file.name}"
        ) from error


def _refused(file: HubFile, status: int, has_token: bool) -> str:
    what = "HF_TOKEN was sent" if has_token else "give a token in HF_TOKEN"
    terms = f"accept {file.terms} there first" if file.terms else "it may have been withdrawn"
    return f"the hub refuses {file.repository} ({status}): {terms}; {what}"


def _digest_of(path: Path, like: str) -> str:
    """A file's digest, of the kind that `like` is."""
    kind = like.partition(":")[0]
    digest: _Digest = hashlib.sha256()
    if kind == "blob":
        digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return f"{kind}:{digest.hexdigest()}"
