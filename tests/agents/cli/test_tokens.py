"""`spade tokens`: lists plays, prints the ledger of one, marks drift, and says what is missing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from spade_agents.cli import main
from spade_agents.policy import Sampling
from spade_agents.policy.sampler import SamplerLimits
from spade_agents.policy.torch_policy import TorchPolicy
from spade_agents.rollout import play
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings
from spade_agents.settings import load_settings
from tests.agents.rollout.worlds import Counter
from tests.agents.tiny import llama, tokenizer


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["tokens", *arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of one rollout: a true play, one whose log-probabilities were changed, one of weights no longer kept."""
    base = tmp_path_factory.mktemp("ledger")
    model = base / "model"
    llama(vocabulary=tokenizer().vocabulary_size).save_pretrained(model)
    tokenizer().inner.save(str(model / "tokenizer.json"))
    settings = load_settings(RunSettings, None, [f"model.start={model}"])
    directory = RunDirectory.create(base / "run", settings, "A")
    policy = TorchPolicy.from_folder(model, style="compact", limits=SamplerLimits(rows=4))
    world = Counter(max_turns=2)
    true = asyncio.run(play(world, policy, sampling=Sampling(max_tokens=8, temperature=0.7), seed=1))
    policy.close()
    turn = true.turns[0]
    moved = replace(turn.completion, logprobs=tuple(value - 1.0 for value in turn.completion.logprobs))
    drifted = replace(true, turns=(replace(turn, completion=moved), *true.turns[1:]))
    later = replace(turn, completion=replace(turn.completion, weight_version=7))
    directory.write_trajectories(0, [true, drifted, replace(true, turns=(later,)), replace(true, turns=())])
    directory.metrics.append({"kind": "rollout", "rollout": 0})
    return directory.path


def test_plays_are_listed_by_id(capsys, folder):
    code, out, _ = run(capsys, str(folder))
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["0/0", "0/1", "0/2", "0/3"]
    listed = json.loads(run(capsys, str(folder), "--json")[1])
    assert listed[0]["play"] == "0/0" and listed[0]["tokens"] > 0


def test_sampler_and_trainer_agree_on_a_true_play(capsys, folder):
    code, out, _ = run(capsys, str(folder), "0/0")
    assert code == 0
    assert "0 drift by more than 0.1" in out and "!" not in out.split("place")[0]
    code, out, _ = run(capsys, str(folder), "0/0", "--json")
    told = json.loads(out)
    trained = [row for row in told["tokens"] if row["trained"]]
    assert all(abs(row["sampler"] - row["trainer"]) < 1e-3 for row in trained)
    assert told["mismatch"]["tokens"] == len(trained)
    assert told["mismatch"]["ratio_mean"] == pytest.approx(1.0, abs=1e-3)


def test_drift_is_marked_and_told_by_the_exit_code(capsys, folder):
    code, out, _ = run(capsys, str(folder), "0/1")
    assert code == 1
    marked = [line for line in out.splitlines() if " ! " in line]
    assert marked and f"{len(marked)} drift by more than 0.1" in out


def test_weights_that_are_gone_are_told_and_the_sampler_s_side_stands(capsys, folder):
    code, out, err = run(capsys, str(folder), "0/2")
    assert code == 0
    assert "weights of version 7" in err and "agent" in out
    code, out, err = run(capsys, str(folder), "0/0", "--no-trainer")
    assert (code, err) == (0, "") and "ratio" not in out


@pytest.mark.parametrize("play", ["0/9", "5/0", "x", "0", "0/-1", "0/3"])
def test_a_play_that_is_none_or_has_no_tokens_is_a_usage_error(capsys, folder, play):
    code, _, err = run(capsys, str(folder), "--", play)
    assert code == 2 and ("ROLLOUT/NUMBER" in err or "no tokens" in err)


def test_a_folder_that_is_no_run_is_a_usage_error(capsys, tmp_path):
    code, _, err = run(capsys, str(tmp_path))
    assert code == 2 and "no run directory" in err
