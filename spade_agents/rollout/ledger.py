"""The token ledger: each token of a play, its source, its log-probabilities on both sides, and whether they drift."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from spade_agents.trajectory import Completion, Trajectory

__all__ = ["DRIFT", "Mismatch", "TokenRow", "TokenSource", "mismatch_of", "token_ledger"]

DRIFT = 0.1
"""Difference of log-probabilities from which a token counts as drifted."""


class TokenSource(StrEnum):
    """Who wrote a token."""

    OPENING = "opening"
    AGENT = "agent"
    OBSERVATION = "observation"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One token.

    Attributes:
        place: in the play's tokens.
        turn: the assistant message it belongs to or precedes, from 0.
        text: of this token alone; a piece of a character shows as U+FFFD.
        trained: whether the loss sees it.
        sampler, trainer: log-probabilities at the sampling temperature; `None` where not sampled or not known.
        weight_version: of the weights that sampled it.
        drifts: whether the two differ by more than the ledger's threshold.
    """

    place: int
    turn: int
    token_id: int
    text: str
    source: TokenSource
    trained: bool
    sampler: float | None = None
    trainer: float | None = None
    weight_version: int | None = None
    drifts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """How far trainer and sampler are apart over the trained tokens.

    Attributes:
        tokens: with both log-probabilities.
        drifted: how many of them drift.
        ratio_mean, ratio_max: of π_trainer/π_sampler.
        effective_sample_size: (Σw)²/(n·Σw²) of these ratios, in (0, 1].
    """

    tokens: int
    drifted: int
    ratio_mean: float
    ratio_max: float
    effective_sample_size: float


def token_ledger(
    trajectory: Trajectory,
    decode: Callable[[Sequence[int]], str],
    *,
    trainer: Sequence[float] | None = None,
    drift: float = DRIFT,
) -> tuple[TokenRow, ...]:
    """The tokens of a play, in order; none for a play without tokens.

    Args:
        trajectory: a play.
        decode: text of tokens.
        trainer: the trainer's log-probabilities, one a token, as `TrainingEngine.logprobs` gives them.
        drift: difference of log-probabilities from which a token drifts.

    Raises:
        ValueError: `trainer` has another length than the play's tokens.
    """
    rows: list[TokenRow] = []
    for turn, completion in _sampled(trajectory):
        prompt, sampled = completion.prompt_ids or (), completion.token_ids or ()
        source = TokenSource.OBSERVATION if rows else TokenSource.OPENING
        for place in range(len(rows), len(prompt)):
            rows.append(_row(place, turn, prompt[place], decode, source))
        for token, logprob in zip(sampled, completion.logprobs or (), strict=True):
            place = len(rows)
            theirs = None if trainer is None or place >= len(trainer) else trainer[place]
            rows.append(
                TokenRow(
                    place=place,
                    turn=turn,
                    token_id=token,
                    text=decode([token]),
                    source=TokenSource.AGENT,
                    trained=True,
                    sampler=logprob,
                    trainer=theirs,
                    weight_version=completion.weight_version,
                    drifts=theirs is not None and not abs(theirs - logprob) <= drift,
                )
            )
    if trainer is not None and len(trainer) != len(rows):
        raise ValueError(f"found {len(trainer)} log-probabilities of the trainer for {len(rows)} tokens; give one each")
    return tuple(rows)


def mismatch_of(rows: Sequence[TokenRow]) -> Mismatch | None:
    """How far both sides are apart; `None` where no token has both log-probabilities."""
    pairs = [(row.trainer, row.sampler) for row in rows if row.trainer is not None and row.sampler is not None]
    if not pairs:
        return None
    ratios = [math.exp(theirs - ours) for theirs, ours in pairs]
    total, squares = math.fsum(ratios), math.fsum(ratio * ratio for ratio in ratios)
    return Mismatch(
        tokens=len(ratios),
        drifted=sum(row.drifts for row in rows),
        ratio_mean=total / len(ratios),
        ratio_max=max(ratios),
        effective_sample_size=total**2 / (len(ratios) * squares) if squares else 0.0,
    )


def _sampled(trajectory: Trajectory) -> list[tuple[int, Completion]]:
    return [(n, turn.completion) for n, turn in enumerate(trajectory.turns) if turn.completion.token_ids]


def _row(place: int, turn: int, token: int, decode: Callable[[Sequence[int]], str], source: TokenSource) -> TokenRow:
    return TokenRow(place=place, turn=turn, token_id=token, text=decode([token]), source=source, trained=False)
