"""Useful tokens a second of our sampler against transformers' `generate`: same model, prompts, lengths and threads.

Eight prompts of 256 tokens, eight samples each, with forced ragged lengths (mean 64, at most 256). Useful tokens are
those up to each row's own end. Run `python benchmarks/sampling.py [--quick] [--threads N]`.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, LogitsProcessorList

from spade_agents.policy.llama import Llama, LlamaShape
from spade_agents.policy.sampler import Sampled, Sampler, SampleRequest

END = 2
NANO = {
    "vocab_size": 1280,
    "hidden_size": 192,
    "intermediate_size": 512,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
}


def lengths(count: int, mean: int, longest: int) -> list[int]:
    """Ragged lengths with exactly that mean and maximum: exponential, as ends are when each token may end a row."""
    source = random.Random(0)
    drawn = sorted(min(longest, 1 + int(source.expovariate(1 / mean))) for _ in range(count))
    drawn[-1] = longest
    index = 0
    while (excess := sum(drawn) - count * mean) != 0:
        place = index % (count - 1)
        moved = drawn[place] + (-1 if excess > 0 else 1)
        drawn[place] = min(longest, max(1, moved))
        index += 1
    source.shuffle(drawn)
    return drawn


class Clock(NamedTuple):
    """Seconds on the wall, and of this process's CPU time, which other load does not stretch."""

    wall: float
    cpu: float


def now() -> Clock:
    return Clock(time.perf_counter(), time.process_time())


def elapsed(start: Clock) -> Clock:
    end = now()
    return Clock(end.wall - start.wall, end.cpu - start.cpu)


class ForcedEnds:
    """Lets row i end exactly at its length, so that both sides sample the same number of useful tokens."""

    def __init__(self, ends: list[int], prompt: int) -> None:
        self.ends = torch.tensor(ends)
        self.prompt = prompt

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores[:, END] = -torch.inf
        ending = self.ends == ids.shape[1] - self.prompt + 1
        scores[ending] = -torch.inf
        scores[ending, END] = 0.0
        return scores


def run_generate(model: Any, prompts: list[list[int]], samples: int, ends: list[int]) -> Clock:
    ids = torch.tensor(prompts).repeat_interleave(samples, 0)
    start = now()
    with torch.inference_mode():
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=max(ends),
            eos_token_id=END,
            pad_token_id=0,
            logits_processor=LogitsProcessorList([ForcedEnds(ends, ids.shape[1])]),
        )
    return elapsed(start)


def run_sampler(llama: Llama, prompts: list[list[int]], samples: int, ends: list[int]) -> tuple[Clock, list[Sampled]]:
    rows = [tuple(prompt) for prompt in prompts for _ in range(samples)]
    sampler = Sampler(llama)
    start = now()
    results = sampler.run(
        [
            SampleRequest(prompt=row, max_tokens=end, seed=number)
            for number, (row, end) in enumerate(zip(rows, ends, strict=True))
        ]
    )
    return elapsed(start), results


def worst_difference(model: Any, prompts: list[list[int]], samples: int, results: list[Sampled]) -> float:
    """Largest difference between our log-probabilities and those of the transformers model, over all tokens."""
    worst = 0.0
    for number, result in enumerate(results):
        prompt = prompts[number // samples]
        ids = torch.tensor([prompt + list(result.token_ids)])
        with torch.inference_mode():
            logprobs = model(ids).logits.float().log_softmax(-1)[0, len(prompt) - 1 : -1]
        theirs = logprobs.gather(1, ids[0, len(prompt) :, None])[:, 0]
        worst = max(worst, float((theirs - torch.tensor(result.logprobs)).abs().max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repetition instead of three")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", type=Path, help="a Llama folder; without it, nano's shape with random weights")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    if options.model:
        model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    else:
        model = LlamaForCausalLM(LlamaConfig(**NANO, initializer_range=0.1)).eval()
    samples, repetitions = 8, 1 if options.quick else 3
    ends = lengths(8 * samples, 64, 256)
    prompts = torch.randint(3, model.config.vocab_size, (8, 256)).tolist()
    llama = Llama(LlamaShape.from_config(model.config.to_dict()), model.state_dict())
    run_sampler(llama, prompts[:1], 1, [8])
    run_generate(model, prompts[:1], 1, [8])
    ours: list[Clock] = []
    theirs: list[Clock] = []
    for _ in range(repetitions):  # interleaved, so that both meet the same load
        clock, results = run_sampler(llama, prompts, samples, ends)
        ours.append(clock)
        theirs.append(run_generate(model, prompts, samples, ends))
    report(ours, theirs, sum(ends), options.threads, worst_difference(model, prompts, samples, results))


def report(ours: list[Clock], theirs: list[Clock], useful: int, threads: int, worst: float) -> None:
    print(f"{'sampler':<12}{'seconds':>10}{'cpu':>10}{'tokens/s':>12}")
    fastest = {}
    for name, clocks in (("ours", ours), ("generate", theirs)):
        best = Clock(min(clock.wall for clock in clocks), min(clock.cpu for clock in clocks))
        fastest[name] = best
        print(f"{name:<12}{best.wall:>10.2f}{best.cpu:>10.2f}{useful / best.wall:>12.1f}")
    figures = {
        "benchmark": "sampling",
        "threads": threads,
        "useful_tokens": useful,
        "ours_tokens_per_second": round(useful / fastest["ours"].wall, 1),
        "generate_tokens_per_second": round(useful / fastest["generate"].wall, 1),
        "ratio": round(fastest["generate"].wall / fastest["ours"].wall, 2),
        "cpu_ratio": round(fastest["generate"].cpu / fastest["ours"].cpu, 2),
        "worst_logprob_difference": worst,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
