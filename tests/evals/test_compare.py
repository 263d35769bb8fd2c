from __future__ import annotations

import random
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from spade_agents.policy import Sampling
from spade_evals.compare import GateSettings, Paired, compare_logs, load_log
from spade_evals.outputs import github_lines, junit_xml, markdown
from spade_evals.types import ColumnSettings, ModelFacts, SampleOutcome
from tests.evals.logs import failed, sample, scored_log, write_log

GATE = GateSettings(max_drop=0.02)


def drawn(source, pairs, lost, gained):
    """Counts of pairs that were lost and gained, each with its probability."""
    draws = [source.random() for _ in range(pairs)]
    return Paired.of_counts(pairs, sum(d < lost for d in draws), sum(lost <= d < lost + gained for d in draws))


def test_of_a_thousand_pairs_of_equal_models_few_are_called_a_regression():
    source = random.Random(1)
    for pairs in (100, 800):
        codes = [drawn(source, pairs, 0.125, 0.125).verdict(GateSettings()).exit_code for _ in range(1000)]
        assert codes.count(1) <= 65


def test_at_800_pairs_the_gate_decides_and_catches_a_true_drop_of_five_points():
    source = random.Random(2)
    equal = [drawn(source, 800, 0.125, 0.125).verdict(GATE).exit_code for _ in range(1000)]
    worse = [drawn(source, 800, 0.15, 0.10).verdict(GATE).exit_code for _ in range(1000)]
    assert equal.count(3) <= 50
    assert worse.count(1) >= 800


def test_the_power_that_is_told_is_the_share_of_drops_that_are_caught():
    source = random.Random(3)
    gate = GateSettings(max_drop=0.02, visible_drop=0.1)
    caught = sum(drawn(source, 200, 0.2, 0.1).verdict(gate).exit_code == 1 for _ in range(2000)) / 2000
    at_truth = Paired(pairs=200, drop=0.0, lost=0, gained=0, p_value=1.0, test="", discordance=0.3)
    assert caught == pytest.approx(at_truth.power(gate), abs=0.035)


def test_few_pairs_decide_nothing_and_the_number_needed_is_told():
    verdict = Paired.of_counts(50, 5, 5).verdict(GATE)
    assert verdict.exit_code == 3
    assert "needs about" in verdict.reason
    assert Paired.of_counts(20, 0, 0).verdict(GATE).exit_code == 3, "no change among 20 pairs shows nothing"
    assert Paired.of_counts(400, 0, 0).verdict(GATE).exit_code == 0


def test_a_drop_within_the_tolerance_passes_and_a_tolerance_beyond_what_must_be_seen_never_does():
    assert Paired.of_counts(4000, 60, 10).verdict(GATE).exit_code == 0, "a drop of 0.0125, seen, but let pass"
    assert Paired.of_counts(4000, 160, 10).verdict(GATE).exit_code == 1
    hidden = Paired.of_counts(4000, 60, 10).verdict(GateSettings(max_drop=0.08))
    assert hidden.exit_code == 3
    assert "no number of pairs helps" in hidden.reason
    assert Paired.of_counts(4000, 60, 10).verdict(GateSettings(max_drop=0.08, visible_drop=0.15)).exit_code == 0


def judged(base, candidate, **more):
    comparison = compare_logs(load_log(base), load_log(candidate), gate=GATE, **more)
    return comparison, comparison.verdict(GATE)


MIXED = [float(number % 3 > 0) for number in range(400)]


def test_equal_logs_pass_and_a_worse_one_is_a_regression_with_its_flips(tmp_path):
    base = scored_log(tmp_path / "base", MIXED)
    same = judged(base, scored_log(tmp_path / "same", MIXED))
    assert same[1].exit_code == 0
    worse = judged(base, scored_log(tmp_path / "worse", [0.0] * 40 + MIXED[40:]))
    assert worse[1].exit_code == 1
    assert (worse[0].paired.lost, worse[0].paired.gained) == (26, 0)
    assert {flip.id for flip in worse[0].flips} == {f"task-{number}" for number in range(40) if number % 3}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": {"questions": "abd"}}, "data checksums of questions differ"),
        ({"grading": "2"}, "grading versions differ: 1 and 2"),
        ({"suite": "made:other"}, "suites differ"),
        ({"protocol": "paper"}, "protocols differ"),
        ({"seed": 1}, "seeds differ"),
        ({"versions": {"math-verify": "1"}}, "versions of math-verify differ"),
        ({"asked": {"right": 401}}, "the candidate holds 400 of the 401 samples"),
        ({"not_run": {"left": "no file"}}, "the candidate did not run left: no file"),
        ({"trained_on": {"right": 3}}, "was trained on 3 tasks"),
        ({"columns": {"right": ColumnSettings(n=2)}}, "settings of right differ: n 1 and 2"),
        (
            {"columns": {"right": ColumnSettings(sampling=Sampling(max_tokens=64))}},
            f"settings of right differ: max tokens {Sampling().max_tokens} and 64",
        ),
        ({"columns": {"right": ColumnSettings(), "left": ColumnSettings()}}, "column left is in the candidate only"),
    ],
)
def test_what_may_not_be_compared_is_not_decidable_even_where_the_drop_is_large(tmp_path, changes, told):
    base = scored_log(tmp_path / "base", [1.0] * 400)
    other = scored_log(tmp_path / "other", [0.0] * 400, **changes)
    verdict = judged(base, other)[1]
    assert verdict.exit_code == 3
    assert told in verdict.reason


