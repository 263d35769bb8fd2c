"""`spade agent run` with a model that vLLM serves, in a catalogue environment that `spade serve` offers over MCP.

MODEL of the environment is a trained checkpoint, which must act as it was trained to: one of `benchmarks/vllm_grpo.py
--out DIR`, say. Without it that check is skipped; SmolLM2 as it was fetched makes no call that could be made.
"""

from __future__ import annotations

import json
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


def run_agent(model: str, environment: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        model_folder(model)
    except CheckpointError as error:
        pytest.skip(str(error))
    command = [str(SPADE), "agent", "run", "--model", model, "--backend", "vllm", "--vllm-python", str(PYTHON)]
    command += ["--mcp", f"{SPADE} serve {environment} --seed 3", "--turns", "4", "--tokens", "64", *arguments]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    print(f"\n{found.stdout}{found.stderr}")
    return found


def test_a_served_model_acts_with_the_tools_of_a_catalogue_environment():
    found = run_agent("smollm2", "bell_towers", "--temperature", "0", "Read the task with get_task and carry it out.")
    # 1 is how a model ends that makes no call that could be made.
    assert found.returncode in (0, 1), found.stderr
    assert re.match(r"\s*user: Read the task", found.stdout) and len(found.stdout.splitlines()) >= 2


def test_a_trained_checkpoint_makes_calls_and_plays_a_catalogue_environment_to_its_end():
    model = os.environ.get("MODEL")
    if not model:
        pytest.skip("no checkpoint: give one as MODEL=DIR")
    found = run_agent(model, "word_machine", "--temperature", "0")
    assert found.returncode == 0, found.stderr
    calls = re.findall(r"^ *call: (\w+)\((.*)\)$", found.stdout, re.MULTILINE)
    assert calls and all(isinstance(json.loads(arguments), dict) for _, arguments in calls)
    # The environment has the last word: the episode is over.
    assert re.match(r" *(result|user): ", found.stdout.splitlines()[-1])
