"""From rows to documents: sources, chunks, filters, near duplicates, benchmarks."""

import errno
import gzip
import json
import os

import pytest
import zstandard

from spade_agents.designer import corpus_build
from spade_agents.designer.corpus import load_corpus
from spade_agents.designer.corpus_build import (
    BuildCounts,
    BuildSettings,
    build_corpus,
    built_documents,
    read_manifest,
)
from spade_agents.designer.corpus_chunks import PatternTokens, WordTokens, chunks
from spade_agents.designer.corpus_filters import FilterSettings, Unfit, unfit
from spade_agents.designer.corpus_overlap import Contamination, NearDuplicates, benchmark_texts
from spade_agents.designer.corpus_rows import rows_of
from spade_agents.designer.corpus_sources import PRESETS, CorpusSource, source_named
from spade_agents.errors import InfrastructureError, UsageError

WORDS = (  # noqa: SIM905
    "the harbour master keeps a list of boats and the berths that they may use while the tide is low and each pilot "
    "signs for the hours in which he brought a boat in or out so that the dues can be told at the end of the week"
).split()


def prose(number: int, count: int = 40) -> str:
    """Words in an order of their own for each number."""
    return " ".join(WORDS[(number * 7 + place * (number % 5 + 1)) % len(WORDS)] + str(number) for place in range(count))


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return CorpusSource(name=str(path))


def test_chunks_hold_all_of_a_text_and_are_no_longer_than_asked_for():
    text = " ".join(f"word{n}." if n % 7 == 6 else f"word{n}" for n in range(100))
    found = list(chunks(text, WordTokens(), 16))
    assert " ".join(found) == text
    assert all(len(part.split()) <= 16 for part in found)
    assert all(part.endswith(".") for part in found[:-1]), "a sentence ends within the last quarter of every chunk"


def test_a_text_without_ends_is_cut_at_tokens_and_an_empty_one_gives_nothing():
    assert [len(part.split()) for part in chunks("word " * 10, WordTokens(), 4)] == [4, 4, 2]
    assert list(chunks(" \n ", WordTokens(), 4)) == []
    assert list(chunks("abcdefghijkl", PatternTokens(), 1)) == ["abcdef", "ghijkl"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (prose(1), None),
        ("too few words", Unfit.TOO_SHORT),
        ("12 34 56 == // " * 20, Unfit.FEW_LETTERS),
        ("pneumonoultramicroscopic " * 30, Unfit.ODD_WORDS),
        ("\n".join(["the same line again and again"] * 9), Unfit.REPEATED),
        (prose(1) + "\ufffd\ufffd\ufffd", Unfit.BROKEN),
    ],
)
def test_a_text_is_unfit_for_one_reason_at_a_time(text, reason):
    assert unfit(text, FilterSettings()) is reason


def test_near_copies_are_told_from_other_texts():
    seen = NearDuplicates(0.7)
    long = prose(1, 200)
    assert seen.admits(long)
    assert not seen.admits(long.replace("harbour1", "haven1", 1)), "one word of 200 is another"
    assert seen.admits(prose(2, 200))
    assert seen.admits(" ".join(reversed(long.split())))


def test_what_shares_thirteen_words_with_a_benchmark_names_it():
    question = "In how many ways can nine different coins be put into three drawers so that none is empty at last?"
    benchmark = Contamination([("aime.jsonl", question), ("short.jsonl", "What is seven times eight?")])
    assert benchmark.texts == 1, "too short a text would be found everywhere"
    assert benchmark.found_in(f"We asked: {question.upper()} Nobody knew.") == "aime.jsonl"
    assert benchmark.found_in(" ".join(question.split()[:12])) is None
    assert benchmark.found_in("What is seven times eight? " + prose(3)) is None


def test_a_benchmark_text_shorter_than_the_ngram_is_looked_for_whole():
    benchmark = Contamination([("b", "one two three four five six seven eight nine")])
    assert benchmark.found_in("zero one two three four five six seven eight nine ten") == "b"
    assert benchmark.found_in("one two three four five six seven eight ten") is None


def test_benchmark_texts_are_every_string_of_every_file(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"turns": [{"text": "deep"}], "n": 1}]))
    (tmp_path / "b.csv").write_text('question,answer\n"a, b",c\n')
    (tmp_path / "c.bin").write_bytes(b"\x00")
    assert list(benchmark_texts([tmp_path])) == [
        ("a.json", "deep"),
        ("b.csv", "question"),
        ("b.csv", "answer"),
        ("b.csv", "a, b"),
        ("b.csv", "c"),
    ]
    with pytest.raises(UsageError, match="there is no"):
        list(benchmark_texts([tmp_path / "none"]))


