"""A model as designer, with and without repair: how many attempts hold a program, load, and pass each gate.

    python benchmarks/designer.py --model smollm2 --attempts 200 --vllm .cache/vllm/bin/python --out designer
    python benchmarks/designer.py --model nano --quick

Both arms ask for the same slots, skills and documents by the same seeds, side by side of one policy; a slot has up to
five attempts. With `--out` every answer is kept, and the same command goes on where it was stopped. An arm that runs
out of time ends, and its counts are over the slots that it decided.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spade_agents.agent.prompts import PromptStyle
from spade_agents.designer.attempts import AttemptVerdict, DesignAttempt
from spade_agents.designer.corpus import corpus_named
from spade_agents.errors import InfrastructureError
from spade_agents.messages import Conversation
from spade_agents.policy import Policy, PolicyInfo, Sampling, open_policy
from spade_agents.policy.open import Backend
from spade_agents.policy.token_policy import Generated, TokenEngine, TokenPolicy
from spade_agents.policy.vllm import VllmSettings
from spade_agents.rollout import prompt_style
from spade_agents.seeds import derive_seed
from spade_agents.selfplay.design_journal import read_slots
from spade_agents.selfplay.design_settings import PoolDesignSettings
from spade_agents.selfplay.pool_designer import fill_pool
from spade_agents.settings import load_settings
from spade_agents.telemetry import SilentReporter
from spade_environments.certificate import Gate, GateStatus

ATTEMPTS = 5
ARMS = ("repair", "no_repair")


@dataclass(kw_only=True)
class Unlooped:
    """An engine that ends an answer once it says the same again and again: nothing else would come of it.

    It asks for a part at a time, so that a loop costs one part and not all that the limit allows; such an answer is cut
    as the limit would have cut it.
    """

    engine: TokenEngine
    context: int
    part: int = 160

    async def generate(
        self, prompt_ids: tuple[int, ...], sampling: Sampling, *, seed: int, **options: Any
    ) -> Generated:
        found = Generated((), (), True)
        room = min(sampling.max_tokens, self.context - len(prompt_ids))
        while found.truncated and len(found.token_ids) < room and not is_loop(found.token_ids):
            asked = (*prompt_ids, *found.token_ids)
            how = replace(sampling, max_tokens=min(self.part, room - len(found.token_ids)))
            more = await self.engine.generate(asked, how, seed=derive_seed(seed, "part", len(asked)), **options)
            found = Generated(found.token_ids + more.token_ids, found.logprobs + more.logprobs, more.truncated)
        return found


def is_loop(tokens: Sequence[int], *, least: int = 96, longest: int = 120) -> bool:
    """Whether the last tokens are one passage four times over, or at least `least` tokens of it and once more."""
    for period in range(1, longest + 1):
        length = max(least, 3 * period)
        if len(tokens) >= length + period and tokens[-length:] == tokens[-length - period : -period]:
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class Until:
    """A policy that answers until a time is over."""

    policy: Policy
    ends: float

    @property
    def info(self) -> PolicyInfo:
        return self.policy.info

    @property
    def style(self) -> PromptStyle:
        return prompt_style(self.policy)

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Any:
        del deadline
        if time.monotonic() > self.ends:
            raise InfrastructureError("the benchmark's time is over")
        return await self.policy.complete(conversation, sampling, seed=seed, deadline=self.ends)


def settings_of(options: argparse.Namespace, *, repair: bool) -> PoolDesignSettings:
    return load_settings(
        PoolDesignSettings,
        None,
        [
            f'model="{options.model}"',
            f"seed={options.seed}",
            f"at_once={options.step}",
            f"call.attempts={ATTEMPTS}",
            f"call.repair={str(repair).lower()}",
            f"call.sampling={{max_tokens={options.tokens}, temperature=0.6}}",
            "call.hint_sampling={max_tokens=160, temperature=0.3}",
            *options.settings,
        ],
    )


async def arm(name: str, options: argparse.Namespace, folder: Path, policy: Until) -> list[DesignAttempt]:
    """All attempts of an arm, a few slots at a time."""
    settings = settings_of(options, repair=name == "repair")
    corpus = corpus_named(settings.corpus, seed=settings.seed)
    attempts = attempts_in(folder)
    while len(attempts) < options.attempts and time.monotonic() < policy.ends:
        slots = (len(read_slots(folder)) // options.step + 1) * options.step
        await fill_pool(settings.model_copy(update={"slots": slots}), folder, policy, corpus, SilentReporter())
        attempts = attempts_in(folder)
        print(f"{time.strftime('%H:%M:%S')} {name}: {len(attempts)} attempts", flush=True)
    return attempts[: options.attempts]


def attempts_in(folder: Path) -> list[DesignAttempt]:
    return [attempt for found in read_slots(folder) for attempt in found.outcome.attempts]


def counts(attempts: list[DesignAttempt]) -> dict[str, Any]:
    """Attempts that got so far: with a program, past each gate, admitted; and what ended the others."""
    passed: Counter[str] = Counter()
    for attempt in attempts:
        for gate in attempt.certificate.gates if attempt.certificate else ():
            passed[gate.gate.value] += gate.status is GateStatus.PASSED
    verdicts = Counter(attempt.verdict.value for attempt in attempts)
    return {
        "attempts": len(attempts),
        "repaired": sum(attempt.repaired for attempt in attempts),
        "program": sum(attempt.spec is not None for attempt in attempts),
        "parses": sum(attempt.spec is not None and _parses(attempt.spec.source) for attempt in attempts),
        **{gate.value: passed[gate.value] for gate in tuple(Gate)[:9]},
        "certified": verdicts[AttemptVerdict.CERTIFIED] + verdicts[AttemptVerdict.NO_HINT],
        "admitted": verdicts[AttemptVerdict.CERTIFIED],
        "ended_at": dict(Counter(attempt.told for attempt in attempts).most_common()),
        "tokens_in": sum(attempt.completion.usage.prompt_tokens for attempt in attempts),
        "tokens_out": sum(attempt.completion.usage.completion_tokens for attempt in attempts),
    }


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


async def both(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, Any]]:
    """The counts of both arms, asked at once, since a server and our own sampler batch what is in flight."""
    served = VllmSettings(
        python=options.vllm,
        eager=True,
        context_length=options.context,
        threads=options.threads,
        concurrency=2 * options.step,
        cache_gib=options.cache_gib,
        request_seconds=7200.0,
        start_seconds=1800.0,
    )
    backend: Backend = "vllm" if options.vllm else "auto"
    async with open_policy(options.model, backend=backend, vllm=served) as policy:
        if isinstance(policy, TokenPolicy):
            policy._engine = Unlooped(engine=policy._engine, context=policy.info.context_length)
        until = Until(policy=policy, ends=time.monotonic() + 60 * options.minutes)
        found = await asyncio.gather(*(arm(name, options, folder / name, until) for name in ARMS))
    return {name: counts(attempts) for name, attempts in zip(ARMS, found, strict=True)}


@contextmanager
def kept_in(out: Path | None) -> Iterator[Path]:
    """The folder of both arms: what was asked for, or one that ends with the benchmark."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="spade-designer-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="as for spade design, an endpoint as URL#MODEL included")
    parser.add_argument("--vllm", default="", metavar="PYTHON", help="an interpreter that has vLLM, which then samples")
    parser.add_argument("--attempts", type=int, default=200, help="of each arm, at most")
    parser.add_argument("--minutes", type=float, default=15.0, help="of both arms together, about")
    parser.add_argument("--tokens", type=int, default=2048, help="of an answer, at most")
    parser.add_argument("--context", type=int, default=8192, help="of a vLLM server, in tokens")
    parser.add_argument("--cache-gib", type=float, default=4.0, help="of keys and values, for vLLM on CPUs")
    parser.add_argument("--threads", type=int, default=0, help="of vLLM on CPUs; 0 leaves it to vLLM")
    parser.add_argument("--step", type=int, default=20, help="slots at a time, of each arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a folder that keeps every answer; gone on with where it is there")
    parser.add_argument("--quick", action="store_true", help="8 attempts of each arm")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    if options.quick:
        options.attempts, options.step = 8, 2
    return options


def main() -> None:
    options = parsed()
    with kept_in(options.out) as folder:
        arms = asyncio.run(both(options, folder))
    rows = [key for key in arms["repair"] if key != "ended_at"]
    print(f"\n{'':<12} {'repair':>8} {'without':>8}")
    for key in rows:
        print(f"{key:<12} {arms['repair'][key]:>8} {arms['no_repair'][key]:>8}")
    print(json.dumps({"model": options.model, "tokens": options.tokens, **arms}))


if __name__ == "__main__":
    main()
