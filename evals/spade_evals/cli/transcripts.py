"""A sample as lines of text, for a reader at a terminal."""

from __future__ import annotations

import json

from spade_agents.terminal import visible
from spade_evals.types import Sample

__all__ = ["transcript_lines"]


def transcript_lines(sample: Sample) -> list[str]:
    """Its outcome and every message."""
    score = "no score" if sample.score is None else f"score {sample.score:g}"
    lines = [f"--- {sample.id} epoch {sample.epoch}: {sample.outcome.value}, {score} {sample.reason}".rstrip()]
    for message in sample.messages:
        lines.append(f"[{message.role}] {message.content}".rstrip())
        lines += [
            f"[call] {call.name}({json.dumps(dict(call.arguments), ensure_ascii=False)})" for call in message.calls
        ]
    lines.append(f"[target] {sample.target}")
    return [visible(line) for line in lines]
