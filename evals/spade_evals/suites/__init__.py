"""The suites, and finding one by the name that a user gives."""

from __future__ import annotations

from spade_evals.suites.registry import SuiteOptions, open_suite, suite_names

__all__ = ["SuiteOptions", "open_suite", "suite_names"]
