"""Scores in chunks equal the softmax over all logits, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from spade_agents.errors import PolicyError
from spade_agents.training import head
from spade_agents.training.head import ScoringHead, score_head, token_scores
from tests.agents.training.toy import toy_llama

ROWS, WIDTH, VOCABULARY = 11, 5, 17


def tensors(dtype=torch.float64, *, bias: bool = True):
    torch.manual_seed(0)
    hidden = torch.randn(ROWS, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype, requires_grad=True)
    shift = torch.randn(VOCABULARY, dtype=dtype, requires_grad=True) if bias else None
    return hidden, weight, shift, torch.randint(0, VOCABULARY, (ROWS,)), torch.rand(ROWS) + 0.5


def plain(hidden, weight, bias, targets, temperatures):
    logits = nn.functional.linear(hidden, weight, bias)
    return (logits / temperatures[:, None]).log_softmax(-1).gather(1, targets[:, None])[:, 0]


@pytest.fixture(params=["one chunk", "many chunks"])
def chunks(request, monkeypatch):
    if request.param == "many chunks":
        monkeypatch.setattr(head, "_CHUNK", {"cpu": 3 * VOCABULARY})
        monkeypatch.setattr(head, "_BLOCK", 2 * VOCABULARY)
    return request.param


@pytest.mark.parametrize("bias", [True, False])
def test_scores_and_their_gradients_equal_the_plain_softmaxs(chunks, bias):
    given = tensors(bias=bias)
    leaves = [tensor for tensor in given[:3] if tensor is not None]
    ours, theirs = token_scores(*given), plain(*given)
    torch.testing.assert_close(ours, theirs)
    grad = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, leaves, grad), torch.autograd.grad(theirs, leaves, grad), strict=True):
        torch.testing.assert_close(a, b)


def test_a_score_worked_out_by_hand():
    hidden, weight = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 9.0], [0.0, 9.0]])
    score = token_scores(hidden, weight, None, torch.tensor([0]), torch.tensor([0.5]))
    # Logits 2 and 0 at temperature 0.5: 4 and 0.
    assert score.item() == pytest.approx(-0.018149927917809738, abs=1e-7)


def test_gradients_agree_with_finite_differences(chunks):
    hidden, weight, bias, targets, temperatures = tensors()
    assert torch.autograd.gradcheck(
        lambda *leaves: token_scores(*leaves, targets, temperatures.double()), (hidden, weight, bias)
    )


def test_the_backward_pass_can_be_run_twice(chunks):
    hidden, *rest = tensors()
    scores = token_scores(hidden, *rest)
    (first,) = torch.autograd.grad(scores.sum(), hidden, retain_graph=True)
    (second,) = torch.autograd.grad(scores.sum(), hidden)
    assert torch.equal(first, second)


def test_a_frozen_weight_gets_no_gradient():
    hidden, weight, _, targets, temperatures = tensors(bias=False)
    frozen = weight.detach()
    token_scores(hidden, frozen, None, targets, temperatures).sum().backward()
    assert hidden.grad is not None
    assert frozen.grad is None


def test_bf16_products_give_fp32_scores_and_a_weight_gradient_summed_in_fp32(monkeypatch):
    hidden, weight, _, targets, temperatures = tensors(torch.bfloat16, bias=False)
    monkeypatch.setattr(head, "_CHUNK", {"cpu": VOCABULARY})
    scores = token_scores(hidden, weight, None, targets, temperatures)
    assert scores.dtype is torch.float32
    scores.sum().backward()
    exact = plain(
        hidden.detach().float(), exact_weight := weight.detach().float().requires_grad_(), None, targets, temperatures
    )
    exact.sum().backward()
    torch.testing.assert_close(scores, exact.detach(), atol=0.05, rtol=0.02)
    torch.testing.assert_close(weight.grad.float(), exact_weight.grad, atol=0.05, rtol=0.02)


def test_a_large_vocabulary_is_never_materialised():
    hidden, weight = torch.randn(300, 2, requires_grad=True), torch.randn(152_000, 2, requires_grad=True)
    targets, temperatures = torch.zeros(300, dtype=torch.long), torch.ones(300)
    with torch.autograd.profiler.profile(use_cpu=True, profile_memory=True) as profile:
        token_scores(hidden, weight, None, targets, temperatures).sum().backward()
    largest = max(event.cpu_memory_usage for event in profile.function_events)
    assert 0 < largest <= 4 * head._CHUNK["cpu"] < 4 * 300 * 152_000


def test_a_models_head_still_gives_logits_and_is_changed_once():
    model = toy_llama()
    ids = torch.tensor([[1, 2, 3]])
    before = model(input_ids=ids).logits
    score_head(model)
    score_head(model)
    assert type(model.lm_head) is ScoringHead
    assert torch.equal(model(input_ids=ids).logits, before)


def test_a_head_of_another_kind_is_refused():
    model = toy_llama()
    model.lm_head = nn.Sequential(nn.Linear(16, 31))
    with pytest.raises(PolicyError, match=r"Sequential; wanted nn\.Linear"):
        score_head(model)
