"""Log-probabilities at trained positions equal those of the full logits."""

from __future__ import annotations

import pytest
import torch

from spade_agents.errors import PolicyError
from spade_agents.training.batch import collate
from spade_agents.training.config import Precision
from spade_agents.training.forward import TrainableForward
from tests.agents.training.toy import toy_llama, toy_samples


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_log_probabilities_are_those_of_the_librarys_full_logits_at_the_sampling_temperature(temperature):
    samples = toy_samples(5, temperature=temperature)
    library, expected = toy_llama(), []
    for sample in samples:
        ids = torch.tensor([sample.token_ids])
        scores = (library(input_ids=ids).logits[0] / temperature).log_softmax(-1)
        expected += [scores[p - 1, sample.token_ids[p]] for p, chosen in enumerate(sample.mask) if chosen]
    tokens = collate(samples, [temperature] * len(samples))
    torch.testing.assert_close(TrainableForward(toy_llama())(*tokens), torch.stack(expected), atol=1e-5, rtol=1e-4)


def test_bf16_stays_close_to_fp32_and_returns_fp32():
    tokens = collate(toy_samples(5))
    exact = TrainableForward(toy_llama())(*tokens)
    coarse = TrainableForward(toy_llama(), Precision.BF16)(*tokens)
    assert coarse.dtype is torch.float32
    assert not torch.equal(exact, coarse)
    torch.testing.assert_close(coarse, exact, atol=0.15, rtol=0.05)


def test_a_model_that_changes_its_logits_after_the_head_is_refused():
    model = toy_llama()
    model.config.final_logit_softcapping = 30.0
    with pytest.raises(PolicyError, match="final_logit_softcapping"):
        TrainableForward(model)
