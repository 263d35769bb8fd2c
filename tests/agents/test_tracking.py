"""Metrics go on to a tracker where one is asked for; stand-ins for the libraries, which are not dependencies."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from spade_agents.errors import UsageError
from spade_agents.tracking import NoTracker, TrackioTracker, WandbTracker, check_tracker, numbers_of, open_tracker

ROW = {
    "kind": "rollout",
    "rollout": 3,
    "play": {"win_rate": 0.5, "outcomes": {"scored": 7}, "turns": None},
    "train": {"loss": -0.25},
    "design": {"alarms": ["one family"], "collapsed": True},
}


class Library(ModuleType):
    """As much of wandb and trackio as is used: runs that keep what they are sent, until they are told to fail."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, loader=None)
        self.opened: list[dict] = []
        self.rows: list[tuple[int, dict]] = []
        self.finished = 0
        self.broken = False

    def init(self, **arguments):
        self.opened.append(arguments)
        return self

    def Settings(self, **arguments):
        return arguments

    def log(self, numbers, step):
        if self.broken:
            raise ConnectionError("no route to host")
        self.rows.append((step, numbers))

    def finish(self):
        self.finished += 1


@pytest.fixture(params=["wandb", "trackio"])
def library(request, monkeypatch):
    made = Library(request.param)
    monkeypatch.setitem(sys.modules, request.param, made)
    return made


def config_of(library):
    return WandbTracker(project="p") if library.__name__ == "wandb" else TrackioTracker(project="p")


def opened(config, tmp_path, said):
    return open_tracker(
        config, name="nano", identity="abc", folder=tmp_path, settings={"run": {"seed": 1}}, say=said.append
    )


def test_the_numbers_of_a_row_are_named_by_their_paths_and_nothing_else_is_sent():
    assert numbers_of(ROW) == {"rollout": 3, "play/win_rate": 0.5, "play/outcomes/scored": 7, "train/loss": -0.25}
    evaluation = {"kind": "evaluation", "rollout": 4, "parts": {"known": {"win_rate": 0.5, "low": None}}}
    assert numbers_of(evaluation) == {"rollout": 4, "held_out/known/win_rate": 0.5}


def test_rows_reach_the_tracker_under_the_runs_own_identity(library, tmp_path):
    said: list[str] = []
    with opened(config_of(library), tmp_path, said) as tracker:
        tracker.log(ROW, 0)
        tracker.log(ROW, 1)
    (how,) = library.opened
    assert (how["project"], how["resume"], how["config"]) == ("p", "allow", {"run": {"seed": 1}})
    assert "abc" in (how.get("id"), how["name"].rpartition("-")[2])
    assert library.rows == [(0, numbers_of(ROW)), (1, numbers_of(ROW))]
    assert (library.finished, said) == (1, [])


def test_a_tracker_that_fails_is_told_once_and_the_run_goes_on(library, tmp_path):
    said: list[str] = []
    with opened(config_of(library), tmp_path, said) as tracker:
        library.broken = True
        tracker.log(ROW, 0)
        tracker.log(ROW, 1)
    assert len(said) == 1
    assert "no route to host" in said[0]
    assert "metrics.jsonl" in said[0]


def test_without_a_tracker_nothing_is_imported(tmp_path):
    with opened(NoTracker(), tmp_path, []) as tracker:
        tracker.log(ROW, 0)
    assert "wandb" not in sys.modules


def test_a_tracker_that_is_not_installed_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install trackio, or set metrics\.tracker\.type=none"):
        check_tracker(TrackioTracker())
