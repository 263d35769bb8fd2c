"""Documents: reading, order, builders, clear errors."""

import pytest

from spade_agents.designer.corpus import Corpus, Document, load_corpus, write_corpus
from spade_agents.designer.stdlib_corpus import stdlib_texts
from spade_agents.errors import UsageError

DOCUMENTS = tuple(Document(id=str(n), text=f"text {n}") for n in range(7))


def test_each_epoch_draws_every_document_once_and_in_another_order():
    corpus = Corpus(documents=DOCUMENTS, seed=3)
    epochs = [[corpus.at(7 * epoch + n).id for n in range(7)] for epoch in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == [str(n) for n in range(7)]
    assert epochs[0] != epochs[1]
    assert corpus.at(9).id == Corpus(documents=DOCUMENTS, seed=3).at(9).id


def test_a_written_corpus_reads_back(tmp_path):
    write_corpus(tmp_path / "c.jsonl", DOCUMENTS)
    assert load_corpus(tmp_path / "c.jsonl").documents == DOCUMENTS


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 1"),
        ('{"id": 1}', "line 1"),
        ('{"text": " "}', "empty"),
        ("[]", "line 1"),
        ("[" * 50_000, "line 1"),
        ('{"text": "half \\ud800"}', "line 1: it holds half a surrogate pair"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path, line, told):
    (tmp_path / "c.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=told):
        load_corpus(tmp_path / "c.jsonl")


def test_a_missing_or_empty_corpus_says_what_to_give(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        load_corpus(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="no document"):
        load_corpus(tmp_path / "empty.jsonl")


def test_the_standard_library_is_a_source_without_its_private_modules(tmp_path):
    (tmp_path / "shelve.py").write_text('"""Keep values on a shelf."""\ndef put(): "Put one."\n')
    (tmp_path / "_private.py").write_text('"""no"""\n')
    assert dict(stdlib_texts(tmp_path)) == {"shelve": "shelve: Keep values on a shelf.\nput: Put one."}


def test_a_corpus_that_is_no_text_is_a_clear_error(tmp_path):
    (tmp_path / "c.jsonl").write_bytes(b'{"text": "caf\xe9"}\n')
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        load_corpus(tmp_path / "c.jsonl")
