"""`open_policy`: from what a user names with `--model` to a live policy."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spade_agents.errors import CheckpointError, UsageError
from spade_agents.policy.scripted import ScriptedPolicy

if TYPE_CHECKING:
    from spade_agents.policy.torch_policy import TorchPolicy

__all__ = ["NANO_FOLDER", "Backend", "model_folder", "open_policy"]

Backend = Literal["auto", "torch", "vllm"]

NANO_FOLDER = Path(__file__).parents[1] / "nano" / "model"
"""Where the shipped model lies in the package."""

_TARGETS = "PATH (a Hugging Face folder, a step-N or a run), nano, or scripted:gold|silent|random|FILE.jsonl"


@asynccontextmanager
async def open_policy(target: str, *, backend: Backend = "auto") -> AsyncIterator[ScriptedPolicy | TorchPolicy]:
    """Open the policy that `target` names, and close it at the end.

    Args:
        target: a Hugging Face folder, a checkpoint `step-N`, a run (its newest finished checkpoint), `nano`, or
            `scripted:gold|silent|random|FILE.jsonl`.
        backend: `auto` takes the in-process torch policy for every model.

    Raises:
        UsageError: an unknown target or one that needs a backend that is not there yet.
        CheckpointError: the model is missing, unfinished or unreadable.
    """
    kind, separator, rest = target.partition(":")
    if kind == "scripted" and separator:
        yield _scripted(rest)
        return
    if backend == "vllm":
        raise UsageError("the vllm backend is not part of this version; use backend auto or torch")
    folder = model_folder(target)
    from spade_agents.policy.torch_policy import TorchPolicy

    policy = TorchPolicy.from_folder(folder)
    try:
        yield policy
    finally:
        policy.close()


def model_folder(target: str) -> Path:
    """The Hugging Face folder of a model that `target` names.

    Raises:
        UsageError: `target` is no model on this machine.
        CheckpointError: a run or checkpoint without a finished model.
    """
    if "://" in target:
        raise UsageError(f"{target}: policies behind a URL are not part of this version; wanted {_TARGETS}")
    if target == "smollm2":
        raise UsageError(f"the model smollm2 is not part of this version; wanted {_TARGETS}")
    if target.startswith("scripted:"):
        raise UsageError(f"{target} is a script and has no weights; wanted a model: PATH or nano")
    if target == "nano":
        return _nano()
    path = Path(target)
    if (path / "config.json").is_file():
        return path
    if (path / "model" / "config.json").is_file():
        return _finished(path)
    if (path / "checkpoints").is_dir():
        return _newest(path)
    if path.exists():
        raise CheckpointError(f"{path} holds no config.json, no model/ and no checkpoints/; wanted {_TARGETS}")
    near = difflib.get_close_matches(target, ["nano", "smollm2", "scripted:gold", "scripted:silent", "scripted:random"])
    advice = f"did you mean {near[0]!r}?" if near else f"wanted {_TARGETS}"
    raise UsageError(f"there is no model {target!r}; {advice}")


def _scripted(name: str) -> ScriptedPolicy:
    match name:
        case "gold":
            return ScriptedPolicy.gold()
        case "silent":
            return ScriptedPolicy.silent()
        case "random":
            return ScriptedPolicy.random()
    if not name.endswith(".jsonl"):
        raise UsageError(f"there is no script {name!r}; wanted scripted:gold, silent, random or a FILE.jsonl")
    return ScriptedPolicy.from_file(Path(name))


def _nano() -> Path:
    if not (NANO_FOLDER / "config.json").is_file():
        raise CheckpointError(f"the nano model is not at {NANO_FOLDER}; build it with: spade nano build")
    return NANO_FOLDER


def _finished(checkpoint: Path) -> Path:
    if not (checkpoint / "STABLE").exists():
        raise CheckpointError(f"{checkpoint} has no STABLE marker: it was not finished; use an earlier step-N")
    return checkpoint / "model"


def _newest(run: Path) -> Path:
    """The model of the finished checkpoint with the highest number."""
    found = {
        int(path.name[5:]): path
        for path in (run / "checkpoints").glob("step-*")
        if path.name[5:].isdigit() and (path / "STABLE").exists()
    }
    if not found:
        raise CheckpointError(f"the run {run} has no finished checkpoint (step-N with a STABLE marker)")
    return found[max(found)] / "model"
