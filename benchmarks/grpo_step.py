"""Seconds and memory of one GRPO step, ours against TRL's GRPOTrainer: sampling, loss, optimiser and new weights.

    python benchmarks/grpo_step.py [--quick] [--threads N] [--model FOLDER]      (needs the `bench` extra)

Both sides get the same model, prompts, number of samples and lengths (every completion is as long as allowed), bf16
weights, no KL penalty and one optimiser step; ours with fp32 masters stands beside them. Each side is a process of its
own, peak memory its peak resident set; steps alternate, so that all meet the same load, and the first is not counted.
Sampling and training are shown in seconds of processor time, and training's share of what matrix products reach in it.
Two models: SmolLM2-135M, and one of 7M weights with its vocabulary of 49,152.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

SMOLLM2 = Path.home() / ".cache/spade-agents/models/smollm2"
SIDES = ("ours", "trl", "ours, fp32 masters")
STEPS = {"7M": 3, "135M": 2}
"""Counted steps of each model: on two quiet cores all of it ends within a quarter of an hour."""
SEVEN_MILLION = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4}


def main() -> None:
    options = arguments()
    if options.worker:
        {"trl": trl_worker}.get(options.worker, our_worker)(options)
        return
    figures: dict[str, Any] = {"benchmark": "grpo_step", "quick": options.quick, "threads": options.threads}
    with tempfile.TemporaryDirectory() as scratch:
        models = {"7M": lambda: seven_million(options.model, Path(scratch)), "135M": lambda: options.model}
        for name in options.models:
            steps = options.steps or (1 if options.quick else STEPS[name])
            figures[name] = compare(models[name](), argparse.Namespace(**{**vars(options), "steps": steps}))
            report(name, figures[name])
    print(json.dumps(figures))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one counted step of 2 prompts x 4 samples")
    parser.add_argument("--model", type=Path, default=SMOLLM2, help="a Llama folder with its tokenizer")
    parser.add_argument("--models", nargs="+", choices=("7M", "135M"), default=["7M", "135M"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8, help="of each prompt")
    parser.add_argument("--new", type=int, default=64, help="sampled tokens")
    parser.add_argument("--prompt", type=int, default=141, help="tokens of a prompt")
    parser.add_argument("--steps", type=int, help="counted steps, instead of the usual number")
    parser.add_argument("--rows", type=int, default=8, help="TRL's rows in a micro-batch")
    parser.add_argument("--budget", type=int, default=1024, help="our tokens in a micro-batch")
    parser.add_argument("--worker", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.prompts, options.samples = min(options.prompts, 2), min(options.samples, 4)
    return options


def compare(model: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Alternate the sides' steps; their figures, and ours over TRL's."""
    workers = {side: start(side, model, options) for side in SIDES}
    try:
        rounds = [{side: step(worker) for side, worker in workers.items()} for _ in range(options.steps + 1)][1:]
    finally:
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    sides = {side: {key: median(row[side][key] for row in rounds) for key in rounds[0][side]} for side in SIDES}
    for side in SIDES:
        sides[side]["peak_mb"] = max(row[side]["peak_mb"] for row in rounds)
    ours, peer = sides["ours"], sides["trl"]
    ratios = {key: median(row["ours"][key] / row["trl"][key] for row in rounds) for key in ("seconds", "cpu_seconds")}
    return {"sides": sides, "ratios": {**ratios, "peak_mb": ours["peak_mb"] / peer["peak_mb"]}}


