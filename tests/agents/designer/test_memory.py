"""What is remembered, and what is offered."""

import random
import sqlite3

import pytest

from spade_agents.designer.memory import Memory, MemoryQuery, MemoryRecord, MemorySettings, Retired
from spade_agents.errors import CheckpointError, InfrastructureError, UsageError
from spade_environments import Skill

RETRIEVAL, SELECTION = Skill.DATA_RETRIEVAL, Skill.TOOL_SELECTION


def record(number, *, skill=RETRIEVAL, win_rate=0.5, regret=0.1, rollout=0, **more):
    more = {"source": f"class E{number}: pass\n", **more}
    return MemoryRecord(
        environment_id=str(number), skill=skill, win_rate=win_rate, regret=regret, rollout=rollout, **more
    )


def ids(records):
    return [r.environment_id for r in records]


def test_the_oldest_are_not_offered_beyond_the_size():
    memory = Memory.of([record(number) for number in range(3)], MemorySettings(size=2))
    assert ids(memory.records) == ["1", "2"]
    assert ids(memory.candidates(RETRIEVAL)) == ["1", "2"]
    assert len(memory.store) == 3


def test_candidates_share_the_skill_have_a_middling_win_rate_and_the_highest_regret():
    unfit = [record(0, skill=SELECTION), record(1, win_rate=0.14), record(2, win_rate=0.86)]
    memory = Memory.of([*unfit, *(record(number, regret=number / 100) for number in range(3, 15))])
    assert ids(memory.candidates(RETRIEVAL)) == [str(n) for n in range(14, 4, -1)]


def test_an_unknown_regret_is_no_0_and_comes_last():
    memory = Memory.of([record(1, regret=None), record(2, regret=-0.5)])
    assert ids(memory.candidates(RETRIEVAL)) == ["2", "1"]
    assert memory.records[0].regret is None


def test_only_the_latest_record_of_an_environment_counts():
    memory = Memory.of([record(1, win_rate=0.5), record(1, win_rate=0.95, rollout=4)])
    assert memory.candidates(RETRIEVAL) == []


def test_two_seeds_are_drawn_and_none_when_memory_is_off():
    records = [record(n) for n in range(5)]
    on, off = Memory.of(records), Memory.of(records, MemorySettings(enabled=False, negatives=1))
    assert len(on.seeds(RETRIEVAL, random.Random(0))) == 2
    assert on.seeds(RETRIEVAL, random.Random(0))[0].summary.startswith("E")
    assert off.seeds(RETRIEVAL, random.Random(0)) == () == off.negatives(RETRIEVAL, random.Random(0))


def test_seeds_are_drawn_as_a_sample_of_the_candidates_unless_they_must_differ():
    memory = Memory.of([record(n, regret=n) for n in range(5)])
    drawn = random.Random(3).sample(memory.candidates(RETRIEVAL), 2)
    assert [seed.environment_id for seed in memory.seeds(RETRIEVAL, random.Random(3))] == ids(drawn)


def test_seeds_that_must_differ_are_not_each_others_copies():
    other = "class Far:\n    def setup(self):\n        return [i * 2 for i in range(9)]\n"
    records = [record(n) for n in range(4)] + [record(9, source=other)]
    memory = Memory.of(records, MemorySettings(max_similarity=0.8))
    for seed in range(10):
        shown = memory.seeds(RETRIEVAL, random.Random(seed))
        assert len(shown) == 2
        assert "9" in [each.environment_id for each in shown]


def test_negatives_are_what_is_won_nearly_always_or_nearly_never():
    rates = {1: 0.95, 2: 0.05, 3: 0.5, 4: 0.9, 5: 0.1}
    records = [record(number, win_rate=rate) for number, rate in rates.items()]
    memory = Memory.of(records, MemorySettings(negatives=5))
    assert {seed.environment_id for seed in memory.negatives(RETRIEVAL, random.Random(0))} == {"1", "2"}
    assert Memory.of(records).negatives(RETRIEVAL, random.Random(0)) == ()


def test_faults_mastery_and_what_is_out_of_reach_retire_by_setting():
    broken, mastered, far, fine = record(1, fault="crash"), record(2, win_rate=1.0), record(3, win_rate=0.0), record(4)
    memory = Memory.of([broken, mastered, far, fine])
    found = [memory.retired(each) for each in (broken, mastered, far, fine)]
    assert found == [Retired.FAULT, Retired.MASTERED, Retired.OUT_OF_REACH, None]
    never = MemorySettings(retire_faulty=False, retire_mastered=False, retire_out_of_reach=False)
    memory = Memory.of([broken, mastered, far, fine], never)
    assert [memory.retired(each) for each in (broken, mastered, far, fine)] == [None] * 4


def test_an_environment_that_faulted_once_is_never_offered_again():
    memory = Memory.of([record(1), record(1, rollout=4, fault="crash"), record(2)])
    assert ids(memory.candidates(RETRIEVAL)) == ["2"]


def test_records_keep_source_certificate_hint_parents_and_both_arms(tmp_path):
    whole = record(
        1,
        name="shelf",
        domain="files",
        hint="look",
        hinted=(1.0, None),
        unhinted=(0.0, 1.0),
        window=(0.0, 1.0, 1.0),
        certificate="{}",
        parents=("a", "b"),
        document="d1",
    )
    path = tmp_path / "memory.sqlite"
    memory = Memory.open(path)
    memory.add(whole)
    memory.add(record(1, rollout=4, win_rate=None, regret=None))
    memory.close()
    again = Memory.open(path)
    assert again.history("1")[0] == whole
    assert [r.rollout for r in again.history("1")] == [0, 4]


