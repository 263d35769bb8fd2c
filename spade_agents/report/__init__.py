"""The report of a run: charts as inline SVG and a page that stands on its own, made from plain values."""

from spade_agents.report import types
from spade_agents.report.page import render_report
from spade_agents.report.types import *  # noqa: F403 (the names stand in types.__all__, once)

__all__ = [*types.__all__, "render_report"]  # noqa: PLE0604
