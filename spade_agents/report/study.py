"""The page of a study: arms side by side in one table and one figure, and what they do and do not show."""

from __future__ import annotations

from dataclasses import dataclass

from spade_agents.report.page import page_templates
from spade_agents.terminal import visible

__all__ = ["StudyFigure", "StudyPage", "StudyTable", "render_study"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable:
    """A table: its words, the heads of its columns, and rows of cells as they are shown, the first a name."""

    title: str
    told: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFigure:
    """One panel: its words, and its chart as inline SVG of ours."""

    title: str
    told: str
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    """Everything on the page.

    Attributes:
        title: of the study.
        facts: short name and value pairs for the top.
        shown, not_shown: sentences.
        panels: of the one figure.
        tables: the arms first.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]
    not_shown: tuple[str, ...]
    panels: tuple[StudyFigure, ...]
    tables: tuple[StudyTable, ...]


def render_study(page: StudyPage) -> str:
    """HTML of a study, as one file that loads nothing from anywhere; all words are escaped."""
    return visible(page_templates().get_template("study.html").render({"page": page}))
