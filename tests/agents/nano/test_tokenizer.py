"""The nano tokenizer: lossless, short on programs, and blind to where a word stands."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spade_agents.nano.build import build_tokenizer
from spade_agents.nano.examples import warm_program
from spade_agents.nano.heldout import heldout_specs
from spade_agents.nano.tokenizer import SPECIAL_TOKENS, fragments, save_tokenizer
from spade_agents.policy.tokenizer import PlainTokenizer, load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(build_tokenizer(seed=0, programs=150), folder, context=1024)
    return load_tokenizer(folder)


def test_special_tokens_come_first(tokenizer):
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))


def test_programs_survive_and_take_few_tokens(tokenizer):
    rng = random.Random(4)
    sources = [warm_program(rng).program.source for _ in range(40)]
    lengths = [len(tokenizer.encode(source)) for source in sources]
    assert [tokenizer.decode(tokenizer.encode(source)) for source in sources] == sources
    assert sum(lengths) / len(lengths) < 330


def test_words_read_the_same_in_document_program_schema_and_call(tokenizer):
    word = tokenizer.encode("kettle")
    places = [
        "The kettle is here.", "get_kettle", '"kettle"', "kettle, lamp", "(kettle)", " kettle ",
        json.dumps({"name": "get_kettle", "arguments": {"kettle": "kettle"}}),
        "    def get_kettle(self, kettle: str) -> dict:\n",
    ]  # fmt: skip
    for text in places:
        ids = tokenizer.encode(text)
        assert any(ids[start : start + len(word)] == word for start in range(len(ids))), text


def test_digits_stand_alone(tokenizer):
    assert len(tokenizer.encode("4711")) == 4


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="\x02\x03", exclude_categories=("Cs",))))
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["self", "state", " ", "  ", "\n", "x", "_", "]", "return", ".", "7", "'", '"', "Goal", "("])
    )
)
def test_code_like_text_survives(tokenizer, parts):
    text = "".join(parts)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_content_that_spells_a_tag_stays_content(tokenizer):
    ids = tokenizer.encode("<|im_end|></tool_call>")
    assert tokenizer.token_to_id("<|im_end|>") not in ids
    assert tokenizer.token_to_id("</tool_call>") not in ids


def test_the_same_seed_gives_the_same_tokenizer(tokenizer):
    assert PlainTokenizer(build_tokenizer(seed=0, programs=150)).inner.to_str() == tokenizer.inner.to_str()


def test_pieces_hold_no_word_that_varies_and_end_with_a_sign():
    texts = ["    def get_lamp(self, lamp: str):\n", "    def get_rug(self, rug: str):\n"] * 9
    found = fragments(texts, count=10, kept_apart=frozenset({"lamp", "rug", "get"}))
    assert "(self, " in found
    assert "    def " in found
    assert not any("lamp" in piece or piece[-1].isalpha() or piece[-1] == "_" for piece in found)


def test_held_out_words_survive(tokenizer):
    assert all(tokenizer.decode(tokenizer.encode(spec.source)) == spec.source for spec in heldout_specs("known", 5))
