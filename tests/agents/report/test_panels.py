"""Panels count everything there is: no outcome and no regime is left out for want of a colour."""

from __future__ import annotations

from spade_agents.report.panels import OUTCOMES, REGIMES
from spade_agents.rewards import Regime
from spade_agents.trajectory import Outcome


def test_every_outcome_and_every_regime_has_a_colour():
    assert set(OUTCOMES) == {outcome.value.replace("_", " ") for outcome in Outcome}
    assert set(REGIMES) - {""} == {regime.value for regime in Regime}
