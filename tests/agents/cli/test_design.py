"""`spade design`, `spade pool` and `spade memory` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spade_agents.cli import main
from spade_agents.designer.memory import Memory
from spade_agents.selfplay.pool import Pool
from tests.agents.designer.test_memory import record
from tests.agents.selfplay.test_pool_sets import CATALOGUE, made

FAST = ("call.attempts=2", "certificate.seeds=2", "call.hint_tries=1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def script(path: Path) -> Path:
    """A designer that writes one program and, for want of another line, nothing else."""
    text = f"```python\n{CATALOGUE[0].source}```"
    path.write_text(json.dumps({"text": text}) + "\n")
    return path


def test_a_script_designs_a_pool_whose_card_tells_its_counts(capsys, tmp_path):
    out = tmp_path / "pool"
    model = f"scripted:{script(tmp_path / 'designs.jsonl')}"
    arguments = ("design", "--model", model, "--n", "2", "--out", str(out), "--corpus", "none", *FAST)
    code, text, _ = run(capsys, *arguments, "--json")
    found = json.loads(text)
    assert (code, found["environments"], found["undone"]) == (0, 0, {})
    assert found["attempts"]["verdicts"] == {"no_hint": 1, "rejected": 3}, "the script's one line is no hint"
    assert found["attempts"]["gates"] == {"novelty": 1, "empty": 2}
    assert (out / "README.md").exists()
    code, text, _ = run(capsys, "pool", "show", str(out))
    assert code == 0
    assert "asked for 2, filled 0 in 4 attempts" in text
    code, text, _ = run(capsys, *arguments)
    assert (code, "were there already" in text) == (0, True)


def test_a_dry_run_prints_the_settings_and_writes_nothing(capsys, tmp_path):
    code, text, _ = run(capsys, "design", "--dry-run", "--n", "7", "--prices", "1", "2", "--budget", "3", "--json")
    found = json.loads(text)
    assert (code, found["slots"], found["budget"], found["endpoint"]["completion_price"]) == (0, 7, 3.0, 2.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "nanno"), "did you mean 'nano'"),
        (("--model", "scripted:none.jsonl"), "no file"),
        (("--corpus", "none.jsonl"), "does not exist"),
        (("call.atempts=3",), "did you mean 'call.attempts'"),
        (("--budget", "3"), "budget needs prices"),
        (("--skills", "cooking"), "skills"),
    ],
)
def test_wrong_usage_is_told_and_nothing_is_made(capsys, tmp_path, arguments, told):
    code, _, err = run(capsys, "design", "--out", str(tmp_path / "pool"), "--n", "1", *arguments)
    assert (code, told in err) == (2, True), err
    assert not (tmp_path / "pool").exists()


def test_pools_are_merged_and_split(capsys, tmp_path):
    first, second = made(tmp_path / "a", CATALOGUE[:4]), made(tmp_path / "b", CATALOGUE[3:])
    code, text, _ = run(capsys, "pool", "merge", str(first), str(second), "--out", str(tmp_path / "c"))
    assert (code, text.startswith("wrote 12 environments")) == (0, True)
    assert "1 were there already" in text
    parts = ("--part", "train=0.75", "--part", "test=0.25")
    code, text, _ = run(capsys, "pool", "split", str(tmp_path / "c"), *parts, "--out", str(tmp_path / "d"), "--json")
    sizes = {name: part["environments"] for name, part in json.loads(text)["parts"].items()}
    assert (code, sum(sizes.values())) == (0, 12)
    assert len(Pool(tmp_path / "d" / "test").ids()) == sizes["test"]
    code, _, err = run(capsys, "pool", "split", str(tmp_path / "c"), "--part", "train", "--out", str(tmp_path / "e"))
    assert (code, "wanted NAME=SHARE" in err) == (2, True)


def test_memory_is_asked_by_skill_win_rate_and_id(capsys, tmp_path):
    memory = Memory.open(tmp_path / "memory.sqlite")
    for number, rate in ((1, 0.5), (2, 1.0)):
        memory.add(record(number, win_rate=rate, name=f"shelf\x1b{number}"))
    memory.add(record(1, win_rate=0.75, rollout=4, name="shelf"))
    memory.close()
    code, text, _ = run(capsys, "memory", "query", str(tmp_path), "--high", "0.9")
    assert (code, text.count("\n")) == (0, 1)
    assert "win rate 0.75" in text
    assert "\x1b" not in text
    code, text, _ = run(capsys, "memory", "query", str(tmp_path), "--retired", "--json")
    (found,) = json.loads(text)
    assert (found["environment_id"], found["retired"], found["source"]) == ("2", "mastered", "class E2: pass\n")
    code, text, _ = run(capsys, "memory", "query", str(tmp_path), "--id", "1")
    assert text.count("\n") == 2
    code, _, err = run(capsys, "memory", "query", str(tmp_path), "--skill", "cooking")
    assert (code, "there is no skill" in err) == (2, True)
    code, _, err = run(capsys, "memory", "query", str(tmp_path / "none"))
    assert (code, "there is no memory" in err) == (2, True)


def test_an_environment_of_a_pool_tells_its_story(capsys, tmp_path):
    path = made(tmp_path / "a", CATALOGUE[:2])
    code, text, _ = run(capsys, "env", "show", f"{path}/{CATALOGUE[0].id[:10]}")
    assert (code, "story:\n  certificate: certified" in text) == (0, True)
    code, text, _ = run(capsys, "env", "show", f"{path}/{CATALOGUE[0].id[:10]}", "--json")
    assert json.loads(text)["lineage"]["certificate"]["verdict"] == "certified"


@pytest.mark.parametrize(
    "setting",
    [
        "call.attempts=0",
        "call.hint_tries=-1",
        "call.max_source_bytes=0",
        "call.sampling.temperature=nan",
        "call.sampling.temperature=-1",
        "call.sampling.max_tokens=0",
        "call.sampling.top_p=0",
        "endpoint.concurrency=-1",
        "endpoint.retries=-1",
        "endpoint.request_seconds=0",
        "endpoint.prompt_price=-1",
        "endpoint.completion_price=inf",
        "memory.count=-1",
        "memory.max_similarity=nan",
        "memory.low=0.9",
        "assignment.target.gain=nan",
        "certificate.floor=nan",
        "slots=100000000000",
        "reference.model=nanno",
        "backend=vlm",
    ],
)
def test_a_setting_that_cannot_be_is_told_before_anything_is_made(capsys, tmp_path, setting):
    model = f"scripted:{script(tmp_path / 'designs.jsonl')}"
    code, _, err = run(capsys, "design", "--model", model, "--out", str(tmp_path / "pool"), "--n", "1", setting)
    assert (code, "wanted" in err or "Input should" in err or "did you mean" in err) == (2, True), err
    assert not (tmp_path / "pool").exists()


def test_a_memory_that_is_none_leaves_no_pool_behind(capsys, tmp_path):
    path = script(tmp_path / "designs.jsonl")
    arguments = ("design", "--model", f"scripted:{path}", "--out", str(tmp_path / "pool"), "--n", "1")
    code, _, err = run(capsys, *arguments, "--corpus", "none", f"memory_file={path}")
    assert (code, "give a memory.sqlite of a run" in err) == (2, True), err
    assert not (tmp_path / "pool").exists()