def test_every_chunk_is_kept_or_counted_under_what_it_was_left_out_for(tmp_path):
    secret = prose(9, 30)
    rows = [{"text": prose(1)}, {"text": prose(1)}, {"text": prose(2)}, {"text": "short"}, {"text": secret}]
    counts = BuildCounts()
    documents = list(
        built_documents(
            [jsonl(tmp_path / "rows.jsonl", rows)],
            BuildSettings(),
            counts,
            benchmarks=Contamination([("aime.jsonl", secret)]),
        )
    )
    assert [document.text for document in documents] == [prose(1), prose(2)]
    assert (counts.rows, counts.chunks, counts.kept, counts.near_duplicates) == (5, 5, 2, 1)
    assert counts.unfit == {"too short": 1}
    assert counts.contaminated == {"aime.jsonl": 1}


def test_a_built_corpus_stands_beside_what_it_was_made_of(tmp_path):
    source = jsonl(tmp_path / "rows.jsonl", [{"id": f"r{n}", "text": prose(n)} for n in range(1, 5)])
    out = tmp_path / "new" / "corpus.jsonl"
    build_corpus(out, [source], BuildSettings(limit=3))
    corpus = load_corpus(out)
    assert [document.id for document in corpus.documents] == [f"{source.name}/r{n}/0" for n in (1, 2, 3)]
    assert {document.source for document in corpus.documents} == {source.name}
    manifest = read_manifest(out)
    assert manifest["counts"]["kept"] == 3
    assert manifest["checksum"] == corpus.checksum


def test_where_nothing_is_left_nothing_is_written(tmp_path):
    source = jsonl(tmp_path / "rows.jsonl", [{"text": "short"}])
    with pytest.raises(UsageError, match="no document is left of 1 chunks: 1 too short"):
        build_corpus(tmp_path / "out.jsonl", [source], BuildSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def test_packed_files_folders_and_plain_texts_are_read(tmp_path):
    line = json.dumps({"text": "packed"}) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    (tmp_path / "b.jsonl.zst").write_bytes(zstandard.compress(line.encode()))
    (tmp_path / "c.txt").write_text("plain")
    (tmp_path / "e.json").write_text(line + line)
    (tmp_path / "d.png").write_bytes(b"\x89PNG")
    found = list(rows_of(CorpusSource(name=str(tmp_path), domain="boats")))
    assert [(row.text, row.domain) for row in found] == [
        *[("packed", "boats")] * 2,
        ("plain", "boats"),
        *[("packed", "boats")] * 2,
    ]


def test_columns_are_joined_and_a_missing_one_is_named(tmp_path):
    source = jsonl(tmp_path / "rows.jsonl", [{"question": "why", "answer": "so", "subject": "physics"}])
    asked = CorpusSource(name=source.name, fields=("question", "answer"), domain_field="subject")
    assert [(row.text, row.domain) for row in rows_of(asked)] == [("why\n\nso", "physics")]
    with pytest.raises(UsageError, match=r"hold none of text; found answer, question, subject: name one by --field"):
        list(rows_of(source))


@pytest.mark.parametrize("content", ["{", "[1]", '"text"', "\ud800"])
def test_a_file_that_is_no_jsonl_is_named_with_its_line(tmp_path, content):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "fine"}\n' + content.encode(errors="surrogatepass") + b"\n")
    with pytest.raises(UsageError, match=r"rows\.jsonl, line"):
        list(rows_of(CorpusSource(name=str(path))))


def test_presets_name_their_datasets_and_what_is_given_goes_before_them():
    assert PRESETS["megascience"].source.name == "MegaScience/MegaScience"
    assert source_named("dclm").name == "mlfoundations/dclm-baseline-1.0"
    assert "Nemotron" in source_named("nemotron-code").name
    changed = source_named("megascience", fields=("question",), rows=9)
    assert (changed.fields, changed.rows, changed.domain_field) == (("question",), 9, "subject")


def test_a_file_that_is_not_there_is_not_taken_for_a_dataset():
    with pytest.raises(UsageError, match="there is no file"):
        list(rows_of(CorpusSource(name="nowhere/rows.jsonl")))