def run_by(backend):
    """A model and a user of the same names, whatever runs them."""
    return {"model": ModelFacts(target="m", backend=backend), "user_model": ModelFacts(target="u", backend=backend)}


def test_another_backend_is_noted_and_hinders_no_comparison(tmp_path):
    base = scored_log(tmp_path / "base", [1.0] * 400, **run_by("torch 2.13.0"))
    other = scored_log(tmp_path / "other", [1.0] * 400, **run_by("vllm 0.32.0"))
    comparison, verdict = judged(base, other)
    assert verdict.exit_code == 0
    assert comparison.note.startswith("the base was run by torch 2.13.0, the candidate by vllm 0.32.0")
    assert comparison.note in markdown([(comparison, verdict)], GATE)
    untold = scored_log(tmp_path / "untold", [1.0] * 400, **run_by(""))
    assert [judged(base, log)[0].note for log in (base, untold)] == ["", ""]


def test_missing_doubled_failed_and_unscorable_samples_are_not_decidable(tmp_path):
    base = scored_log(tmp_path / "base", MIXED)
    rows = [sample(f"task-{number}", score) for number, score in enumerate(MIXED)]
    whole = {"asked": {"right": 400}}
    cases = {
        "1 samples are in one log only": rows[:-1],
        "1 doubled ids": [*rows, rows[7]],
        "1 infrastructure errors": [*rows[:-1], failed("task-399")],
        "scored in one log only": [*rows[:-1], sample("task-399", outcome=SampleOutcome.UNSCORABLE)],
    }
    for number, (told, samples) in enumerate(cases.items()):
        verdict = judged(base, write_log(tmp_path / str(number), samples, **whole))[1]
        assert verdict.exit_code == 3
        assert told in verdict.reason


def test_what_is_unscorable_on_both_sides_is_left_out_and_counted(tmp_path):
    rows = [sample(f"task-{number}", score) for number, score in enumerate(MIXED)]
    broken = sample("jugs", outcome=SampleOutcome.UNSCORABLE)
    comparison, verdict = judged(*(write_log(tmp_path / name, [*rows, broken]) for name in "ab"))
    assert verdict.exit_code == 0
    assert (comparison.paired.pairs, comparison.left_out) == (400, 1)


def test_scores_between_0_and_1_are_tested_by_their_signs(tmp_path):
    half = scored_log(tmp_path / "half", [0.5] * 300)
    less = scored_log(tmp_path / "less", [0.4] * 300)
    comparison, verdict = judged(half, less)
    assert comparison.paired.test == "sign flips"
    assert verdict.exit_code == 1
    near = [0.5 + (0.01 if number % 2 else -0.01) for number in range(300)]
    assert judged(half, scored_log(tmp_path / "near", near))[1].exit_code == 0


def test_a_column_can_be_judged_alone(tmp_path):
    def rows(right):
        return [sample(f"r{k}", right) for k in range(400)] + [sample(f"l{k}", 1.0, column="left") for k in range(400)]

    settings = {"columns": {"right": ColumnSettings(), "left": ColumnSettings()}, "asked": {"right": 400, "left": 400}}
    base, other = (write_log(tmp_path / name, rows(score), **settings) for name, score in (("a", 1.0), ("b", 0.0)))
    assert judged(base, other, columns=["left"])[1].exit_code == 0
    comparison, verdict = judged(base, other, columns=["right"])
    assert verdict.exit_code == 1
    assert list(comparison.columns) == ["right"]


def test_machines_read_failures_errors_and_text_that_cannot_break_out(tmp_path):
    base = scored_log(tmp_path / "base", MIXED)
    worse = judged(base, scored_log(tmp_path / "worse", [0.0] * 40 + MIXED[40:]))
    other = judged(base, scored_log(tmp_path / "other", MIXED, suite='a]]>"<\x1b\n::error::x|y'))
    tree = ElementTree.fromstring(junit_xml([worse, other]))
    assert (tree.get("tests"), tree.get("failures"), tree.get("errors")) == ("2", "1", "1")
    lines = github_lines([worse, other])
    assert lines[0].startswith("::error title=spade-eval made%3Aup::regression: drop +0.0650")
    assert lines[1].startswith("::warning ")
    assert not any("\n" in line for line in lines)
    text = markdown([worse, other], GATE)
    assert "REGRESSION" in text
    assert "| not decidable |" in text


def run_shell(command):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def test_the_exit_codes_reach_a_shell(tmp_path):
    scored_log(tmp_path / "base", MIXED)
    scored_log(tmp_path / "same", MIXED)
    scored_log(tmp_path / "worse", [0.0] * 40 + MIXED[40:])
    scored_log(tmp_path / "other", MIXED, grading="2")
    program = f"{sys.executable} -c 'from spade_evals.cli import main; main()'"
    command = f'cd {tmp_path}; compare() {{ {program} compare "$@"; }}; '
    found = run_shell(
        command
        + "compare base same --max-drop 0.02 >/dev/null; echo $?;"
        + "compare base worse --max-drop 0.02 --junit j.xml --markdown m.md --github >out; echo $?;"
        + "compare base other --max-drop 0.02 >/dev/null; echo $?;"
        + "compare base nowhere --max-drop 0.02; echo $?; compare base same --max-drop 2; echo $?"
    )
    assert found.stdout.split() == ["0", "1", "3", "2", "2"]
    assert "Traceback" not in found.stderr
    assert ElementTree.parse(tmp_path / "j.xml").getroot().get("failures") == "1"
    assert "REGRESSION" in (tmp_path / "m.md").read_text()
    assert "::error" in (tmp_path / "out").read_text()
