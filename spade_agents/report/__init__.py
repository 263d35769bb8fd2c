"""The report of a run: charts as inline SVG and a page that stands on its own, made from plain values."""

from spade_agents.report.page import render_report
from spade_agents.report.types import (
    EnvironmentEntry,
    Estimate,
    Evaluation,
    Featured,
    GateLine,
    Line,
    PartChange,
    Play,
    ReportData,
    RolloutRow,
)

__all__ = [
    "EnvironmentEntry",
    "Estimate",
    "Evaluation",
    "Featured",
    "GateLine",
    "Line",
    "PartChange",
    "Play",
    "ReportData",
    "RolloutRow",
    "render_report",
]
