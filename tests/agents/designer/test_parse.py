"""From completions to sources and hints."""

import pytest

from spade_agents.designer.parse import DesignFault, parse_design, parse_hint
from spade_agents.trajectory import Completion


def test_the_one_block_is_the_source():
    parsed = parse_design(Completion(text="Here it is.\n```python\nx = 1\n```\nEnjoy."))
    assert (parsed.source, parsed.fault) == ("x = 1\n", None)


@pytest.mark.parametrize(
    ("completion", "fault"),
    [
        (Completion(text="```python\nx = 1\n```", finish="length"), DesignFault.TRUNCATED),
        (Completion(text="  \n"), DesignFault.EMPTY),
        (Completion(text="I would rather not."), DesignFault.NO_BLOCK),
        (Completion(text="```python\nx = 1\n"), DesignFault.NO_BLOCK),
        (Completion(text="```python\nx\n```\n```python\ny\n```"), DesignFault.SEVERAL_BLOCKS),
    ],
)
def test_a_completion_without_a_source_says_why(completion, fault):
    parsed = parse_design(completion)
    assert parsed.source is None
    assert parsed.fault is fault
    assert parsed.repair


def test_a_hint_is_one_line_and_a_cut_one_is_none():
    assert parse_hint(Completion(text=" look\n first ")) == "look first"
    assert parse_hint(Completion(text="")) is None
    assert parse_hint(Completion(text="look", finish="length")) is None