def start(side: str, model: Path, options: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", side, "--model", str(model)]
    for name in ("threads", "prompts", "samples", "new", "prompt", "steps", "rows", "budget"):
        command += [f"--{name}", str(getattr(options, name))]
    calm = {"OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        command, env=os.environ | calm | quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def step(worker: subprocess.Popen[str]) -> dict[str, float]:
    """Let a worker take a step."""
    worker.stdin.write("step\n")
    worker.stdin.flush()
    for line in worker.stdout:
        if line.startswith("STEP "):
            return json.loads(line[5:])
    sys.exit(f"a worker ended before its step was done: {' '.join(worker.args)}")


class Meter:
    """Waits for the word, then tells how long the step took and the most memory this process ever had."""

    def wait(self) -> None:
        if not sys.stdin.readline():
            sys.exit(0)
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def tell(self, **more: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        spent = {"seconds": time.perf_counter() - self.wall, "cpu_seconds": time.process_time() - self.cpu}
        print("STEP " + json.dumps(spent | {"peak_mb": peak} | more), flush=True)


def prompts(model: Path, options: argparse.Namespace) -> list[str]:
    """Different words from the first on, each prompt of exactly the length asked for."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    source, made = random.Random(0), []
    words = ("lamp", "river", "seven", "orange", "because", "quick", "under", "table", "music", "garden", "winter")
    while len(made) < options.prompts:
        text = " ".join(source.choice(words) for _ in range(2 * options.prompt))
        text = tokenizer.decode(tokenizer(text)["input_ids"][: options.prompt])
        if len(tokenizer(text)["input_ids"]) == options.prompt:
            made.append(text)
    return made


def rewards(count: int) -> list[float]:
    """Half of each group wins: no group is dropped."""
    return [float(index % 2) for index in range(count)]


def trl_worker(options: argparse.Namespace) -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    meter = Meter()

    class Metered(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            meter.wait()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            meter.tell()

    rows = options.prompts * options.samples
    batch = min(options.rows, rows)
    with tempfile.TemporaryDirectory() as scratch:
        config = GRPOConfig(
            output_dir=scratch,
            use_cpu=True,
            bf16=True,
            model_init_kwargs={"dtype": "bfloat16"},
            gradient_checkpointing=False,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=rows // batch,
            num_generations=options.samples,
            max_completion_length=options.new,
            generation_kwargs={"min_new_tokens": options.new},
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            beta=0.0,
            epsilon_high=0.28,
            learning_rate=1e-6,
            max_steps=options.steps + 1,
            shuffle_dataset=False,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        data = Dataset.from_list([{"prompt": text} for text in prompts(options.model, options)] * (options.steps + 1))
        GRPOTrainer(
            model=str(options.model),
            reward_funcs=lambda completions, **_: rewards(len(completions)),
            args=config,
            train_dataset=data,
            callbacks=[Metered()],
        ).train()


def our_worker(options: argparse.Namespace) -> None:
    import torch
    from transformers import AutoTokenizer

    from spade_agents.policy.llama import Llama, LlamaShape, read_state
    from spade_agents.policy.sampler import Sampler, SampleRequest, SamplerLimits
    from spade_agents.training import Precision, TorchEngineConfig, open_engine

    torch.set_num_threads(options.threads)
    masters = options.worker == "ours, fp32 masters"
    precision = Precision.BF16 if masters else Precision.BF16_WEIGHTS
    engine = open_engine(TorchEngineConfig(precision=precision, token_budget=options.budget), options.model)
    shape = LlamaShape.from_config(json.loads((options.model / "config.json").read_text()))
    limits = SamplerLimits(rows=options.prompts * options.samples)
    sampler = Sampler(Llama(shape, read_state(options.model), dtype=torch.bfloat16), limits)
    tokenizer = AutoTokenizer.from_pretrained(options.model, local_files_only=True)
    texts = [tuple(tokenizer(text)["input_ids"]) for text in prompts(options.model, options)]
    peak = matmul_peak()
    meter = Meter()
    for number in range(options.steps + 1):
        meter.wait()
        sampled = sampler.run(
            [
                SampleRequest(prompt=text, max_tokens=options.new, seed=1000 * number + index)
                for index, text in enumerate(text for text in texts for _ in range(options.samples))
            ]
        )
        drawn = time.process_time()
        samples = training_samples(texts, sampled, options.samples)
        engine.update(samples)
        trained = time.process_time()
        sampler.load(engine.state_dict())
        share = training_flops(shape, samples, options.budget) / (trained - drawn) / peak
        meter.tell(
            sampling_cpu=drawn - meter.cpu, training_cpu=trained - drawn, share_of_peak=share, peak_gflops=peak / 1e9
        )


def training_samples(texts: list[tuple[int, ...]], sampled: list[Any], each: int) -> list[Any]:
    from spade_agents.training import group_advantages
    from spade_agents.trajectory import Role, TrainingSample

    advantages = group_advantages(rewards(each))
    blank = TrainingSample(token_ids=(), mask=(), logprobs=(), advantage=0.0, role=Role.AGENT, group="")
    return [
        replace(
            blank,
            token_ids=(*texts[row // each], *one.token_ids),
            mask=(False,) * len(texts[row // each]) + (True,) * len(one.token_ids),
            logprobs=(0.0,) * len(texts[row // each]) + one.logprobs,
            advantage=advantages[row % each],
            group=str(row // each),
        )
        for row, one in enumerate(sampled)
    ]


def matmul_peak() -> float:
    """Operations of bf16 products a second of processor time, the best of several: other load hardly moves it."""
    import torch

    size, best = 1536, 0.0
    first, second = (torch.randn(size, size).to(torch.bfloat16) for _ in range(2))
    for _ in range(6):
        began = time.process_time()
        first @ second
        best = max(best, 2 * size**3 / (time.process_time() - began))
    return best


def training_flops(shape: Any, samples: list[Any], budget: int) -> float:
    """Of the forward and backward pass over the tokens that are computed, each product once forward, twice backward."""
    from spade_agents.training import Normalisation
    from spade_agents.training.batch import micro_batches

    batches = micro_batches(samples, token_budget=budget, normalisation=Normalisation.SAMPLE_MEAN)
    heads = shape.heads * shape.head_size
    attention = shape.hidden * (2 * heads + 2 * shape.kv_heads * shape.head_size)
    layer = attention + 3 * shape.hidden * shape.intermediate
    tokens = sum(batch.tokens.input_ids.numel() for batch in batches)
    scored = sum(batch.tokens.targets.numel() for batch in batches)
    seen = sum(int(batch.tokens.layout.mask().sum()) for batch in batches)
    return 6.0 * (shape.layers * (layer * tokens + 2 * heads * seen) + shape.vocabulary * shape.hidden * scored)


def seven_million(source: Path, folder: Path) -> Path:
    """Random weights with the tokenizer of another model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        **SEVEN_MILLION,
        vocab_size=49_152,
        intermediate_size=384,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, folder / name)
    return folder


def report(name: str, figures: dict[str, Any]) -> None:
    print(f"{name:<20}{'s/step':>9}{'CPU s':>9}{'sampling':>10}{'training':>10}{'peak MB':>9}{'of matmul peak':>16}")
    for side, row in figures["sides"].items():
        more = f"{row['sampling_cpu']:>10.2f}{row['training_cpu']:>10.2f}" if "sampling_cpu" in row else " " * 20
        share = f"{row['share_of_peak']:>16.0%}" if "sampling_cpu" in row else ""
        print(f"{side:<20}{row['seconds']:>9.2f}{row['cpu_seconds']:>9.2f}{more}{row['peak_mb']:>9.0f}{share}")
    print("ours / TRL: " + ", ".join(f"{key} {value:.2f}" for key, value in figures["ratios"].items()), flush=True)


if __name__ == "__main__":
    main()
