"""What is remembered, and what is offered."""

import random
from dataclasses import replace

from spade_agents.designer.memory import Memory, MemoryRecord, MemorySettings
from spade_environments import Skill

RETRIEVAL, SELECTION = Skill.DATA_RETRIEVAL, Skill.TOOL_SELECTION


def record(number, *, skill=RETRIEVAL, win_rate=0.5, regret=0.1, rollout=0):
    source = f"class E{number}: pass\n"
    return MemoryRecord(
        environment_id=str(number), source=source, skill=skill, win_rate=win_rate, regret=regret, rollout=rollout
    )


def test_the_oldest_go_first_beyond_the_size():
    memory = Memory(settings=MemorySettings(size=2))
    for number in range(3):
        memory.add(record(number))
    assert [r.environment_id for r in memory.records] == ["1", "2"]


def test_candidates_share_the_skill_have_a_middling_win_rate_and_the_highest_regret():
    memory = Memory()
    memory.add(record(0, skill=SELECTION))
    memory.add(record(1, win_rate=0.14))
    memory.add(record(2, win_rate=0.86))
    for number in range(3, 15):
        memory.add(record(number, regret=number / 100))
    assert [r.environment_id for r in memory.candidates(RETRIEVAL)] == [str(n) for n in range(14, 4, -1)]


def test_an_unknown_regret_is_no_0_and_comes_last():
    memory = Memory(records=[record(1, regret=None), record(2, regret=-0.5)])
    assert [r.environment_id for r in memory.candidates(RETRIEVAL)] == ["2", "1"]
    assert Memory.from_jsonl(memory.to_jsonl(), memory.settings).records[0].regret is None


def test_only_the_latest_record_of_an_environment_counts():
    memory = Memory()
    memory.add(record(1, win_rate=0.5))
    memory.add(record(1, win_rate=0.95, rollout=4))
    assert memory.candidates(RETRIEVAL) == []


def test_two_seeds_are_drawn_and_none_when_memory_is_off():
    records = [record(n) for n in range(5)]
    on, off = Memory(records=records), Memory(settings=MemorySettings(enabled=False), records=records)
    assert len(on.seeds(RETRIEVAL, random.Random(0))) == 2
    assert on.seeds(RETRIEVAL, random.Random(0))[0].summary.startswith("E")
    assert off.seeds(RETRIEVAL, random.Random(0)) == ()


def test_memory_is_cut_back_to_a_rollout_and_goes_through_json():
    memory = Memory(records=[record(1), record(2, rollout=4)])
    memory.truncate(4)
    assert [r.environment_id for r in memory.records] == ["1"]
    assert Memory.from_jsonl(memory.to_jsonl(), memory.settings).records == memory.records


def test_a_source_with_line_separators_goes_through_json_whole():
    memory = Memory(records=[replace(record(1), source="x = '\u2028 \x85 \x0b \r'\n")])
    assert Memory.from_jsonl(memory.to_jsonl(), memory.settings).records == memory.records