def test_parquet_is_read_as_rows_and_as_a_corpus_and_a_damaged_file_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"id": [7, 8], "text": [prose(1), prose(2)], "score": [0.5, None]}), path)
    rows = list(rows_of(CorpusSource(name=str(path))))
    assert [(row.name, row.text) for row in rows] == [("7", prose(1)), ("8", prose(2))]
    assert [document.id for document in load_corpus(path).documents] == ["7", "8"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot be read as Parquet"):
        list(rows_of(CorpusSource(name=str(path))))


def test_a_dataset_is_streamed_by_its_name_and_only_as_far_as_it_is_read(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked, made = [], []

    def rows():
        for number in range(1000):
            made.append(number)
            yield {"question": f"why {number}", "answer": "so", "subject": "physics"}

    def load(name, config, *, split, streaming):
        asked.append((name, config, split, streaming))
        return datasets.IterableDataset.from_generator(rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    found = list(rows_of(source_named("megascience", rows=3)))
    assert asked == [("MegaScience/MegaScience", None, "train", True)]
    assert [(row.name, row.text, row.domain) for row in found][2] == ("2", "why 2\n\nso", "physics")
    assert len(found) == 3
    assert len(made) < 20


def test_a_dataset_that_is_not_there_is_a_usage_error_and_an_outage_is_not(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def failing(error):
        def load(*arguments, **options):
            raise error

        return load

    monkeypatch.setattr(datasets, "load_dataset", failing(datasets.exceptions.DatasetNotFoundError("no such dataset")))
    with pytest.raises(UsageError, match="cannot be opened: no such dataset"):
        list(rows_of(CorpusSource(name="nobody/nothing")))
    monkeypatch.setattr(datasets, "load_dataset", failing(ConnectionError("offline")))
    with pytest.raises(InfrastructureError, match="cannot be read: offline"):
        list(rows_of(CorpusSource(name="nobody/nothing")))


PACKED_LINES = ("".join(json.dumps({"text": prose(n)}) + "\n" for n in range(1, 40))).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b"\xff\x00binary"),
        ("a.txt.gz", b"no gzip"),
        ("a.txt.zst", b"no zstd"),
        ("a.jsonl.gz", b"no gzip"),
        ("a.jsonl.gz", gzip.compress(PACKED_LINES)[:-30]),
        ("a.jsonl.gz", gzip.compress(PACKED_LINES)[:-8] + bytes(8)),
        ("a.jsonl.zst", b"no zstd"),
        ("a.jsonl.zst", zstandard.compress(PACKED_LINES)[:-10]),
        ("a.jsonl", b'{"text": "a", "id": ' + b"9" * 5000 + b"}\n"),
    ],
)
def test_a_file_that_is_damaged_or_was_cut_is_named_and_never_taken_for_the_whole(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=name):
        list(rows_of(CorpusSource(name=str(path))))


def test_a_packed_file_of_several_frames_is_read_to_its_end(tmp_path):
    path = tmp_path / "rows.jsonl.zst"
    lines = PACKED_LINES.splitlines(keepends=True)
    path.write_bytes(zstandard.compress(b"".join(lines[:10])) + zstandard.compress(b"".join(lines[10:])))
    assert len(list(rows_of(CorpusSource(name=str(path))))) == len(lines)


@pytest.mark.parametrize("name", ["pipe.jsonl", "pipe.txt", "pipe.parquet", "pipe.csv"])
def test_a_pipe_is_refused_as_a_source_and_as_a_benchmark(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(UsageError, match="no plain file"):
        list(benchmark_texts([tmp_path / name]))
    if name != "pipe.csv":
        with pytest.raises(UsageError, match="no plain file"):
            list(rows_of(CorpusSource(name=str(tmp_path / name))))


def test_the_mark_before_utf_8_and_halves_of_pairs_do_no_harm(tmp_path):
    path, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"text": "\ud800 " + prose(1, 390)}).encode() + b"\n")
    build_corpus(out, [CorpusSource(name=str(path))], BuildSettings())
    (document,) = load_corpus(out).documents
    assert document.text == "\ufffd " + prose(1, 390)
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"text": "fine"}).encode() + b"\n")
    assert len(load_corpus(path)) == 1


@pytest.mark.parametrize("content", [b"[]", b'{"sources": 5}', b'{"sources": [5]}', b'{"counts": []}', b"[" * 100_000])
def test_a_manifest_that_is_none_is_named(tmp_path, content):
    (tmp_path / "corpus.manifest.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"corpus\.manifest\.json cannot be read"):
        read_manifest(tmp_path / "corpus.jsonl")


def test_a_full_disk_leaves_neither_a_corpus_nor_a_word_about_it(tmp_path, monkeypatch):
    source = jsonl(tmp_path / "rows.jsonl", [{"text": prose(n)} for n in range(1, 5)])

    def full(path, documents):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(corpus_build, "write_corpus", full)
    with pytest.raises(OSError, match="No space left"):
        build_corpus(tmp_path / "out.jsonl", [source], BuildSettings())
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
