"""Tokens a second of the trainer on a nano-sized model: precision, threads, attention, engine.

    python benchmarks/training.py [--quick]

Every row trains the same samples (100 to 700 tokens, four fifths of them sampled) in one process; the ratios are
of tokens per second of processor time, which other work on the machine disturbs least, against a plain fp32 loop with
the library's attention and logits at every position, under equal threads.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from spade_agents.training.config import DeepSpeedEngineConfig, Precision, TorchEngineConfig
from spade_agents.training.deepspeed_engine import DeepSpeedEngine
from spade_agents.training.torch_engine import TorchEngine
from spade_agents.trajectory import Role, TrainingSample

VOCABULARY = 1000


def nano_sized() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=6,
        intermediate_size=512,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config)


def samples(count: int) -> list[TrainingSample]:
    rng = random.Random(0)
    made = []
    for index in range(count):
        length = rng.randint(100, 700)
        prompt = length // 5
        made.append(
            TrainingSample(
                token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(length)),
                mask=(False,) * prompt + (True,) * (length - prompt),
                logprobs=(0.0,) * prompt + (-6.9,) * (length - prompt),
                advantage=1.0 - 2.0 * (index % 2),
                role=Role.AGENT,
                group="e",
            )
        )
    return made


def plain_step(chosen: list[TrainingSample], precision: Precision) -> Callable[[], None]:
    """What a straightforward loop does: padded rows in the order given, full logits, the library's attention."""
    model = nano_sized()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def step() -> None:
        for start in range(0, len(chosen), 8):
            rows = chosen[start : start + 8]
            width = max(len(row.token_ids) for row in rows)
            ids = torch.tensor([row.token_ids + (0,) * (width - len(row.token_ids)) for row in rows])
            mask = torch.tensor([row.mask + (False,) * (width - len(row.mask)) for row in rows])
            real = torch.tensor([[1] * len(row.token_ids) + [0] * (width - len(row.token_ids)) for row in rows])
            with torch.autocast("cpu", torch.bfloat16, enabled=precision is Precision.BF16):
                logits = model(input_ids=ids, attention_mask=real, use_cache=False).logits[:, :-1]
            losses = cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
            (losses * mask[:, 1:].flatten()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(step: Callable[[], object], tokens: int, repeats: int) -> tuple[float, float]:
    """Tokens per second of wall clock and of processor time, the best of the repeats."""
    step()
    best_wall, best_cpu = float("inf"), float("inf")
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        best_wall = min(best_wall, time.perf_counter() - wall)
        best_cpu = min(best_cpu, time.process_time() - cpu)
    return tokens / best_wall, tokens / best_cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer samples and repeats")
    quick = parser.parse_args().quick
    chosen = samples(16 if quick else 64)
    tokens, repeats = sum(len(row.token_ids) for row in chosen), 2 if quick else 4
    figures: dict[str, dict[str, float]] = {}
    print(f"{'trainer':<28} {'threads':>7} {'tokens/s':>9} {'per CPU s':>9} {'ratio':>6}")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        base = 0.0
        for name, step in steps(chosen):
            wall, cpu = measure(step, tokens, repeats)
            base = base or cpu
            figures[f"{name}, {threads} threads"] = {"tokens_per_s": wall, "per_cpu_s": cpu, "ratio": cpu / base}
            print(f"{name:<28} {threads:>7} {wall:>9.0f} {cpu:>9.0f} {cpu / base:>6.2f}", flush=True)
    print(json.dumps({"benchmark": "training", "quick": quick, "tokens": tokens, "figures": figures}))


def steps(chosen: list[TrainingSample]) -> list[tuple[str, Callable[[], object]]]:
    rows: list[tuple[str, Callable[[], object]]] = []
    for precision in Precision:
        config = TorchEngineConfig(precision=precision)
        engine = TorchEngine(nano_sized(), config)
        rows.append((f"plain loop, {precision}", plain_step(chosen, precision)))
        rows.append((f"torch engine, {precision}", lambda engine=engine: engine.update(chosen)))
    zero = DeepSpeedEngine(nano_sized(), replace(DeepSpeedEngineConfig(), precision=Precision.BF16))
    rows.append(("deepspeed ZeRO-2, bf16", lambda: zero.update(chosen)))
    return rows


if __name__ == "__main__":
    main()
