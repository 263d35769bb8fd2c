"""The ablations: ten arms whose settings load, work that is done once, and tables that say what is not shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ablations.arms import ARMS, FULL, QUICK, job_key, start_sum
from ablations.jobs import Clock, Job, Plan, finish_all
from ablations.page import page, sentences
from ablations.results import arm_rows, figures_of, learnable_share, paired

from spade_agents.designer.corpus import load_corpus
from spade_agents.selfplay import RunSettings
from spade_agents.selfplay.pool import OutcomeRow
from spade_agents.settings import load_settings, to_toml
from tests.agents.report.test_page import Elements

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "nano.toml"
SCRIPT = ROOT / "benchmarks" / "nano_ablations.py"


def plan(out: Path, *overrides: str, weights: str = "w") -> Plan:
    return Plan(out=out, config=CONFIG, size=QUICK, start="nano", weights=weights, overrides=overrides)


def result(*rates: float, held_out: float = 0.4, vendi: float = 0.6) -> dict:
    """A run of two sets, the first of which counts for nothing."""
    environments = [{"id": f"e{n}", "win_rate": rate, "regret": 0.1, "fault": ""} for n, rate in enumerate(rates)]
    first = {"rollout": 0, "environments": [{"id": "f", "win_rate": 0.0, "regret": 0.0, "fault": ""}]}
    return {
        "rollouts": 4,
        "commit": "abc",
        "seconds": 60,
        "held_out": {"win_rate": held_out},
        "sets": [first, {"rollout": 2, "environments": environments}],
        "gold_steps": {"f": 9.0, **{f"e{n}": 3.0 for n in range(len(rates))}},
        "diversity": {"designs": 32, "vendi": vendi, "distinct_share": 1.0, "largest_family": 0.1},
        "designs": [
            {"verdicts": {"rejected": 9}},
            {"verdicts": {"certified": 2, "no_hint": 1, "rejected": 1, "undecided": 5}},
        ],
        "designer": [{"rollout": 2, "designer": 12, "designer_reward": 0.25, "surprise": 0.4}],
    }


def designer(*rates: float) -> dict:
    return {
        "asked": 8,
        "sources": ["x"] * len(rates),
        "diversity": {"designs": len(rates), "vendi": 0.5, "distinct_share": 1.0, "largest_family": 0.2},
        "win_rates": {"spade": list(rates), "frozen": list(rates)},
    }


def pair(spade: tuple[float, ...], frozen: tuple[float, ...]) -> dict:
    return {"spade": designer(*spade), "frozen": designer(*frozen)}


@pytest.mark.parametrize("size", [FULL, QUICK])
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_is_a_configuration(arm: str, size):
    chosen = load_settings(RunSettings, CONFIG, [*size.runs, *ARMS[arm].overrides])
    assert chosen.evaluation.evaluator == "none"
    if arm != "SPADE":
        assert chosen != load_settings(RunSettings, CONFIG, size.runs)


def test_arms_differ_from_each_other_and_every_slot_has_its_share_of_a_skill():
    settings = {to_toml(load_settings(RunSettings, CONFIG, [*FULL.runs, *arm.overrides])) for arm in ARMS.values()}
    assert len(settings) == len(ARMS) == 10
    chosen = load_settings(RunSettings, CONFIG, FULL.runs)
    assert chosen.selfplay.environments >= 2 * len(chosen.designer.skills)


def test_a_key_knows_settings_weights_and_measures_and_nothing_else():
    key = job_key(CONFIG, ["run.seed=1"], "w")
    assert key == job_key(CONFIG, ["run.seed=1"], "w")
    others = [
        job_key(CONFIG, ["run.seed=2"], "w"),
        job_key(CONFIG, ["run.seed=1", "reward.type=regret_only"], "w"),
        job_key(CONFIG, ["run.seed=1"], "other weights"),
        job_key(CONFIG, ["run.seed=1"], "w", "held-out", 60),
        job_key(CONFIG, ["run.seed=1"], "w", "held-out", 400),
    ]
    assert len({key, *others}) == 6
    assert job_key(CONFIG, ["run.seed=1", f"run.rollouts={12}"], "w") == key, "the configuration's own value"


def test_the_sum_of_the_start_weights_follows_their_bytes(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"{}")
    before = start_sum(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"{} ")
    assert start_sum(str(tmp_path)) != before


def test_where_an_experiment_lies_decides_no_key_but_a_pools_settings_decide_those_of_its_arms(tmp_path):
    here, there = plan(tmp_path / "a"), plan(tmp_path / "b")
    for arm in ARMS:
        assert here.run(arm, 0).path.name == there.run(arm, 0).path.name
    assert here.pair(3).path.name == there.pair(3).path.name
    other = plan(tmp_path / "a", "novelty.threshold=0.8")
    assert here.run("fixed pool", 0).path.name != other.run("fixed pool", 0).path.name
    source = f"selfplay.pool.source={here.pool(0).path / 'run' / 'environments'}"
    assert source in here.run("frontier pool", 0).facts["overrides"]
    assert plan(tmp_path, weights="v").pair(0).path.name != here.pair(0).path.name


def test_the_arm_without_a_corpus_shows_every_prompt_the_same_document_wherever_the_code_lies(monkeypatch, tmp_path):
    from ablations import arms

    corpus = load_corpus(arms.ONE_DOCUMENT)
    assert len(corpus) == 1
    assert corpus.at(0) == corpus.at(17)
    before = plan(tmp_path).run("no corpus", 0).path.name
    elsewhere = tmp_path / "one_document.jsonl"
    elsewhere.write_bytes(arms.ONE_DOCUMENT.read_bytes())
    moved = arms.Arm(told="", overrides=(f"designer.corpus={elsewhere}",))
    monkeypatch.setattr(arms, "ONE_DOCUMENT", elsewhere)
    monkeypatch.setitem(ARMS, "no corpus", moved)
    assert plan(tmp_path).run("no corpus", 0).path.name == before


COUNTING = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[2])
done = folder.parent / "done.txt"
done.open("a").write(folder.name + "\\n")
if json.loads((folder / "job.json").read_text()).get("fails"):
    sys.exit("no")
(folder / "result.json").write_text(json.dumps({"name": folder.name}))
"""


