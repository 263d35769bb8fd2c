"""The chart of arms: well-formed, places by hand, nothing passed over in silence."""

from __future__ import annotations

from spade_agents.report.forest import ForestRow, forest
from tests.agents.report.test_charts import found, read


def test_a_row_is_a_dot_a_whisker_and_its_single_values():
    row = ForestRow(name="SPADE", value=0.5, low=0.25, high=0.75, values=(0.4, 0.6))
    svg = forest([row], label="x", x_label="x", x_range=(0.0, 1.0))
    (dot,) = found(svg, "circle", "dot")
    (whisker,) = found(svg, "line", "whisker")
    left = 16 + 6.4 * 5
    middle = (left + 506) / 2
    assert (dot.get("cx"), dot.get("cy")) == (f"{middle:g}", "20")
    assert float(whisker.get("x1") or 0) == left + (506 - left) / 4
    assert len(found(svg, "circle", "mark")) == 2
    assert "SPADE: 0.500 (95 % 0.250 to 0.750), 2 runs" in svg


def test_a_row_without_a_value_says_so_and_one_without_an_interval_has_no_whisker():
    svg = forest([ForestRow(name="a"), ForestRow(name="b", value=0.5, values=(0.5,))], label="x", x_label="x")
    assert ">not run<" in svg
    assert "b: 0.500 (no interval), 1 run<" in svg
    assert not found(svg, "line", "whisker")


def test_the_axis_covers_whiskers_and_the_marked_line():
    row = ForestRow(name="a", value=0.1, low=-0.35, high=0.55)
    svg = forest([row], label="x", x_label="x", marked=0.9)
    (whisker,) = found(svg, "line", "whisker")
    (marked,) = found(svg, "line", "zero")
    places = [float(node.get(name) or 0) for node, name in ((whisker, "x1"), (whisker, "x2"), (marked, "x1"))]
    assert places == sorted(places)
    assert len(set(places)) == 3
    assert all(22.4 <= place <= 506 for place in places)


def test_names_are_escaped_and_no_rows_are_still_a_chart():
    assert "<script>" not in forest([ForestRow(name="<script>")], label="<b>", x_label="<i>")
    assert read(forest([], label="nothing", x_label="x")).tag.rpartition("}")[2] == "svg"
