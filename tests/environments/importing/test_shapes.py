"""What an import finds in a source, and that it reads and never runs it."""

from __future__ import annotations

import pytest

from spade_environments import SpecError
from spade_environments.importing import Shape, classes_in, imported, source_files
from spade_environments.registry import find
from tests.environments.importing import samples


@pytest.mark.parametrize(
    ("source", "name", "shape", "boxed", "turns", "solution"),
    [
        (samples.MARKET_SUM, "MarketSumEnv", Shape.GAME, True, 1, True),
        (samples.VALVE_ROOM, "ValveRoomEnv", Shape.GAME, True, 14, True),
        (samples.MINE_WALK, "MineWalkEnv", Shape.GAME, True, 12, False),
        (samples.STOCK_COUNT, "StockCountEnv", Shape.TOOLS, False, 20, True),
        (samples.SHELF_MOVES, "ShelfMovesEnv", Shape.TOOLS, False, 15, True),
        (samples.CAVE_TEXT, "CaveText", Shape.GYMNASIUM, False, 15, True),
        (samples.LIFT_GYM, "LiftEnv", Shape.GYMNASIUM, False, 20, True),
    ],
)
def test_each_shape_is_known_by_its_text(source, name, shape, boxed, turns, solution):
    (found,) = classes_in(source)
    assert (found.name, found.shape, found.boxed) == (name, shape, boxed)
    assert (found.max_turns, found.has_solution) == (turns, solution)


def test_a_source_that_would_hang_or_exit_is_only_read():
    assert len(classes_in("while True: pass\nraise SystemExit\n" + samples.MINE_WALK)) == 1


@pytest.mark.parametrize("source", ["def f(:", "x = '\0'", "(" * 300])
def test_a_source_that_does_not_parse_is_refused(source):
    with pytest.raises(SpecError, match="does not parse"):
        classes_in(source)


def test_an_environment_of_ours_is_told_to_be_certified():
    with pytest.raises(SpecError, match="spade env certify"):
        classes_in(find("word_machine").source)


def test_a_source_that_nests_too_deeply_is_refused():
    with pytest.raises(SpecError, match=r"parse|deeply"):
        classes_in(f"class A(a{'.b' * 9000}):\n    pass\n")


def test_other_classes_are_none():
    assert classes_in("class Env: pass\nclass Tool: pass\nclass _HiddenEnv:\n def reset(s): 0\n def step(s): 0\n") == ()
    assert classes_in("class HalfEnv:\n    def reset(self): pass\n") == ()


def test_a_base_of_another_environment_is_not_imported_for_itself():
    source = samples.MINE_WALK + "\n\nclass DeepMineEnv(MineWalkEnv):\n    max_turns = 99\n"
    (found,) = classes_in(source)
    assert (found.name, found.max_turns) == ("DeepMineEnv", 25)


def test_the_same_import_gives_the_same_id_and_its_source_stands_alone():
    (found,) = classes_in(samples.MARKET_SUM)
    one = imported(samples.MARKET_SUM, found, origin="a.py").spec
    other = imported(samples.MARKET_SUM, found, origin="elsewhere/b.py").spec
    assert one.id == other.id
    assert one.provenance["kind"] == "imported"
    assert one.name == "market_sum"
    assert "from math_verify" not in one.source
    for line in ("import re", "from typing import Tuple", "import parse, verify", "boxed=True, max_turns=1"):
        assert line in one.source


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("import gymnasium as gym", "from spade_environments.adapters import gymnasium as gym"),
        ("import gymnasium", "from spade_environments.adapters import gymnasium"),
        ("import gym", "from spade_environments.adapters import gymnasium as gym"),
        ("from gymnasium import Env, spaces", "from spade_environments.adapters.gymnasium import Env, spaces"),
        ("from gymnasium.core import Env", "from spade_environments.adapters.gymnasium import Env"),
        (
            "from gymnasium.spaces import Text as T",
            "from spade_environments.adapters.gymnasium.spaces import Text as T",
        ),
        ("from gym.utils import seeding", "from spade_environments.adapters.gymnasium.utils import seeding"),
        ("from a.b.tool_use_base_env import ToolUseBaseEnv", "from spade_environments.adapters import ToolUseBaseEnv"),
        ("import os, gymnasium", "import os"),
    ],
)
def test_foreign_imports_are_turned_to_what_the_adapters_lend(line, wanted):
    source = f"{line}\n{samples.MINE_WALK}"
    (found,) = classes_in(source)
    assert wanted in imported(source, found, origin="x.py").spec.source.splitlines()


def test_an_import_that_shares_its_line_is_refused_rather_than_mangled():
    source = f"import gym; LIMIT = 3\n{samples.MINE_WALK}"
    (found,) = classes_in(source)
    with pytest.raises(SpecError, match="shares its line"):
        imported(source, found, origin="x.py")


def test_a_module_is_found_by_its_name_without_running_it_or_its_package(tmp_path, monkeypatch):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "__init__.py").write_text("raise SystemExit('ran')\n")
    (tmp_path / "far" / "mines.py").write_text("raise SystemExit('ran')\n" + samples.MINE_WALK)
    monkeypatch.syspath_prepend(tmp_path)
    (file,) = source_files("far.mines:MineWalkEnv")
    assert (file.path, file.class_name) == (tmp_path / "far" / "mines.py", "MineWalkEnv")


@pytest.mark.parametrize(
    "target", ["", "nothing.py", "no_such_module_x:A", "json", "a b:C", "json:", "sys:X", "x" * 9000]
)
def test_a_target_that_names_nothing_says_what_can_be_given(target):
    with pytest.raises(SpecError):
        source_files(target)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no Python file"):
        source_files(str(tmp_path))
