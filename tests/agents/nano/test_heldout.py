"""Held-out programs: fixed, playable, and apart from the warm-up."""

from __future__ import annotations

import pytest

from spade_agents.nano.examples import is_held_out
from spade_agents.nano.heldout import HELD_OUT_SEEDS, heldout_specs
from spade_environments.certificate.novelty import fingerprint
from spade_environments.inside.episode import Episode


@pytest.mark.parametrize("part", ["known", "unseen"])
def test_gold_wins_every_held_out_play(part):
    for spec in heldout_specs(part, 12):
        for seed in HELD_OUT_SEEDS:
            episode = Episode(spec.source)
            episode.reset(seed)
            for action in episode.solution():
                result = episode.step(action.get("name"), action.get("arguments"), action.get("text"))
            assert result["reward"] == 1.0


def test_known_structures_are_those_that_the_warm_up_skips():
    assert all(is_held_out(fingerprint(spec.source)) for spec in heldout_specs("known", 12))


def test_unseen_programs_are_of_unseen_families():
    labels = {str(spec.provenance["label"]).split("/")[0] for spec in heldout_specs("unseen", 12)}
    assert labels == {"queue", "transfer", "find then change"}


def test_specs_differ_in_structure_and_carry_hints():
    specs = heldout_specs("known", 12)
    assert len({fingerprint(spec.source) for spec in specs}) == 12
    assert all(spec.hint for spec in specs)


def test_fewer_are_the_first_of_more():
    assert heldout_specs("known", 12)[:5] == heldout_specs("known", 5)
