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


def test_the_blocking_face_says_what_is_wrong_where_it_cannot_work(make_spec, make_text_env):
    spec = make_spec(make_text_env())
    with SyncSandbox() as sandbox:
        env = sandbox.open(spec)

        async def ask_from_within():
            with pytest.raises(RuntimeError, match="on its own event loop"):
                env.reset(0)

        vars(sandbox)["_thread"].run(ask_from_within())
        env.reset(0)
    env.close()
    with pytest.raises(RuntimeError, match="it is closed"):
        sandbox.open(spec)
