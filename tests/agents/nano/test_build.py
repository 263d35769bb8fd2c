"""The build end to end with a tiny shape, its stream, and the figures of its model card."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from spade_agents.nano.build import build
from spade_agents.nano.examples import Mixture, is_held_out
from spade_agents.nano.measure import MARK_BYTES, measure, read_fingerprints
from spade_agents.nano.replay import open_replay
from spade_agents.nano.stream import copying_drill, make_chunk
from spade_agents.nano.tokenizer import word_ids
from spade_agents.nano.warmup import NanoShape, WarmupSettings
from spade_agents.policy.tokenizer import load_tokenizer
from spade_agents.policy.torch_policy import TorchPolicy
from spade_agents.rendering import HermesRenderer

TINY = NanoShape(hidden=64, layers=2, heads=4, intermediate=64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("nano")
    settings = WarmupSettings(minutes=2.0, steps=4, report_every=2)
    said: list[str] = []
    build(
        out, seed=3, minutes=2.0, shape=TINY, settings=settings, tokenizer_programs=60, measured=False, say=said.append
    )
    assert any("loss" in line for line in said)
    return out


def chunk(folder, index=0):
    tokenizer = load_tokenizer(folder)
    renderer = HermesRenderer(tokenizer, style="compact")
    return make_chunk(renderer, words=word_ids(tokenizer.inner), seed=1, index=index, mixture=Mixture())


def test_the_folder_opens_as_a_policy(folder):
    policy = TorchPolicy.from_folder(folder)
    assert policy.style == "compact"
    assert policy.info.context_length == 1024
    policy.close()


def test_the_folder_tells_what_it_was_trained_on(folder):
    about = json.loads((folder / "spade.json").read_text())
    assert about["template_family"] == "hermes"
    assert about["trained"]["programs"] == len(read_fingerprints(folder)) > 0
    assert all(len(mark) == MARK_BYTES for mark in read_fingerprints(folder))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 15 * 2**20


async def test_an_untaught_model_is_measured_as_such(folder):
    figures = await measure(folder, designs=3, programs=2, seeds=1)
    assert figures["designs"]["asked"] == 3
    assert figures["designs"]["certified"] == 0
    assert set(figures["solve_rates"]) == {"known_plain", "known_hinted", "unseen_plain", "unseen_hinted"}
    assert figures["solve_rates"]["known_plain"] == 0.0


def test_chunks_depend_on_their_index_alone(folder):
    first, again, other = chunk(folder), chunk(folder), chunk(folder, 1)
    assert all(np.array_equal(a, b) for a, b in zip(first.tokens, again.tokens, strict=True))
    assert first.fingerprints == again.fingerprints != other.fingerprints
    assert not any(is_held_out(mark) for mark in first.fingerprints)


def test_every_row_fits_the_context_and_imitates_something(folder):
    rows = chunk(folder)
    assert all(len(tokens) < 1024 for tokens in rows.tokens)
    assert all(mask.any() and not mask[0] for mask in rows.masks)


def test_a_drill_imitates_only_what_stood_before():
    tokens, mask = copying_drill(random.Random(1), [11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
    pairs = set(zip(tokens.tolist(), tokens.tolist()[1:], strict=False))
    taught = [(tokens[i - 1], tokens[i]) for i in range(len(tokens)) if mask[i]]
    shown = tokens[: int(mask.argmax())]
    assert taught
    assert all(pair in pairs for pair in taught)
    assert set(tokens) == set(shown)


def test_replay_is_a_function_of_its_seed(folder):
    replay = open_replay(folder)
    assert replay(5, 3) == replay(5, 3) != replay(6, 3)
    assert all(len(sample.token_ids) == len(sample.mask) for sample in replay(5, 3))
