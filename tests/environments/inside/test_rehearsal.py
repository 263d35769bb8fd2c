import sys

from spade_environments.inside import rehearsal, worker


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
