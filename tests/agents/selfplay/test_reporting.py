"""From a run directory to its report."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest

from spade_agents.cli.runs import conclude
from spade_agents.errors import UsageError
from spade_agents.rollout import EvalSummary, PartSummary
from spade_agents.selfplay import RunResult
from spade_agents.selfplay.records import told
from spade_agents.selfplay.reported_designs import reported_alarms
from spade_agents.selfplay.reporting import evaluation_of, report_data, write_report
from spade_agents.selfplay.run_directory import RunDirectory
from spade_agents.selfplay.settings import RunSettings
from spade_environments import EnvironmentSpec, Skill
from tests.agents.report.test_page import Elements
from tests.agents.selfplay.scripted import Behaviour, run, settings


async def improving(policy, *, step, seed):
    rate = 0.25 + 0.125 * step
    wins = {"a:1": 0.0, "a:2": float(step > 2), "b:1": 1.0, "b:2": float(step > 1), "c:1": 0.0}
    skills = {"data retrieval": rate}
    part = PartSummary(plays=40, missing=1, win_rate=rate, low=rate - 0.1, high=rate + 0.1, by_skill=skills, wins=wins)
    return EvalSummary(step=step, parts={"known": part})


async def test_a_scripted_run_has_every_figure_of_its_report(tmp_path):
    await run(tmp_path / "r", settings("evaluation.every=2"), Behaviour(hinted_skill=1.0), improving)
    data = report_data(RunDirectory.open(tmp_path / "r"))
    assert [evaluation.rollout for evaluation in data.evaluations] == [0, 2, 4]
    known = data.evaluations[-1].parts["known"]
    assert (known.value, known.count, known.missing) == (0.75, 40, 1)
    (change,) = data.changes
    assert change.skills == (("data retrieval", 0.25, 0.75),)
    assert change.difference is not None
    assert (change.difference.value, change.difference.count) == (0.4, 5)
    assert [row.rollout for row in data.rollouts] == [0, 1, 2, 3]
    designed = data.rollouts[0]
    assert designed.certified is not None
    assert designed.certified.low is not None
    assert designed.regret_raw is not None
    assert designed.win_rate is not None
    assert designed.distinct is not None
    assert sum(designed.regimes.values()) == 3
    assert designed.outcomes == {"scored": 24}
    assert data.rollouts[1].certified is None
    assert len(data.environments) == 6
    assert {entry.rollout for entry in data.environments} == {0, 2}
    assert data.featured
    assert all(len(featured.plays) == 2 for featured in data.featured)
    assert {play.hinted for play in data.featured[0].plays} == {False, True}
    path = write_report(tmp_path / "r")
    page = path.read_text()
    assert path.name == "report.html"
    assert "0.25 → 0.75" in page
    assert "With the hint" in page


class OneDesign(Behaviour):
    """Writes one and the same program, whatever it is asked for."""

    def respond(self, conversation, rng):
        if conversation.messages[0].content == "design":
            rng = random.Random(0)
        return super().respond(conversation, rng)


async def test_a_forced_collapse_raises_the_alarm_in_metrics_on_the_console_and_in_the_report(tmp_path, capsys):
    chosen = settings("run.rollouts=3", "novelty.enabled=false", "selfplay.period=1", "collapse.min_designs=6")
    await run(tmp_path / "r", chosen, OneDesign(broken=0.0))
    rows = [row for row in RunDirectory(tmp_path / "r").metrics.rows() if row["kind"] == "rollout"]
    assert [row["design"]["recent"]["designs"] for row in rows] == [3, 6, 9]
    assert [bool(row["design"]["alarms"]) for row in rows] == [False, True, True]
    assert rows[1]["design"]["recent"]["vendi"] == pytest.approx(1 / 6)
    wanted = "6 designs are as diverse as 1.0 unlike ones; wanted at least 1.5 (Vendi score)"
    assert wanted in rows[1]["design"]["alarms"]
    assert f"\nAlarm: {wanted}" in told(rows[1])
    alarms = report_data(RunDirectory.open(tmp_path / "r")).alarms
    assert any("since rollout 1: 9 designs are as diverse as 1.0 unlike ones" in alarm for alarm in alarms)
    assert "Designs collapse, since rollout 1" in write_report(tmp_path / "r").read_text()
    conclude(RunResult(path=tmp_path / "r", finished=True, rollouts=3), as_json=False)
    assert "Alarm: 9 designs are as diverse as 1.0" in capsys.readouterr().out


async def test_designs_that_differ_raise_no_alarm_and_the_window_forgets_the_oldest(tmp_path):
    chosen = settings("run.rollouts=3", "selfplay.period=1", "collapse.min_designs=3", "collapse.window=4",
                      "collapse.max_family=1.0")  # fmt: skip
    _, state = await run(tmp_path / "r", chosen, Behaviour(broken=0.0))
    rows = [row for row in RunDirectory(tmp_path / "r").metrics.rows() if row["kind"] == "rollout"]
    assert [row["design"]["recent"]["designs"] for row in rows] == [3, 4, 4]
    assert [row["design"]["alarms"] for row in rows] == [[], [], []]
    assert len(state.recent) == 4


async def test_the_report_counts_at_each_set_how_many_designs_every_gate_rejected(tmp_path):
    await run(tmp_path / "r", settings(), Behaviour(broken=0.8))
    rows = [row for row in RunDirectory(tmp_path / "r").metrics.rows() if row["kind"] == "rollout"]
    data = report_data(RunDirectory.open(tmp_path / "r"))
    assert [dict(row.rejected_by) for row in data.rollouts] == [row.get("design", {}).get("gates", {}) for row in rows]
    assert sum(data.rollouts[0].rejected_by.values()) == rows[0]["design"]["verdicts"]["rejected"] > 0
    page = write_report(tmp_path / "r").read_text()
    for row in data.rollouts:
        for gate, count in row.rejected_by.items():
            assert f"<title>{gate}, rollout {row.rollout}: {count}</title>" in page


async def test_every_attempt_is_counted_once_where_it_ended_and_the_shares_are_of_all(tmp_path):
    await run(tmp_path / "r", settings(), Behaviour(broken=0.6))
    rows = [row["design"] for row in RunDirectory(tmp_path / "r").metrics.rows() if "design" in row]
    designs = report_data(RunDirectory.open(tmp_path / "r")).designs
    assert designs is not None
    assert designs.attempts == sum(row["attempts"] for row in rows)
    assert (designs.slots, designs.admitted) == (6, sum(row["admitted"] for row in rows))
    ends = {end.name: end.attempts for end in designs.ends}
    assert ends["rejected: lint"] == sum(row["gates"].get("lint", 0) for row in rows) > 0
    assert ends["certified"] == sum(row["verdicts"]["certified"] for row in rows) > 0
    page = write_report(tmp_path / "r").read_text()
    assert f"6 environments were asked for; {designs.attempts} attempts brought {designs.admitted}." in page
    share = 100 * ends["rejected: lint"] / designs.attempts
    row = f'<td>rejected: lint</td><td class="num">{ends["rejected: lint"]}</td><td class="num">{share:.0f} %</td>'
    assert row in page


async def test_the_report_holds_the_vendi_score_of_the_pool_and_the_longest_run_of_near_duplicates(tmp_path):
    chosen = settings("run.rollouts=3", "novelty.enabled=false", "selfplay.period=1", "collapse.min_designs=6")
    await run(tmp_path / "r", chosen, OneDesign(broken=0.0))
    data = report_data(RunDirectory.open(tmp_path / "r"))
    assert data.designs is not None
    newest, pool = data.designs.diversity
    assert (newest.programs, newest.longest_run, newest.vendi) == (9, 9, pytest.approx(1 / 9))
    assert (pool.name, pool.programs, pool.vendi) == ("the pool", 1, pytest.approx(1.0))
    assert any("9 designs in a row are near-duplicates" in alarm for alarm in data.alarms)
    assert "Near-duplicates in a row" in write_report(tmp_path / "r").read_text()


async def test_the_report_compares_designs_with_a_document_and_without_one(tmp_path):
    chosen = settings("run.rollouts=4", "selfplay.period=1", "designer.assignment.grounded=0.5")
    await run(tmp_path / "r", chosen, Behaviour(broken=0.0))
    data = report_data(RunDirectory.open(tmp_path / "r"))
    named = {found.name: found for found in data.designs.diversity}
    told = [named["of the pool, with a document"], named["of the pool, without a document"]]
    assert told[0].programs == told[1].programs > 1
    assert all(0 < found.vendi <= 1 for found in told)
    assert "of the pool, without a document" in write_report(tmp_path / "r").read_text()


def test_a_pool_of_copies_raises_the_alarm():
    source = "class Desk:\n    def setup(self):\n        return 'desk {}'\n"
    specs = [EnvironmentSpec(name="d", source=source.format(n), skill=Skill.OPTIMIZATION) for n in range(9)]
    told = reported_alarms([designed(0)], specs)
    assert any("one kind: 9 designs in a row are near-duplicates" in alarm for alarm in told)
    assert reported_alarms([designed(0)], specs[:3]) == ()
    assert reported_alarms([], specs) == (), "what was not designed here is not this run's collapse"


def designed(rollout: int, *alarms: str) -> dict:
    return {"kind": "rollout", "rollout": rollout, "design": {"alarms": list(alarms)}}


def test_a_collapse_that_has_passed_is_told_with_when_it_was():
    assert reported_alarms([]) == reported_alarms([designed(0), {"kind": "rollout", "rollout": 1}]) == ()
    rows = [designed(0, "one family"), designed(4), designed(8, "copies"), designed(12, "copies"), designed(16)]
    assert reported_alarms(rows[:1]) == ("Designs collapse, since rollout 0: one family",)
    assert reported_alarms(rows[:2]) == ("Designs had collapsed at rollout 0, and no longer do: one family",)
    assert reported_alarms(rows[:4]) == ("Designs collapse, since rollout 8: copies",)
    assert reported_alarms(rows) == ("Designs had collapsed from rollout 8 to 12, and no longer do: copies",)


async def test_a_run_on_the_pool_of_another_run_shows_its_own_plays_and_says_what_it_is(tmp_path):
    await run(tmp_path / "designed", settings("run.rollouts=4"), Behaviour(broken=0.0))
    source = tmp_path / "designed" / "environments"
    fixed = settings("run.rollouts=2", "selfplay.pool.type=static", f"selfplay.pool.source={source}")
    await run(tmp_path / "fixed", fixed, Behaviour())
    data = report_data(RunDirectory.open(tmp_path / "fixed"))
    assert {entry.rollout for entry in data.environments} == {0}
    assert data.featured
    assert all(len(featured.plays) == 2 for featured in data.featured)
    assert data.designs is None
    facts = dict(data.facts)
    assert facts["environments"] == f"fixed pool {source}"
    assert "reward" not in facts
    assert dict(report_data(RunDirectory.open(tmp_path / "designed")).facts)["corpus"] == "builtin"


@pytest.mark.parametrize(
    ("overrides", "band"),
    [
        ((), (0.4, 0.6)),
        (("reward.band={low=0.1, high=0.3}",), (0.1, 0.3)),
        (("reward.type=regret_only",), None),
        (("designer.policy.type=frozen",), None),
        (("selfplay.pool.type=static",), None),
    ],
)
def test_the_band_that_is_shaded_is_the_one_that_the_designer_earns_by(tmp_path, overrides, band):
    RunDirectory.create(tmp_path / "r", settings(*overrides), "A")
    assert report_data(RunDirectory.open(tmp_path / "r")).band == band


def test_a_run_that_was_stopped_says_how_far_it_came(tmp_path):
    RunDirectory.create(tmp_path / "r", RunSettings(), "A")
    assert dict(report_data(RunDirectory.open(tmp_path / "r")).facts)["rollouts"] == "0 of 24"


HOSTILE = "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(2)>&</pre></style>"
STEERING = "\x1b[2J\x07\x9b\u202e\u2028"


class HostileText(Behaviour):
    """Writes markup and terminal escapes wherever a designer or an agent can."""

    def respond(self, conversation, rng):
        said = super().respond(conversation, rng)
        if conversation.messages[0].content == "design":
            source = said.content.replace('return "set"', f"return {HOSTILE!r}").replace(
                "Set the level.", f"Set {HOSTILE!r}."
            )
            return replace(said, content=source.replace("class ", f"# {HOSTILE} {STEERING[2:4]}\nclass ", 1))
        if conversation.messages[0].content == "hint":
            return replace(said, content=f"hint {HOSTILE} {STEERING}")
        return replace(said, content=f"{said.content} {HOSTILE}{STEERING}")


async def parts_named_hostilely(policy, *, step, seed):
    part = PartSummary(plays=4, missing=0, win_rate=0.5, low=0.1, high=0.9, by_skill={HOSTILE: 0.5}, wins={"a:1": 1.0})
    return EvalSummary(step=step, parts={HOSTILE + STEERING: part})


async def test_nothing_that_a_designer_or_an_agent_writes_acts_in_the_report(tmp_path):
    room = settings("selfplay.play.sampling.max_tokens=400")
    await run(tmp_path / "r", room, HostileText(broken=0.0), parts_named_hostilely)
    page = write_report(tmp_path / "r").read_bytes().decode("utf-8")
    data = report_data(RunDirectory.open(tmp_path / "r"))
    written = [data.featured[0].source, data.featured[0].hint, *(part.name for part in data.changes)]
    lines = [line for featured in data.featured for play in featured.plays for line in play.lines]
    said = [line.text for line in lines]
    assert all(HOSTILE in text for text in written)
    assert sum(HOSTILE in text for text in said) > 4
    assert any(STEERING[:-1] in text for text in said)
    assert any(HOSTILE in line.text for line in lines if line.speaker == "tool")
    elements = Elements()
    elements.feed(page)
    assert (elements.unbalanced, elements.open) == ([], [])
    assert not {"script", "img", "link", "iframe", "object", "base", "form"} & set(elements.tags)
    assert not [name for name, _ in elements.attributes if name.startswith("on") or name in ("src", "srcset", "style")]
    assert all((value or "").startswith("#") for name, value in elements.attributes if "href" in name)
    assert "".join(elements.text).count(HOSTILE) > 10
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800-\udfff]", page)


def test_a_report_of_figures_that_no_encoding_holds_is_written_all_the_same(tmp_path):
    directory = RunDirectory.create(tmp_path / "r", RunSettings(), "A")
    part = {"win_rate": 0.5, "low": 0.1, "high": 0.9, "plays": 4, "missing": 0, "by_skill": {}}
    (directory.path / "metrics.jsonl").write_text(
        json.dumps({"kind": "evaluation", "rollout": 0, "parts": {"\ud800\x00": part}, "seconds": {}}) + "\n"
    )
    page = write_report(directory.path).read_text()
    assert "Held-out solve rate, \\ud800\\u0000" in page


@pytest.mark.parametrize("rows", [1, 2, 3])
async def test_a_young_run_has_a_report_of_what_there_is(tmp_path, rows):
    await run(tmp_path / "r", settings("run.rollouts=2", "evaluation.every=1"), evaluator=improving)
    directory = RunDirectory.open(tmp_path / "r")
    directory.metrics.truncate(rows)
    for path in (directory.path / "trajectories").iterdir():
        path.unlink()
    elements = Elements()
    elements.feed(write_report(tmp_path / "r").read_text())
    assert (elements.unbalanced, elements.open) == ([], [])


def test_a_run_that_has_done_nothing_yet_has_a_report_that_says_so(tmp_path):
    RunDirectory.create(tmp_path / "r", RunSettings(), "D")
    assert "This run has no figures yet." in write_report(tmp_path / "r").read_text()


def test_a_folder_that_is_no_run_has_no_report(tmp_path):
    with pytest.raises(UsageError, match="no run directory"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "spoilt", "told"),
    [
        ("manifest.json", None, "manifest.json cannot be read"),
        ("manifest.json", "[]", "manifest.json holds no JSON object"),
        ("metrics.jsonl", '{"kind": "rollout"\n', "line 1, is no row of JSON"),
        ("metrics.jsonl", "5\n", "line 1, is no row of JSON"),
        ("metrics.jsonl", '{"kind": "rollout"}\n', r"row 1, is no row of kind rollout \(KeyError: 'rollout'\)"),
        ("metrics.jsonl", '{"kind": "rollout", "rollout": 0, "play": []}\n', "row 1, is no row of kind rollout"),
        (
            "metrics.jsonl",
            '{"kind": "evaluation", "rollout": 0, "parts": [1]}\n',
            "row 1, is no row of kind evaluation",
        ),
    ],
)
def test_a_run_with_a_spoilt_file_has_no_report_and_says_which_file(tmp_path, name, spoilt, told):
    RunDirectory.create(tmp_path / "r", RunSettings(), "D")
    if spoilt is None:
        (tmp_path / "r" / name).unlink()
    else:
        (tmp_path / "r" / name).write_text(spoilt)
    with pytest.raises(UsageError, match=told):
        write_report(tmp_path / "r")
    assert not (tmp_path / "r" / "report.html").exists()


def test_a_part_without_a_valid_play_is_left_out_of_an_evaluation():
    row = {"rollout": 1, "parts": {"known": {"plays": 0, "missing": 9, "win_rate": None, "low": None, "high": None}}}
    assert evaluation_of(row).parts == {}
