from __future__ import annotations

import json

import pytest

from spade_agents.errors import CheckpointError
from spade_agents.policy.weights import check_weights, count_parameters


def weights(folder, *, data=b"\0" * 24, offsets=(0, 24)):
    header = {"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": offsets}}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    return folder


def test_whole_weights_pass_and_their_numbers_are_counted(tmp_path):
    check_weights(weights(tmp_path))
    assert count_parameters(tmp_path / "model.safetensors") == 6


def test_weights_that_are_missing_cut_short_or_too_long_are_told(tmp_path):
    with pytest.raises(CheckpointError, match="holds no weights"):
        check_weights(tmp_path)
    for data in (b"\0" * 23, b"\0" * 25):
        with pytest.raises(CheckpointError, match="it is damaged"):
            check_weights(weights(tmp_path, data=data))


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 8, (2).to_bytes(8, "little") + b"[]", (9).to_bytes(8, "little") + b'{"a": 1} ',
     (4).to_bytes(8, "little") + b"oops"],
)  # fmt: skip
def test_what_is_no_safetensors_file_is_told(tmp_path, content):
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="no safetensors file"):
        check_weights(tmp_path)
