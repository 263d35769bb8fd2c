"""The page: a run's values through the templates, as one file without a reference to anything outside it."""

from __future__ import annotations

from typing import Any

import jinja2

from spade_agents.report.headline import cards
from spade_agents.report.panels import environment_scatter, panels
from spade_agents.report.source_code import marked_source
from spade_agents.report.types import ReportData
from spade_agents.terminal import visible

__all__ = ["page_templates", "render_report"]


def render_report(data: ReportData) -> str:
    """HTML of a run.

    What environments and agents wrote is escaped, so that hostile text shows as text; control characters, which HTML
    has no place for or which would turn text around, are written out.
    """
    linked = [featured.entry.id for featured in data.featured]
    context: dict[str, Any] = {
        "data": data,
        "cards": cards(data),
        "panels": panels(data),
        "scatter": environment_scatter(data.environments, linked, data.band),
        "linked": set(linked),
    }
    return visible(page_templates().get_template("report.html").render(context))


def page_templates() -> jinja2.Environment:
    """The templates of every page, escaping whatever is put into them."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("spade_agents.report"),
        # `| safe` stands in the templates for markup of ours alone: charts and marked source, which escape their text.
        autoescape=jinja2.select_autoescape(enabled_extensions=("html",), default_for_string=True),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["marked_source"] = marked_source
    return environment
