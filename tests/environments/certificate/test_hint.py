"""Hints: the idea and the form of the answer pass, values of the gold do not."""

from __future__ import annotations

import pytest

from spade_environments import FaultKind, HostFault
from spade_environments.certificate import CertificateSettings, Gate, Verdict, certify_hint

GOOD = "Halve the range each time: begin in the middle and go on in the half that the answer names."


async def hinted(spec, hint, sandbox, seeds=4):
    return await certify_hint(spec, hint, sandbox, settings=CertificateSettings(seeds=seeds))


async def test_a_hint_that_tells_the_idea_is_certified(dial, make_sandbox, make_spec):
    certificate = await hinted(make_spec(dial), GOOD, make_sandbox())
    assert certificate.verdict is Verdict.CERTIFIED
    assert certificate.hint == GOOD
    assert [result.gate for result in certificate.gates] == [Gate.HINT]


@pytest.mark.parametrize(("hint", "words"), [(" \n", "empty"), ("so " * 300, "at most 600")])
async def test_an_empty_or_long_hint_is_rejected_before_anything_is_opened(hint, words, dial, make_sandbox, make_spec):
    sandbox = make_sandbox()
    certificate = await hinted(make_spec(dial), hint, sandbox)
    assert certificate.verdict is Verdict.REJECTED
    assert words in certificate.repair
    assert sandbox.children == 0


async def test_a_hint_with_a_value_of_the_gold_is_rejected(dial, make_sandbox, make_spec):
    certificate = await hinted(make_spec(dial), "Say 50 first, then halve.", make_sandbox())
    assert certificate.verdict is Verdict.REJECTED
    assert "'50'" in certificate.repair
    assert "seed" in certificate.repair


@pytest.mark.parametrize("hint", ["Take 500 or 1.50 as far too much.", "A50 is no number.", "Never say v50 or 50th."])
async def test_a_value_counts_as_a_whole_token_only(hint, dial, make_sandbox, make_spec):
    assert (await hinted(make_spec(dial), hint, make_sandbox())).admitted


@pytest.mark.parametrize("hint", ["Say 50.", "(50)", "50, then halve", "50.0 is a fine start"])
async def test_a_value_is_found_beside_punctuation_and_in_another_form(hint, dial, make_sandbox, make_spec):
    assert not (await hinted(make_spec(dial), hint, make_sandbox())).admitted


@pytest.mark.parametrize(
    "hint", ["Begin with fifty.", "Begin with 25 + 25.", "Begin at 5 times 10.", "It is 60 minus 10."]
)
async def test_a_value_is_found_in_words_and_as_the_result_of_a_sum(hint, dial, make_sandbox, make_spec):
    certificate = await hinted(make_spec(dial), hint, make_sandbox())
    assert certificate.verdict is Verdict.REJECTED
    assert "'50'" in certificate.repair


@pytest.mark.parametrize("number", ["four thousand seven hundred and eleven", "4,711", "4 711", "4700 + 11"])
async def test_a_large_value_is_found_however_it_is_written(number, dial, make_sandbox, make_spec):
    source = dial.replace('"50"', '"4711"')
    assert not (await hinted(make_spec(source), f"Say {number} first.", make_sandbox())).admitted


@pytest.mark.parametrize("hint", ["It is one of fifty-one.", "As 10 + 15 shows, halve.", "Fiftyfold."])
async def test_another_number_in_words_or_a_sum_of_another_value_may_stand_there(hint, dial, make_sandbox, make_spec):
    source = dial.replace('return ["50", str(self.secret)] if self.secret != 50 else ["50"]', 'return ["50"]')
    assert (await hinted(make_spec(source), hint, make_sandbox())).admitted


async def test_numbers_of_a_list_are_no_values(dial, make_sandbox, make_spec):
    hint = "\n".join(f"{number}. Halve it." for number in range(30))
    assert len(hint) <= 600
    assert (await hinted(make_spec(dial), hint, make_sandbox(), seeds=30)).admitted


async def test_a_value_that_the_instructions_give_may_stand_in_the_hint(desk, make_sandbox, make_spec):
    told = desk.replace('"Cancel another one."', '"Cancel another one, as A7."').replace(
        '[Call("cancel_order", order_id=third)]',
        '[Call("get_order", order_id=\'A7\'), Call("cancel_order", order_id=third)]',
    )
    assert (await hinted(make_spec(told), "A7 is not what it seems.", make_sandbox())).admitted
    untold = told.replace(", as A7", "")
    assert not (await hinted(make_spec(untold), "A7 is not what it seems.", make_sandbox())).admitted


async def test_the_answer_of_one_seed_may_not_stand_in_the_hint(desk, make_sandbox, make_spec):
    certificate = await hinted(
        make_spec(desk), f"It is one of {', '.join(map(str, range(100, 200)))}"[:590], make_sandbox(), 30
    )
    assert certificate.verdict is Verdict.REJECTED


async def test_an_import_without_gold_leaves_its_hint_unproven(dial, make_sandbox, make_spec):
    spec = make_spec(dial.replace("def solution", "def _solution"), kind="imported")
    assert (await hinted(spec, GOOD, make_sandbox())).verdict is Verdict.UNPROVEN


async def test_a_fault_of_ours_leaves_a_hint_undecided(dial, make_sandbox, make_spec):
    for moment in range(4):
        sandbox = make_sandbox({moment: HostFault(FaultKind.HOST_FAULT, "reset", "lost")})
        assert (await hinted(make_spec(dial), GOOD, sandbox)).verdict is Verdict.UNDECIDED
