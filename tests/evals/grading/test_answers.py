from __future__ import annotations

import pytest

from spade_evals.grading.answers import boxed, choice, code_block, same_text, tagged


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        (r"\boxed{C}", "C"),
        (r"\boxed{\text{C}}", "C"),
        (r"\boxed{\textbf{(c)}}", "C"),
        (r"\boxed{(b)}", "B"),
        (r"\boxed{D.}", "D"),
        (r"\boxed{D. The third law}", "D"),
        (r"first \boxed{A}, no: \boxed{B}", "B"),
        ("Answer: c", "C"),
        ("The answer is (D).", "D"),
        ("thus\n**A**", "A"),
        ("C.", "C"),
        (r"\boxed{E}", None),
        (r"\boxed{A or B}", None),
        ("I cannot say", None),
        ("", None),
    ],
)
def test_a_choice_is_read_in_the_forms_that_models_write(said, letter):
    assert choice(said) == letter


def test_the_last_box_that_closes_is_read_with_its_inner_braces():
    assert boxed(r"\boxed{1} then \boxed{\frac{1}{2}} then \boxed{3") == r"\frac{1}{2}"
    assert boxed("no box") is None


def test_tags_blocks_and_plain_text():
    assert tagged("<answer>1</answer> no <answer> 2 </answer>") == "2"
    assert tagged("<answer>1") is None
    assert code_block("```python\na\n```\n```\nb\n```") == "b\n"
    assert same_text("070", "$70$")
    assert not same_text("0.70", "70")
