"""Liger's head behind our scores: a stand-in with its interface, one right and one as older releases were."""

from __future__ import annotations

import importlib.machinery
import sys
import types

import pytest
import torch
from torch.nn.functional import cross_entropy, linear

from spade_agents.errors import PolicyError, UsageError
from spade_agents.training.config import DeepSpeedEngineConfig, HeadKernel, TorchEngineConfig
from spade_agents.training.forward import Tokens, TrainableForward
from spade_agents.training.head import token_scores
from spade_agents.training.liger import chosen_scores, disagreement, liger_scores
from tests.agents.training.toy import toy_llama


class Fused:
    """The interface of LigerFusedLinearCrossEntropyLoss, as far as it is used."""

    def __init__(self, *, reduction: str, accum_dtype: torch.dtype) -> None:
        assert (reduction, accum_dtype) == ("none", torch.float32)

    def __call__(self, weight, hidden, targets):
        return cross_entropy(linear(hidden, weight).float(), targets, reduction="none")


class FirstTokensGradient(Fused):
    """Scales all gradients by the first token's upstream one."""

    def __call__(self, weight, hidden, targets):
        losses = super().__call__(weight, hidden, targets)
        losses.register_hook(lambda grad: grad[0].expand_as(grad))
        return losses


@pytest.fixture
def installed(monkeypatch):
    def install(kind: type[Fused]) -> None:
        for name in ("liger_kernel", "liger_kernel.transformers"):
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, module)
        sys.modules["liger_kernel.transformers"].LigerFusedLinearCrossEntropyLoss = kind

    return install


def test_scores_and_gradients_at_each_tokens_temperature_equal_torchs(installed):
    installed(Fused)
    assert disagreement("cpu") < 1e-5


def test_a_release_that_gives_all_tokens_the_firsts_gradient_is_noticed(installed):
    installed(FirstTokensGradient)
    assert disagreement("cpu") > 0.01


def test_a_models_head_scores_by_it(installed):
    installed(Fused)
    tokens = Tokens(
        torch.tensor([[1, 2, 3, 4]]), torch.tensor([0, 1, 3]), torch.tensor([2, 3, 5]), torch.tensor([0.6, 1.0, 1.3])
    )
    ours, theirs = (TrainableForward(toy_llama(), scores=scores) for scores in (token_scores, liger_scores))
    wanted, found = ours(*tokens), theirs(*tokens)
    torch.testing.assert_close(found, wanted)
    upstream = torch.tensor([1.0, -2.0, 0.5])
    wanted.backward(upstream)
    found.backward(upstream)
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-5, rtol=1e-4)


def test_a_head_with_a_bias_is_refused(installed):
    installed(Fused)
    with pytest.raises(PolicyError, match="bias"):
        liger_scores(torch.ones(1, 2), torch.ones(3, 2), torch.ones(3), torch.tensor([0]), torch.ones(1))


def test_on_a_cpu_auto_takes_torch_and_liger_is_a_settings_error():
    assert chosen_scores(TorchEngineConfig()) is token_scores
    assert chosen_scores(TorchEngineConfig(head_kernel=HeadKernel.AUTO)) is token_scores
    with pytest.raises(ValueError, match="head_kernel = liger on device = cpu; its kernels want device = cuda"):
        TorchEngineConfig(head_kernel=HeadKernel.LIGER)


def test_zero_3_takes_torch_and_refuses_liger():
    auto = DeepSpeedEngineConfig(head_kernel=HeadKernel.AUTO, zero_stage=3, device="cuda")
    assert chosen_scores(auto) is token_scores
    with pytest.raises(ValueError, match="zero_stage = 3"):
        DeepSpeedEngineConfig(head_kernel=HeadKernel.LIGER, zero_stage=3, device="cuda")


@pytest.mark.parametrize("kernel", [HeadKernel.LIGER, HeadKernel.AUTO])
def test_where_it_is_not_installed_liger_is_an_error_and_auto_is_torch(monkeypatch, kernel):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = TorchEngineConfig(head_kernel=kernel, device="cuda")
    if kernel is HeadKernel.AUTO:
        assert chosen_scores(config) is token_scores
    else:
        with pytest.raises(UsageError, match=r"not installed: pip install 'spade-agents\[liger\]'"):
            chosen_scores(config)


def on_this_cpu(monkeypatch) -> None:
    """As if the CPU were the GPU that the settings name."""
    monkeypatch.setattr("spade_agents.training.liger.disagreement", lambda device: disagreement("cpu"))


def test_where_it_agrees_with_torch_it_is_taken(installed, monkeypatch):
    installed(Fused)
    on_this_cpu(monkeypatch)
    for kernel in (HeadKernel.LIGER, HeadKernel.AUTO):
        assert chosen_scores(TorchEngineConfig(head_kernel=kernel, device="cuda")) is liger_scores


def test_where_it_differs_liger_is_an_error_that_says_by_how_much(installed, monkeypatch):
    installed(FirstTokensGradient)
    on_this_cpu(monkeypatch)
    with pytest.raises(UsageError, match=r"differs from torch by .*; wanted below 0\.005: pip install --upgrade"):
        chosen_scores(TorchEngineConfig(head_kernel=HeadKernel.LIGER, device="cuda"))
    assert chosen_scores(TorchEngineConfig(head_kernel=HeadKernel.AUTO, device="cuda")) is token_scores


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_drivers_words_are_told(installed):
    installed(Fused)
    with pytest.raises(UsageError, match="its kernels do not run on cuda"):
        chosen_scores(TorchEngineConfig(head_kernel=HeadKernel.LIGER, device="cuda"))
