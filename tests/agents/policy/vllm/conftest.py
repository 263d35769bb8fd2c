"""A model's folder, and a server's API over a worker in memory."""

from __future__ import annotations

import pytest

from tests.agents.policy.vllm.standin import StandIn, serving
from tests.agents.policy.vllm.worker import tiny
from tests.agents.tiny import tokenizer


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    tiny().save_pretrained(made)
    tokenizer().inner.save(str(made / "tokenizer.json"))
    return made


@pytest.fixture
def standin():
    with serving(StandIn()) as found:
        yield found
