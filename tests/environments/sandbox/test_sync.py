import threading

import pytest

from spade_environments import EnvironmentFault
from spade_environments.sandbox.sync import SyncSandbox


def test_the_blocking_face_plays_an_episode_and_leaves_no_thread(desk):
    with SyncSandbox() as sandbox:
        with sandbox.open(desk) as env:
            env.reset(2)
            gold = env.solution()
        with sandbox.open(desk, zygote=1) as env:
            assert (env.max_turns, env.description.base) == (20, "tool")
            env.reset(2)
            assert len(env.tools) == 2
            assert [env.step(action).reward for action in gold][-1] == 1.0
            assert "status" in env.hidden_values()["state"]
    assert "sandbox" not in [thread.name for thread in threading.enumerate()]


def test_the_blocking_face_raises_the_same_faults(make_spec):
    with SyncSandbox() as sandbox, pytest.raises(EnvironmentFault, match="reject in load"):
        sandbox.open(make_spec("def f(:"))
    sandbox.close()
