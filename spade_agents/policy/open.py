"""`open_policy`: from what a user names with `--model` to a live policy."""

from __future__ import annotations

import difflib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from spade_agents.errors import CheckpointError, UsageError
from spade_agents.policy.scripted import ScriptedPolicy

if TYPE_CHECKING:
    from spade_agents.policy.endpoint import EndpointPolicy
    from spade_agents.policy.endpoint_client import EndpointSettings
    from spade_agents.policy.hf_policy import HfPolicy
    from spade_agents.policy.torch_policy import TorchPolicy
    from spade_agents.policy.vllm import VllmSettings
    from spade_agents.policy.vllm.policy import VllmPolicy

__all__ = ["NANO_FOLDER", "Backend", "backend_named", "model_folder", "models_folder", "open_policy"]

Backend = Literal["auto", "torch", "vllm"]

NANO_FOLDER = Path(__file__).parents[1] / "nano" / "model"
"""Where the shipped model lies in the package."""

_TARGETS = (
    "PATH (a Hugging Face folder, a step-N or a run), nano, smollm2, URL#MODEL, or "
    "scripted:gold|silent|random|FILE.jsonl"
)


def backend_named(name: str) -> Backend:
    """The backend of that name.

    Raises:
        UsageError: there is none.
    """
    found: Backend | None = next((known for known in get_args(Backend) if known == name), None)
    if found is None:
        raise UsageError(f"there is no backend {name!r}; wanted {', '.join(get_args(Backend))}")
    return found


@asynccontextmanager
async def open_policy(
    target: str,
    *,
    backend: Backend = "auto",
    vllm: VllmSettings | None = None,
    endpoint: EndpointSettings | None = None,
) -> AsyncIterator[ScriptedPolicy | TorchPolicy | HfPolicy | EndpointPolicy | VllmPolicy]:
    """Open the policy that `target` names, and close it at the end.

    Args:
        target: a Hugging Face folder, a checkpoint `step-N`, a run (its newest finished checkpoint), `nano`, `smollm2`,
            `scripted:gold|silent|random|FILE.jsonl`, or `URL#MODEL`, an OpenAI-compatible endpoint up to and including
            its version, whose key is OPENAI_API_KEY.
        backend: `auto` and `torch` take a policy in this process for every model, the fast one for a Llama, else
            transformers; `vllm` has a vLLM server run it.
        vllm: how, for backend `vllm`.
        endpoint: how, for an endpoint: retries, concurrency, prices.

    Raises:
        UsageError: an unknown target, or no vLLM where it is looked for.
        CheckpointError: the model is missing, unfinished or unreadable.
        InfrastructureError: the vLLM server does not come up, or does not answer.
    """
    kind, separator, rest = target.partition(":")
    if kind == "scripted" and separator:
        yield _scripted(rest)
        return
    if "://" in target:
        reached = _endpoint(target, endpoint)
        try:
            yield reached
        finally:
            await reached.aclose()
        return
    if backend == "vllm":
        from spade_agents.policy.vllm.policy import VllmPolicy

        async with VllmPolicy.open(model_folder(target), vllm) as served:
            yield served
        return
    policy = _in_process(model_folder(target))
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
        raise UsageError(
            f"{target} is an endpoint: it gives no token ids and takes no weights, so it cannot be trained or started "
            "from; give a model folder, and use the endpoint to design, to play or to be evaluated"
        )
    if target == "smollm2":
        return _fetched(target)
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


def _in_process(folder: Path) -> TorchPolicy | HfPolicy:
    """The fast policy for a model that it reads, else the one that runs transformers."""
    from spade_agents.policy.llama import is_plain_llama
    from spade_agents.policy.model_files import read_json

    if is_plain_llama(read_json(folder / "config.json")):
        from spade_agents.policy.torch_policy import TorchPolicy

        return TorchPolicy.from_folder(folder)
    from spade_agents.policy.hf_policy import HfPolicy

    return HfPolicy.from_folder(folder)


def _endpoint(target: str, settings: EndpointSettings | None) -> EndpointPolicy:
    url, _, model = target.partition("#")
    if not url.startswith(("http://", "https://")) or not model:
        raise UsageError(f"found {target!r}; wanted URL#MODEL, such as http://localhost:8000/v1#my-model")
    from spade_agents.policy.endpoint import EndpointPolicy

    return EndpointPolicy(url.rstrip("/"), model, os.environ.get("OPENAI_API_KEY", ""), settings)


def models_folder() -> Path:
    """Where fetched models lie: in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spade-agents" / "models"


def _fetched(name: str) -> Path:
    folder = models_folder() / name
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"the model {name} is not at {folder}; fetch it with: spade model fetch {name}")
    return folder


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
