"""Faults of a weight sync, one by one: each is refused and named; a true sync is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from spade_agents.policy.arrival import (
    Arrival,
    ArrivalError,
    ProvingPolicy,
    TensorSum,
    check_arrival,
    check_canary,
    tensor_sums,
)
from spade_agents.policy.hf_policy import HfPolicy
from spade_agents.rendering import HermesRenderer
from tests.agents.policy.test_hf_policy import qwen
from tests.agents.tiny import tokenizer

QUERY, KEY = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"
CANARY = list(range(20, 60))


def copied(seed: int) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in qwen(seed=seed).state_dict().items()}


class Engine:
    """An engine beside the trainer: named tensors, a head packed from the tied embedding, and a prefix cache.

    `fault` names what goes wrong in a sync.
    """

    def __init__(self, fault: str = "", dtype: torch.dtype = torch.float32) -> None:
        self.fault, self.dtype = fault, dtype
        self.held = {name: tensor.to(dtype) for name, tensor in copied(seed=0).items()}
        self.head = self.held["lm_head.weight"].clone()
        self.version, self.prefixes = 0, 3

    def sync(self, state, version: int) -> None:
        sent = {name: tensor.to(self.dtype, copy=True) for name, tensor in state.items()}
        match self.fault:
            case "dropped":
                del self.held[QUERY], sent[QUERY]
            case "stale":
                del sent[QUERY]
            case "size zero":
                sent[QUERY] = sent[QUERY][:0]
            case "misshapen":
                sent[QUERY] = sent[QUERY][:-1]
            case "swapped":
                sent[QUERY], sent[KEY] = sent[KEY], sent[QUERY]
            case "one bit":
                sent[QUERY][0, 0] += 2e-3
            case "nothing":
                return
        self.held |= sent
        self.version = version
        if self.fault != "stale packed head":
            self.head = self.held["lm_head.weight"].clone()
        if self.fault != "cache not reset":
            self.prefixes = 0

    def arrival(self) -> Arrival:
        return Arrival(
            version=self.version, dtype=self.dtype, sums=tensor_sums(self.held, self.dtype), prefixes=self.prefixes
        )

    def score(self, ids) -> list[float]:
        """By the packed head, as it would sample."""
        model = qwen().to(self.dtype)
        model.load_state_dict(self.held)
        with torch.inference_mode():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0, :-1]
            logprobs = (hidden @ self.head.T).float().log_softmax(-1)
        return logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


def trainer(state) -> list[float]:
    model = qwen()
    model.load_state_dict(state)
    with torch.inference_mode():
        logprobs = model(torch.tensor([CANARY])).logits[0, :-1].log_softmax(-1)
    return logprobs.gather(1, torch.tensor(CANARY[1:])[:, None])[:, 0].tolist()


def prove(engine: Engine, state, version: int = 1) -> float:
    engine.sync(state, version)
    check_arrival(state, version, engine.arrival())
    return check_canary(trainer(state), engine.score(CANARY), tolerance=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_arrived_are_not_refused(dtype):
    engine = Engine(dtype=dtype)
    state = copied(seed=1)
    engine.sync(state, 1)
    check_arrival(state, 1, engine.arrival())
    assert check_canary(trainer(state), engine.score(CANARY), tolerance=0.2) < 0.2


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("dropped", rf"{QUERY} is missing"),
        ("stale", rf"{QUERY} holds other numbers"),
        ("size zero", rf"{QUERY} has size zero"),
        ("misshapen", rf"{QUERY} is \(31, 32\)"),
        ("swapped", rf"{QUERY} holds the numbers of {KEY}"),
        ("one bit", rf"{QUERY} holds other numbers"),
        ("stale packed head", r"packed lm_head\.weight"),
        ("cache not reset", "3 cached prefixes"),
        ("nothing", "version 0; version 1 was sent"),
    ],
)
def test_each_fault_is_refused_and_named(fault, told):
    with pytest.raises(ArrivalError, match=told):
        prove(Engine(fault), copied(seed=1))


def test_reloading_the_same_weights_hides_a_stale_head_so_others_are_needed():
    prove(Engine("stale packed head"), copied(seed=0))
    with pytest.raises(ArrivalError):
        prove(Engine("stale packed head"), copied(seed=1))


def test_a_canary_that_is_not_finite_or_not_whole_is_refused():
    with pytest.raises(ArrivalError, match="differ by nan"):
        check_canary([-1.0, -2.0], [-1.0, float("nan")], tolerance=0.1)
    for found in ([-1.0], []):
        with pytest.raises(ArrivalError, match=r"wanted 2"):
            check_canary([-1.0, -2.0], found, tolerance=0.1)
    assert check_canary([-1.0, -2.0], [-1.1, -2.0], tolerance=0.1) == pytest.approx(0.05)


def test_sums_tell_values_shapes_and_formats_apart():
    one = torch.arange(6.0)
    sums = tensor_sums({"a": one, "b": one.reshape(2, 3), "c": one + 1, "d": one[:0]}, torch.float32)
    assert sums["a"].sha256 == sums["b"].sha256 and sums["a"] != sums["b"]
    assert sums["a"].sha256 != sums["c"].sha256
    assert sums["d"] == TensorSum((0,), sums["d"].sha256)
    assert tensor_sums({"a": one}, torch.bfloat16)["a"] != sums["a"]
    assert tensor_sums({"a": one.reshape(2, 3).T.T.reshape(6)}, torch.float32)["a"] == sums["a"]


def test_the_policy_in_this_process_proves_what_it_holds():
    policy = HfPolicy(qwen(), HermesRenderer(tokenizer()))
    assert isinstance(policy, ProvingPolicy)
    state = copied(seed=3)
    policy.load_weights(state, version=4)
    check_arrival(state, 4, policy.arrival())
    state[QUERY] += 1e-3
    with pytest.raises(ArrivalError, match="other numbers"):
        check_arrival(state, 4, policy.arrival())
    with pytest.raises(ArrivalError, match="version 4"):
        check_arrival(state, 5, replace(policy.arrival(), prefixes=1))
    policy.close()
