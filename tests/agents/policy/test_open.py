"""open_policy: what each target opens, and what each wrong one says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spade_agents.errors import CheckpointError, UsageError
from spade_agents.messages import Conversation, Message
from spade_agents.policy import Sampling, model_folder, open_policy
from spade_agents.policy import open as opening
from tests.agents.tiny import llama, tokenizer

GO = Conversation(messages=(Message(role="user", content="go"),))


def write_model(folder) -> None:
    llama(vocabulary=tokenizer().vocabulary_size).save_pretrained(folder)
    tokenizer().inner.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", ["gold", "silent", "random"])
async def test_a_script_is_opened_by_name(name):
    async with open_policy(f"scripted:{name}") as policy:
        assert policy.info.name == f"scripted:{name}"
        assert not policy.info.has_tokens


async def test_a_script_is_opened_from_a_file(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "hello"}\n')
    async with open_policy(f"scripted:{tmp_path / 'a.jsonl'}") as policy:
        assert (await policy.complete(GO, Sampling(), seed=0)).text == "hello"


async def test_a_folder_is_opened_as_a_torch_policy(tmp_path):
    write_model(tmp_path)
    async with open_policy(str(tmp_path), backend="torch") as policy:
        completion = await policy.complete(GO, Sampling(max_tokens=3), seed=0)
    assert completion.token_ids


def test_a_run_is_its_newest_finished_checkpoint(tmp_path):
    for number in (2, 10, 11):
        step = tmp_path / "checkpoints" / f"step-{number}"
        (step / "model").mkdir(parents=True)
        (step / "model" / "config.json").write_text("{}")
        if number != 11:
            (step / "STABLE").touch()
    assert model_folder(str(tmp_path)) == tmp_path / "checkpoints" / "step-10" / "model"
    assert model_folder(str(tmp_path / "checkpoints" / "step-2")).parent.name == "step-2"
    with pytest.raises(CheckpointError, match="STABLE"):
        model_folder(str(tmp_path / "checkpoints" / "step-11"))


def test_a_run_without_a_finished_checkpoint_says_so(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match="no finished checkpoint"):
        model_folder(str(tmp_path))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("smollm2", "spade model fetch smollm2"),
        ("http://localhost:8000/v1", "URL#MODEL"),
        ("nanno", "did you mean 'nano'"),
        ("/nowhere/at/all", "Hugging Face folder"),
        ("scripted:golden", "no script 'golden'"),
        ("scripted:/nowhere.jsonl", "no file"),
    ],
)
async def test_a_wrong_target_says_what_is_wanted(target, told, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=told):
        async with open_policy(target):
            pass


async def test_the_vllm_backend_is_refused_in_words(tmp_path):
    with pytest.raises(UsageError, match="vllm"):
        async with open_policy(str(tmp_path), backend="vllm"):
            pass


def test_a_script_has_no_model_folder():
    with pytest.raises(UsageError, match="no weights"):
        model_folder("scripted:gold")


def test_a_missing_nano_model_says_how_to_build_it(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "NANO_FOLDER", tmp_path)
    with pytest.raises(CheckpointError, match="spade nano build"):
        model_folder("nano")


def test_importing_policies_does_not_import_torch():
    code = "import sys, spade_agents.policy, spade_agents.rollout; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
