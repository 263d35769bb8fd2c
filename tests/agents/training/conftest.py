"""Fixtures of the training tests."""

from __future__ import annotations

import pytest

from tests.agents.training.toy import toy_llama


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("toy") / "model"
    toy_llama().save_pretrained(folder)
    return str(folder)
