"""The page: stands on its own, shows what there is, says what is missing, and never lets hostile text act."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from spade_agents.report import Estimate, Evaluation, ReportData, RolloutRow, render_report
from spade_agents.report.page import page_templates
from spade_agents.report.panels import environment_scatter
from tests.agents.report.example import HOSTILE, example


class Elements(HTMLParser):
    """Collects tags, attributes and text; unbalanced tags are remembered."""

    void = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(example())


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


def test_the_page_refers_to_nothing_outside_itself(page: str, elements: Elements):
    assert not {"script", "link", "img", "iframe", "object"} & set(elements.tags)
    targets = [value or "" for name, value in elements.attributes if name in ("href", "src", "xlink:href")]
    assert all(target.startswith("#") for target in targets)
    assert not re.search(r"https?://|@import|url\(", page)


def test_hostile_text_shows_as_text_and_closes_nothing(page: str, elements: Elements):
    assert HOSTILE not in page
    assert elements.unbalanced == []
    assert elements.open == []
    assert not [name for name, _ in elements.attributes if name.startswith("on")]
    shown = "".join(elements.text)
    assert shown.count("<script>alert('x')</script>") >= 6


def test_the_headline_tells_before_after_change_and_intervals(page: str):
    assert "0.41 → 0.62" in page
    assert "+0.21 (+0.13 to +0.29)" in page
    assert "95 % 0.36–0.46 → 95 % 0.57–0.67 · 400 plays" in page
    assert "400 plays, 2 missing" in page


def test_every_link_leads_to_a_place_in_the_page(elements: Elements):
    places = {value for name, value in elements.attributes if name == "id"}
    links = {value[1:] for name, value in elements.attributes if name == "href" and value}
    assert links
    assert links <= places


def test_both_arms_of_a_featured_environment_are_shown(page: str):
    assert "Without the hint" in page
    assert "With the hint" in page
    assert "return 0.00" in page
    assert "return 1.00" in page


def test_an_alarm_stands_at_the_top(page: str):
    assert "one family holds 75% of 64 designs" in page


def test_a_run_without_figures_says_so_for_each_chart():
    page = render_report(ReportData(title="empty"))
    assert "This run has no figures yet." in page
    assert "This run was made without a held-out evaluation." in page
    assert "No environment has a win rate and a regret yet." in page
    assert "<svg" not in page


def test_a_single_evaluation_is_shown_without_a_change():
    estimate = Estimate(value=0.5, low=0.4, high=0.6, count=100)
    page = render_report(ReportData(title="one", evaluations=(Evaluation(rollout=0, parts={"known": estimate}),)))
    assert "95 % 0.40–0.60 · 100 plays" in page
    assert "→" not in page


def test_a_rollout_with_some_figures_shows_those():
    page = render_report(ReportData(title="some", rollouts=(RolloutRow(rollout=0, distinct=0.5),)))
    assert "Distinct designs" in page
    assert "This run has no such figures." in page


def test_designs_are_told_with_shares_of_all_attempts_and_what_was_not_measured_as_such(page: str):
    assert "24 environments were asked for; 32 attempts brought 20." in page
    assert '<td>certified</td><td class="num">20</td><td class="num">62 %</td>' in page
    numbers = ("20", "10.0", "0.50", "3", "90 %", "25 %")
    assert "<td>newest</td>" + "".join(f'<td class="num">{number}</td>' for number in numbers) in page
    assert '<td class="num">0.40</td><td class="num">–</td>' in page


def test_a_band_is_shaded_and_told_only_where_the_reward_has_one():
    shaded, plain = (environment_scatter(example().environments, [], band) for band in ((0.2, 0.4), None))
    assert 'class="shade"' in shaded.svg
    assert shaded.told == "Point at one for its name; the shaded win rates, 0.2 to 0.4, earn the designer most."
    assert 'class="shade"' not in plain.svg
    assert plain.told == "Point at one for its name."


def test_plays_that_ended_in_a_fault_are_counted_where_their_means_are_shown(page: str):
    assert "<title>environment fault, rollout 2: 2</title>" in page
    assert "<title>scored, rollout 2: 90</title>" in page


def test_every_page_has_the_one_head_that_lets_nothing_be_loaded():
    templates = page_templates()
    names = set(templates.list_templates(extensions=["html"])) - {"base.html"}
    assert names == {"evaluation.html", "report.html", "study.html"}
    for name in names:
        source, _, _ = templates.loader.get_source(templates, name)
        assert source.startswith('{% extends "base.html" %}')
        assert "<head>" not in source
    assert "default-src 'none'" in templates.loader.get_source(templates, "base.html")[0]
