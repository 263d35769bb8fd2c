"""`spade agent run` with a model that vLLM serves, in a catalogue environment that `spade serve` offers over MCP."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spade_agents.errors import CheckpointError
from spade_agents.policy import model_folder
from tests.vllm.install import PYTHON

SPADE = Path(sys.executable).with_name("spade")


def test_a_served_model_acts_in_a_catalogue_environment():
    """The model is MODEL of the environment where that is set (a checkpoint, say), else SmolLM2 as it was fetched."""
    model = os.environ.get("MODEL", "smollm2")
    try:
        model_folder(model)
    except CheckpointError as error:
        pytest.skip(str(error))
    command = [str(SPADE), "agent", "run", "--model", model, "--backend", "vllm", "--vllm-python", str(PYTHON)]
    command += ["--mcp", f"{SPADE} serve bell_towers --seed 3", "--turns", "4", "--tokens", "64", "--temperature", "0"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    print(f"\n{found.stdout}")
    # 1 is how a model ends that makes no call that could be made.
    assert found.returncode in (0, 1), found.stderr
    assert re.match(r"\s*user: Read the task", found.stdout) and len(found.stdout.splitlines()) >= 2
