"""The form of vLLM's token endpoint, `/inference/v1/generate`: requests' bodies, and what its answers hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from spade_agents.policy.endpoint_client import AnswerError
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.token_policy import Generated

__all__ = ["GENERATE", "Sampled", "generate_body", "read_sampled", "read_scores", "score_body"]

GENERATE: Final = "/inference/v1/generate"

_NO_LOGPROB: Final = -9999.0
"""What vLLM sends for a log-probability that it does not have."""


class _LogProb(msgspec.Struct):
    logprob: float


class _LogProbs(msgspec.Struct):
    content: list[_LogProb] | None = None


class _Span(msgspec.Struct):
    version: str


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    logprobs: _LogProbs | None = None
    finish_reason: str | None = None
    weight_versions: list[_Span] | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Used(msgspec.Struct):
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Used | None = None
    prompt_logprobs: list[dict[str, _LogProb] | None] | None = None


class Sampled(NamedTuple):
    """A completion's tokens, the labels of the weights that sampled them, and how much of the prompt was cached."""

    generated: Generated
    labels: tuple[str, ...]
    cached: int


def generate_body(
    prompt: Sequence[int], sampling: Sampling, *, model: str, stop: Sequence[int], seed: int
) -> dict[str, Any]:
    """A request for one completion; everything that a server has a default of its own for stands in it."""
    return {
        "model": model,
        "token_ids": list(prompt),
        "sampling_params": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "max_tokens": sampling.max_tokens,
            "seed": seed % 2**63,
            "logprobs": 0,
            # Our own stop tokens, and none that the model's configuration adds.
            "ignore_eos": True,
            "stop_token_ids": list(stop),
            "detokenize": False,
        },
    }


def score_body(tokens: Sequence[int], *, model: str) -> dict[str, Any]:
    """A request for the log-probabilities of given tokens; one token is sampled, since none is not allowed."""
    body = generate_body(tokens, Sampling(max_tokens=1), model=model, stop=(), seed=0)
    body["sampling_params"]["prompt_logprobs"] = 0
    return body


def read_sampled(data: bytes) -> Sampled:
    """The completion in an answer's body.

    Raises:
        AnswerError: no answer of this endpoint, one that was broken off, or a token without its log-probability.
    """
    answer = _decoded(data)
    choice = answer.choices[0]
    tokens = choice.token_ids or []
    logprobs = [entry.logprob for entry in (choice.logprobs and choice.logprobs.content) or ()]
    if choice.finish_reason not in ("stop", "length") or not tokens:
        raise AnswerError(f"{len(tokens)} tokens that ended by {choice.finish_reason!r}")
    if len(logprobs) != len(tokens) or _NO_LOGPROB in logprobs:
        raise AnswerError(f"{len(tokens)} tokens without a log-probability for each")
    details = answer.usage and answer.usage.prompt_tokens_details
    return Sampled(
        Generated(tuple(tokens), tuple(logprobs), choice.finish_reason == "length"),
        tuple(span.version for span in choice.weight_versions or ()),
        (details and details.cached_tokens) or 0,
    )


def read_scores(data: bytes, tokens: Sequence[int]) -> list[float]:
    """The log-probability of each token of the prompt but the first.

    Raises:
        AnswerError: no answer of this endpoint, or not one number for each of these tokens.
    """
    entries = (_decoded(data).prompt_logprobs or [])[1:]
    if len(entries) != len(tokens) - 1:
        raise AnswerError(f"{len(entries)} scored tokens of {len(tokens) - 1}")
    found = [(entry or {}).get(str(token)) for entry, token in zip(entries, tokens[1:], strict=True)]
    if any(entry is None for entry in found):
        raise AnswerError("scores of other tokens than those asked for")
    return [entry.logprob for entry in found if entry is not None]


def _decoded(data: bytes) -> _Answer:
    if not data.strip():
        raise AnswerError("an empty body")
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AnswerError(f"no answer of {GENERATE} ({error}): {data[:80]!r}") from error
    if not answer.choices:
        raise AnswerError("an answer without a choice")
    return answer
