import gc
import sys

from spade_environments.inside import contract, rehearsal, worker


def test_a_rehearsal_plays_both_kinds_to_full_reward_and_leaves_no_module(monkeypatch):
    rewards = []
    real = worker.Worker.step

    def step(self, name, arguments, text):
        reply = real(self, name, arguments, text)
        rewards.append(reply["reward"])
        return reply

    monkeypatch.setattr(worker.Worker, "step", step)
    monkeypatch.setattr("spade_environments.inside.determinism.reseed", lambda seed: None)
    before = set(sys.modules)
    rehearsal.rehearse()
    assert rewards[:5] == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert "designed_environment" not in set(sys.modules) - before


def test_nothing_of_a_rehearsal_is_found_by_those_who_look_for_it(monkeypatch):
    monkeypatch.setattr("spade_environments.inside.determinism.reseed", lambda seed: None)
    rehearsal.rehearse()
    gc.collect()
    bases = (contract.TextEnv, contract.ToolEnv)
    assert {"Counting", "Shelf"}.isdisjoint(cls.__name__ for base in bases for cls in base.__subclasses__())