def test_memory_is_cut_back_to_a_mark_and_a_changed_one_is_refused(tmp_path):
    memory = Memory.open(tmp_path / "memory.sqlite")
    memory.add(record(1))
    mark = memory.mark()
    memory.add(record(2, rollout=4))
    memory.cut_back(mark)
    assert ids(memory.store.all()) == ["1"]
    memory.store.truncate(0)
    with pytest.raises(CheckpointError, match="holds 0 records, and not the 1"):
        memory.cut_back(mark)
    memory.add(record(1, win_rate=0.25))
    with pytest.raises(CheckpointError, match="as they were"):
        memory.cut_back(mark)


def test_queries_ask_by_skill_win_rate_regret_round_and_retirement():
    records = [
        record(1, regret=0.1),
        record(2, regret=0.3, win_rate=1.0),
        record(3, regret=None),
        record(4, skill=SELECTION, rollout=4),
    ]
    memory = Memory.of(records)
    assert ids(memory.query(MemoryQuery())) == ["2", "1", "4", "3"]
    assert ids(memory.query(MemoryQuery(skill=SELECTION))) == ["4"]
    assert ids(memory.query(MemoryQuery(high=0.9, limit=1))) == ["1"]
    assert ids(memory.query(MemoryQuery(min_regret=0.2))) == ["2"]
    assert ids(memory.query(MemoryQuery(retired=True))) == ["2"]
    assert ids(memory.query(MemoryQuery(order="rollout", limit=1))) == ["4"]
    assert ids(memory.query(MemoryQuery(rollout=4))) == ["4"]


def test_a_file_that_is_no_memory_is_refused(tmp_path):
    path = tmp_path / "memory.sqlite"
    path.write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(UsageError, match="cannot be used"):
        Memory.open(path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("create table outcomes (number integer)")
    with pytest.raises(UsageError, match="cannot be used"):
        Memory.open(other)


def test_a_full_disk_is_no_damaged_file_and_nothing_is_half_written(tmp_path):
    memory = Memory.open(tmp_path / "memory.sqlite")
    memory.add(record(1))
    memory.store._connection.execute("pragma max_page_count = 6")
    with pytest.raises(InfrastructureError, match="make room and go on"):
        memory.add(record(2, source="class E: pass\n" * 4000))
    assert ids(memory.store.all()) == ["1"]
    memory.store._connection.execute("pragma max_page_count = 10000")
    memory.add(record(2))
    assert ids(memory.store.all()) == ["1", "2"]


@pytest.mark.parametrize(
    "damage",
    [
        "update environments set source = x'ff00'",
        "update environments set skill = 'cooking'",
        "update environments set parents = '5'",
        "update outcomes set window = '['",
        f"update outcomes set window = '{'[' * 100_000}'",
        "update outcomes set win_rate = 'often'",
        "update outcomes set win_rate = 9e999",
        "update outcomes set rollout = 'first'",
    ],
    ids=lambda damage: damage[:50],
)
def test_a_record_that_is_none_is_told_with_its_file(tmp_path, damage):
    path = tmp_path / "memory.sqlite"
    memory = Memory.open(path)
    memory.add(record(1))
    memory.close()
    with sqlite3.connect(path) as connection:
        connection.execute(damage)
    memory = Memory.open(path)
    with pytest.raises(UsageError, match=f"the memory {path} cannot be read: .*put a whole copy back"):
        memory.query(MemoryQuery())
    memory.mark()


def test_a_schema_that_cannot_be_quoted_is_a_damaged_file(tmp_path):
    path = tmp_path / "memory.sqlite"
    Memory.open(path).close()
    path.write_bytes(path.read_bytes().replace(b"TABLE", b"\xfdABLE"))
    with pytest.raises(UsageError, match="cannot be used"):
        Memory.open(path)


def test_who_only_asks_makes_no_file_and_changes_none(tmp_path):
    other, empty, missing = (tmp_path / name for name in ("other.sqlite", "empty.sqlite", "missing.sqlite"))
    with sqlite3.connect(other) as connection:
        connection.execute("create table accounts (number integer)")
    empty.touch()
    before = other.read_bytes()
    for path in (other, empty, missing):
        with pytest.raises(UsageError, match="cannot be used"):
            Memory.open(path, make=False)
    assert (other.read_bytes(), empty.read_bytes(), missing.exists()) == (before, b"", False)


def test_a_file_whose_name_means_something_in_an_address_is_opened(tmp_path):
    memory = Memory.open(tmp_path / "a?mode=memory#%41.sqlite")
    memory.add(record(1))
    memory.close()
    assert [path.name for path in tmp_path.iterdir()] == ["a?mode=memory#%41.sqlite"]


def test_a_memory_in_use_is_waited_for_and_then_told(tmp_path):
    path = tmp_path / "memory.sqlite"
    memory = Memory.open(path)
    memory.add(record(1))
    memory.store._connection.execute("pragma busy_timeout = 1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin exclusive")
    with pytest.raises(InfrastructureError, match="wait for whoever uses it"):
        memory.query(MemoryQuery())
    other.close()
