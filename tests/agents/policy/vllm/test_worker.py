"""The worker extension: what a packed matrix multiplies by is read exactly, whatever stands beside it."""

from __future__ import annotations

import pytest
import torch

from spade_agents.policy.vllm.inside.spade_vllm_worker import digest, served_tensors
from tests.agents.policy.vllm.worker import PADDED, VOCABULARY, MemoryWorker, weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_tensor_is_read_back_by_its_checkpoints_name(dtype):
    worker, wanted = MemoryWorker(dtype), weights()
    found = dict(served_tensors(worker.get_model()))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor.to(dtype)), name


def test_packed_matrices_have_no_other_copy_and_padding_is_left_out():
    model = MemoryWorker().get_model()
    assert model.model.layers[0].self_attn.qkv_proj.weight.numel() == 0
    assert model.model.embed_tokens.weight.shape[0] % PADDED == 0
    assert dict(served_tensors(model))["lm_head.weight"].shape[0] == VOCABULARY


def test_a_head_is_read_as_it_is_packed_and_an_embedding_as_it_is_looked_up():
    model = MemoryWorker().get_model()
    model.model.embed_tokens.weight[0, 0] += 1.0
    found = dict(served_tensors(model))
    assert float(found["model.embed_tokens.weight"][0, 0]) == pytest.approx(
        float(found["lm_head.weight"][0, 0]) + 1.0, abs=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_that_kernels_take_for_zero_count_as_zero(dtype):
    tiny = torch.finfo(dtype).smallest_normal
    zeros = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=dtype)
    assert digest(torch.tensor([-0.0, tiny / 2, -tiny / 2, 1.0], dtype=dtype), dtype) == digest(zeros, dtype)
    assert digest(torch.tensor([tiny, 0.0, 0.0, 1.0], dtype=dtype), dtype) != digest(zeros, dtype)
    assert digest(torch.tensor([0.0, 0.0, 0.0, float("nan")], dtype=dtype), dtype) != digest(zeros, dtype)
