"""Packed rows: every token sees exactly the tokens before it in its own row."""

from __future__ import annotations

import random

import pytest
import torch

from spade_agents.training.packing import SHARED_AT_LEAST, Layout, Segment, common_prefix, pack, packs

PROMPT = tuple(range(10, 20))


def family(rng: random.Random, count: int) -> list[tuple[int, ...]]:
    """Rows that branch off one another, some equal, some a prefix of another."""
    rows = [tuple(rng.randrange(4) for _ in range(rng.randint(1, 40)))]
    while len(rows) < count:
        parent = rng.choice(rows)
        kept = parent[: rng.randint(0, len(parent))]
        rows.append(kept + tuple(rng.randrange(4) for _ in range(rng.randint(0 if kept else 1, 30))))
    return rows


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_each_token_of_each_row_sees_the_tokens_before_it_and_no_others(seed, sharing):
    rng = random.Random(seed)
    rows = family(rng, rng.randint(1, 12))
    packed = pack(rows, sharing=sharing)
    seen = packed.layout.mask()
    assert sorted(packed.rows) == list(range(len(rows)))
    for number, index in enumerate(packed.rows):
        places = packed.places(number)
        assert tuple(packed.token_ids[place] for place in places) == rows[index]
        assert [packed.position_ids[place] for place in places] == list(range(len(rows[index])))
        for depth, place in enumerate(places):
            assert seen[place].nonzero().flatten().tolist() == sorted(places[: depth + 1])
    assert packed.layout.length == len(packed.token_ids) == len(packed.position_ids)


def test_a_prompt_that_rows_share_is_laid_out_once():
    rows = [(*PROMPT, 1, 2, 3), (*PROMPT, 4), (*PROMPT, 1, 2, 5)]
    packed = pack(rows)
    assert packed.token_ids == (*PROMPT, 1, 2, 3, 1, 2, 5, 4)
    assert packed.position_ids == (*range(10), 10, 11, 12, 10, 11, 12, 10)
    prompt = ((0, 10),)
    assert packed.layout == Layout(
        segments=(
            Segment(start=0, end=10),
            Segment(start=10, end=13, context=prompt),
            Segment(start=13, end=16, context=prompt),
            Segment(start=16, end=17, context=prompt),
        )
    )
    assert packed.rows == (0, 2, 1)
    assert packed.pieces == (((0, 13),), ((0, 10), (13, 16)), ((0, 10), (16, 17)))
    assert packed.layout.span == 13


def test_branches_branch_again_where_that_saves_enough():
    long = tuple(range(30, 30 + SHARED_AT_LEAST))
    packed = pack([(*PROMPT, 1), (*PROMPT, *long, 2), (*PROMPT, *long, 3)])
    assert len(packed.token_ids) == 10 + 1 + SHARED_AT_LEAST + 2
    assert packed.layout.segments[-1].context == ((0, 10), (11, 11 + SHARED_AT_LEAST))
    short = pack([(*PROMPT, 1), (*PROMPT, *long[:-1], 2), (*PROMPT, *long[:-1], 3)])
    assert len(short.token_ids) == 10 + 1 + 2 * SHARED_AT_LEAST


def test_equal_rows_and_rows_that_end_inside_another_cost_nothing():
    packed = pack([PROMPT, (*PROMPT, 1), PROMPT])
    assert packed.token_ids == (*PROMPT, 1)
    assert packed.pieces[0] == packed.pieces[1] == ((0, 10),)


def test_without_sharing_each_row_is_a_block_on_the_diagonal():
    packed = pack([PROMPT, (*PROMPT, 1)], sharing=False)
    blocks = torch.block_diag(torch.ones(10, 10).tril(), torch.ones(11, 11).tril()).bool()
    assert torch.equal(packed.layout.mask(), blocks)


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("budget", [1, 30, 100, 10_000])
def test_packed_rows_keep_to_the_budget_and_lose_no_row(budget, sharing):
    rows = family(random.Random(3), 30)
    made = packs(rows, token_budget=budget, sharing=sharing)
    assert sorted(row for packed in made for row in packed.rows) == list(range(30))
    assert all(len(packed.token_ids) <= budget or len(packed.rows) == 1 for packed in made)
    if budget == 10_000:
        assert len(made) == 1


def test_eight_samples_of_a_prompt_cost_its_tokens_once():
    rows = [(*range(141), 200 + sample, *range(63)) for sample in range(8)]
    (packed,) = packs(rows, token_budget=141 + 8 * 64)
    assert len(packed.token_ids) == 653
    assert len(packs(rows, token_budget=652)) == 2


@pytest.mark.parametrize(
    ("first", "second", "length"),
    [((), (1,), 0), ((1, 2), (1, 2), 2), ((1, 2, 3), (1, 2), 2), ((1, 2, 3), (1, 4, 3), 1)],
)
def test_a_common_prefix_ends_at_the_first_difference(first, second, length):
    assert common_prefix(first, second) == common_prefix(second, first) == length


def test_no_rows_make_no_packed_rows():
    assert packs([], token_budget=10) == []
