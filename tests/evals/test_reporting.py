from __future__ import annotations

from html.parser import HTMLParser

from spade_agents.messages import Message
from spade_evals.cli import main
from spade_evals.compare import GateSettings
from spade_evals.reporting import evaluation_html
from tests.evals.logs import failed, sample, write_log


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href") and not value.startswith("#")]


HOSTILE = "<script>alert(1)</script>\x1b[2J"


def rows(score):
    said = (Message(role="user", content=HOSTILE), Message(role="assistant", content="an answer"))
    return [sample("a", score, messages=said, target="42"), sample("b"), failed("c")]


def test_the_page_holds_tables_counts_and_samples_and_loads_nothing(tmp_path):
    page = evaluation_html([write_log(tmp_path / "a", rows(0.0))])
    tags = Tags()
    tags.feed(page)
    assert "script" not in tags.tags
    assert tags.links == []
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page
    assert "an answer" in page
    assert "Overall withheld" in page
    assert "the server answered 500" in page


def test_two_logs_stand_side_by_side_with_what_flipped(tmp_path):
    base, other = write_log(tmp_path / "a", rows(1.0)), write_log(tmp_path / "b", rows(0.0))
    page = evaluation_html([base], [other], GateSettings(max_drop=0.02))
    assert "not comparable: the base has 1 infrastructure errors" in page
    assert page.count("<b>wanted</b>") >= 2
    out = tmp_path / "page.html"
    try:
        main(["report", str(base.path), str(other.path), "--out", str(out)])
    except SystemExit as stop:
        assert not stop.code
    assert out.read_text() == evaluation_html([base], [other])
