"""From the names that a user gives to suites."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spade_agents.errors import UsageError
from spade_evals.suite import Suite

__all__ = ["SuiteOptions", "open_suite", "suite_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOptions:
    """What suites are told by the user.

    Attributes:
        model: as it was named, for the check that what is evaluated was held out.
        user_model: who plays the user where a suite has one.
        data: folder with the files that only a user can supply.
        protocol: named variant of the settings.
        seed: of whatever a suite generates or shuffles.
    """

    model: str = ""
    user_model: str | None = None
    data: Path | None = None
    protocol: str | None = None
    seed: int = 0


def open_suite(name: str, options: SuiteOptions) -> Suite:
    """The suite that `name` names: `NAME` or `NAME:PART`.

    Raises:
        UsageError: there is no such suite or part.
    """
    family, _, part = name.partition(":")
    if family not in _FAMILIES:
        near = difflib.get_close_matches(family, _FAMILIES, n=1)
        meant = f"did you mean {near[0]!r}?" if near else f"wanted one of: {', '.join(suite_names())}"
        raise UsageError(f"there is no suite {name!r}; {meant}")
    return _FAMILIES[family][0](part, options)


def suite_names() -> dict[str, str]:
    """Every suite and what it is, in one line."""
    return {family: told for family, (_, told) in _FAMILIES.items()}


def _environments(part: str, options: SuiteOptions) -> Suite:
    from spade_evals.suites.environments import EnvironmentsSuite

    if not part:
        raise UsageError(
            "--suite environments wants a pool: environments:catalogue, environments:RUN or a pool's folder"
        )
    _refuse_protocol("environments", options)
    return EnvironmentsSuite(source=part, model=options.model)


def _reasoning(part: str, options: SuiteOptions) -> Suite:
    from spade_evals.suites.reasoning import ReasoningSuite

    return ReasoningSuite(
        part=part,
        model=options.model,
        data=options.data,
        protocol=options.protocol or "paper",
        seed=options.seed,
    )


def _acebench(part: str, options: SuiteOptions) -> Suite:
    from spade_evals.suites.acebench.suite import AceBenchSuite

    protocol = options.protocol or "default"
    return AceBenchSuite(part=part, data=options.data, protocol=protocol, user_model=options.user_model)


def _bfcl(part: str, options: SuiteOptions) -> Suite:
    from spade_evals.suites.bfcl.suite import BfclSuite

    _refuse_protocol("bfcl_v4", options)
    return BfclSuite(part=part)


def _lm(part: str, options: SuiteOptions) -> Suite:
    from spade_evals.suites.lm import LmSuite

    _refuse_protocol("lm", options)
    return LmSuite(part=part, data=options.data)


def _refuse_protocol(name: str, options: SuiteOptions) -> None:
    if options.protocol not in (None, "default"):
        raise UsageError(f"--suite {name} has one protocol, found --protocol {options.protocol}; leave it out")


_FAMILIES: dict[str, tuple[Callable[[str, SuiteOptions], Suite], str]] = {
    "reasoning": (
        _reasoning,
        "AIME, GPQA-Diamond, LiveCodeBench, four Reasoning Gym columns; reasoning:aime25, reasoning:rg",
    ),
    "acebench": (
        _acebench,
        "normal, special and agent of ACEBench, from your copy of its data; acebench:normal, acebench:agent",
    ),
    "bfcl_v4": (_bfcl, "BFCL v4 with native calls, after setup bfcl_v4; bfcl_v4:multi_turn, bfcl_v4:simple_python"),
    "lm": (_lm, "generation tasks of lm-eval by name: lm:gsm8k, lm:gsm8k/flexible-extract, or your own YAML in --data"),
    "environments": (_environments, "plays of a pool: environments:catalogue, environments:RUN, environments:FOLDER"),
}