def job(out: Path, name: str, **facts) -> Job:
    return Job(kind="run", name=name, path=out / name, facts=facts)


def test_finished_jobs_are_not_done_again_and_a_chain_goes_in_order(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(COUNTING)
    first, second, third = (job(tmp_path, name) for name in "abc")
    second.path.mkdir()
    second.keep({"name": "b"})
    for _ in range(2):
        finish_all([[first, second, third]], script=script, jobs=2, clock=Clock(minutes=1))
    assert (tmp_path / "done.txt").read_text().split() == ["a", "c"]
    assert third.result == {"name": "c"}


def test_a_failing_job_is_named_with_its_log_after_the_others_have_ended(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(COUNTING)
    bad, behind, other = job(tmp_path, "bad", fails=True), job(tmp_path, "behind"), job(tmp_path, "other")
    with pytest.raises(SystemExit, match=r"failed, see its log: .*bad/log.txt \(exit 1\)"):
        finish_all([[bad, behind], [other]], script=script, jobs=1, clock=Clock(minutes=1))
    assert (bad.result, behind.result, other.result) == (None, None, {"name": "other"})


def test_nothing_is_begun_once_time_is_up(tmp_path):
    waiting = job(tmp_path, "a")
    finish_all([[waiting]], script=tmp_path / "none.py", jobs=1, clock=Clock(minutes=0))
    assert waiting.result is None
    assert not waiting.path.exists()


def test_ctrl_c_begins_nothing_more(tmp_path, monkeypatch):
    from ablations import jobs

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "_run", interrupted)
    first, second = job(tmp_path, "a"), job(tmp_path, "b")
    with pytest.raises(KeyboardInterrupt):
        finish_all([[first], [second]], script=tmp_path / "none.py", jobs=1, clock=Clock(minutes=1))
    assert not second.path.exists()


def test_the_sets_of_a_run_are_told_with_the_win_rate_of_their_whole_window():
    from ablations.measures import sets_played

    def row(rollout: int, rate: float, regret: float | None = None) -> OutcomeRow:
        return OutcomeRow(rollout=rollout, unhinted=(rate,), win_rate=rate, regret=regret)

    outcomes = {"a": [row(0, 0.2, 0.3), row(1, 0.4), row(4, 0.8, 0.1)], "b": [row(2, 1.0), row(3, 0.9)]}
    found = sets_played(outcomes, period=2)
    assert [
        (one["rollout"], [(e["id"], e["win_rate"], e["regret"]) for e in one["environments"]]) for one in found
    ] == [
        (0, [("a", 0.4, 0.3)]),
        (2, [("b", 0.9, None)]),
        (4, [("a", 0.8, 0.1)]),
    ]


def test_the_figures_of_a_run_leave_its_first_set_out():
    found = figures_of(result(0.2, 0.5, 0.9, 1.0))
    assert found["learnable"] == 0.5
    assert found["difficulty"] == pytest.approx(0.35)
    assert found["gold steps"] == 3.0
    assert found["certified"] == 0.75
    assert (found["held-out"], found["diversity"]) == (0.4, 0.6)


def test_both_ends_of_the_band_are_learnable_and_missing_rates_count_for_nothing():
    assert learnable_share([0.2, 0.8, 0.81, None]) == pytest.approx(2 / 3)
    assert learnable_share([None]) is None


def test_arms_are_compared_on_the_seeds_they_share_with_spade():
    runs = {
        "SPADE": {0: result(0.5, held_out=0.5), 1: result(0.5, held_out=0.6), 2: result(0.5, held_out=0.55)},
        "no corpus": {0: result(0.5, held_out=0.4), 1: result(0.5, held_out=0.49), 5: result(0.5, held_out=0.9)},
    }
    spade, no_corpus, absent = arm_rows(runs, ["SPADE", "no corpus", "neither"], before=0.3)
    assert spade.against == {}
    assert spade.gained is not None
    assert spade.gained.estimate == pytest.approx(0.25)
    assert absent.gained is None
    shown, not_shown = sentences([spade, no_corpus, absent], paired({}, {}))
    assert any(line.startswith("SPADE, held-out solve rate: +0.250") for line in shown)
    assert any(line.startswith("no corpus, held-out solve rate: -0.105") for line in shown)
    assert "Too few seeds beside SPADE's to compare: no corpus." in not_shown
    assert spade.means["held-out"] == pytest.approx(0.55)
    difference = no_corpus.against["held-out"]
    assert difference is not None
    assert (difference.estimate, difference.n) == (pytest.approx(-0.105), 2)
    assert no_corpus.against["learnable"] is None, "no spread to be seen"
    assert (absent.seeds, absent.means) == ((), {})


def test_a_gain_is_shown_only_where_its_interval_excludes_nought():
    won = paired({seed: pair((0.5, 0.5, 0.5, 0.1 * (seed % 2)), (0.5, 0.9, 1.0, 0.0)) for seed in range(6)}, {})
    assert won.spade == (0.75, 0.75, 0.75, 0.75, 0.75, 0.75)
    assert won.gain is None, "six equal differences show no spread"
    rates = [(0.5, 0.5, 0.5, 0.9), (0.5, 0.5, 0.9, 0.9), (0.5, 0.5, 0.5, 0.5)]
    gained = paired({seed: pair(rates[seed % 3], (0.5, 0.9, 1.0, 0.0)) for seed in range(6)}, {0: result(0.5)})
    assert gained.gain is not None
    assert gained.gain.low > 0
    shown, not_shown = sentences([], gained)
    assert any(line.startswith("The designer learns: ") and "6 paired seeds" in line for line in shown)
    assert gained.signal == ((2, 12.0, 0.25),)
    even = paired({seed: pair(rates[seed % 3], rates[(seed + 1) % 3]) for seed in range(3)}, {})
    shown, not_shown = sentences([], even)
    assert not shown
    assert any("Whether the designer learns" in line and "at least 5 are needed" in line for line in not_shown)
    few = paired({seed: pair(rates[seed % 3], (0.5, 0.9, 1.0, 0.0)) for seed in range(4)}, {})
    assert few.gain is not None
    assert few.gain.low > 0
    assert sentences([], few)[0] == (), "four seeds show nothing yet"


def test_a_pair_without_a_design_that_can_be_played_is_left_out():
    found = paired({0: pair((), (0.5,)), 1: pair((0.5,), (0.9,))}, {})
    assert found.seeds == (1,)


def test_the_page_stands_alone_and_says_what_is_missing(tmp_path):
    runs = {
        "SPADE": {seed: result(0.5, 0.9, held_out=0.5 + seed / 50) for seed in range(3)},
        "no corpus": {seed: result(0.5, 0.9, held_out=0.2 + seed / 90, vendi=0.1 + seed / 99) for seed in range(3)},
    }
    rows = arm_rows(runs, ["SPADE", "no corpus", "neither"])
    found = paired({0: pair((0.5,), (0.9,)), 1: pair((0.9,), (0.9,))}, runs["SPADE"])
    html = page(rows, found, {"start": "<nano>", "none": ""})
    elements = Elements()
    elements.feed(html)
    assert not elements.unbalanced
    assert not {"script", "link", "img"} & set(elements.tags)
    assert elements.tags.count("svg") == 5
    text = " ".join(elements.text)
    assert "&lt;nano&gt;" in html
    assert "no corpus, held-out solve rate: -0.3" in text
    assert "No run is finished: neither." in text
    assert "Families never seen are not played here" in text


def test_showing_an_empty_experiment_says_that_nothing_was_run(tmp_path):
    command = [sys.executable, SCRIPT, "--show", "--quick", "--out", tmp_path, "--arms", "SPADE", "neither"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [(row["arm"], row["seeds"]) for row in found["arms"]] == [("SPADE", []), ("neither", [])]
    assert "not shown: No run is finished: SPADE, neither." in done.stdout
    assert (tmp_path / "ablations.html").exists()
