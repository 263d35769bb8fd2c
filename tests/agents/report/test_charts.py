"""Charts: well-formed SVG, places computed by hand, hostile names as text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from spade_agents.report.charts import Bars, Dot, Point, Series, line_chart, scatter, sparkline, stacked_bars


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def found(svg: str, tag: str, class_name: str) -> list[ElementTree.Element]:
    return [node for node in read(svg).iter(tag) if class_name in (node.get("class") or "").split()]


def test_a_line_runs_from_the_left_edge_to_the_right_edge_of_the_chart():
    series = Series(name="a", points=(Point(x=0, y=0.0), Point(x=10, y=1.0)))
    (line,) = found(line_chart([series], label="x", y_range=(0.0, 1.0)), "polyline", "line")
    assert line.get("points") == "46,216 506,12"


def test_an_interval_is_a_band_along_the_line_and_back():
    points = (Point(x=0, y=0.5, low=0.25, high=0.75), Point(x=1, y=0.5, low=0.0, high=1.0))
    (band,) = found(line_chart([Series(name="a", points=points)], label="x", y_range=(0.0, 1.0)), "polygon", "band")
    assert band.get("points") == "46,63 506,12 506,216 46,165"


def test_the_interval_of_a_single_point_is_a_whisker():
    series = Series(name="a", points=(Point(x=3, y=0.5, low=0.4, high=0.6),))
    svg = line_chart([series], label="x", y_range=(0.0, 1.0))
    assert len(found(svg, "line", "whisker")) == 1
    assert not found(svg, "polygon", "band")


def test_a_point_tells_its_value_and_interval_when_hovered():
    svg = line_chart([Series(name="win", points=(Point(x=3, y=0.5, low=0.41, high=0.59),))], label="x")
    assert "win, 3: 0.5 (95 % 0.41 to 0.59)" in svg


def test_a_chart_without_points_is_still_well_formed():
    charts = (
        line_chart([], label="nothing"),
        scatter([], label="nothing", x_label="x", y_label="y"),
        stacked_bars([], [], label="nothing"),
    )
    assert [read(chart).tag.rpartition("}")[2] for chart in charts] == ["svg"] * 3


def test_a_zero_line_is_drawn_only_inside_the_range():
    up = line_chart([Series(name="a", points=(Point(x=0, y=1), Point(x=1, y=2)))], label="x", zero_line=True)
    across = line_chart([Series(name="a", points=(Point(x=0, y=-1), Point(x=1, y=2)))], label="x", zero_line=True)
    assert not found(up, "line", "zero")
    assert len(found(across, "line", "zero")) == 1


def test_names_are_escaped_in_every_chart():
    hostile = "<script>\"'&"
    svgs = [
        line_chart([Series(name=hostile, points=(Point(x=0, y=0.0),))], label=hostile),
        scatter([Dot(x=0.5, y=0.1, title=hostile, link=hostile)], label=hostile, x_label=hostile, y_label=hostile),
        stacked_bars([Bars(name=hostile, values=(1.0,))], [0], label=hostile),
    ]
    for svg in svgs:
        assert "<script>" not in svg
        assert read(svg).get("aria-label") == hostile


def test_a_dot_with_a_link_leads_to_its_place_in_the_page():
    svg = scatter([Dot(x=0.5, y=0.1, title="t", link="e-1")], label="l", x_label="x", y_label="y")
    assert '<a href="#e-1">' in svg


def test_bars_stand_on_one_another():
    parts = [Bars(name="a", values=(1.0,)), Bars(name="b", values=(3.0,), colour=2)]
    lower, upper = found(stacked_bars(parts, [0], label="x", y_range=(0.0, 4.0)), "rect", "fill")
    assert (float(lower.get("y", 0)), float(lower.get("height", 0))) == (165.0, 51.0)
    assert (float(upper.get("y", 0)), float(upper.get("height", 0))) == (12.0, 153.0)


def test_a_sparkline_needs_two_values():
    assert sparkline([1.0], label="x") == ""
    assert read(sparkline([1.0, 2.0], label="x")).tag == "svg"
