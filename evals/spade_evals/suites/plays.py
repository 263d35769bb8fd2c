"""A play as a sample: outcomes of episodes, and their messages for a reader."""

from __future__ import annotations

from spade_agents.messages import Message
from spade_agents.trajectory import Outcome, Trajectory
from spade_evals.types import Sample, SampleOutcome, Task

__all__ = ["sample_of"]

_OUTCOMES = {
    Outcome.SCORED: SampleOutcome.SCORED,
    Outcome.AGENT_ERROR: SampleOutcome.SCORED,
    Outcome.ENVIRONMENT_FAULT: SampleOutcome.UNSCORABLE,
    Outcome.INFRASTRUCTURE_FAULT: SampleOutcome.INFRASTRUCTURE_ERROR,
}


def sample_of(task: Task, epoch: int, play: Trajectory) -> Sample:
    """The sample of a play: used-up turns and context score 0, faults have no score."""
    outcome = _OUTCOMES[play.outcome]
    usages = [turn.completion.usage for turn in play.turns]
    return Sample(
        id=task.id,
        epoch=epoch,
        attempt=0,
        column=task.column,
        outcome=outcome,
        reason=_reason(play),
        score=play.reward if outcome is SampleOutcome.SCORED else None,
        messages=_messages(play),
        response=play.turns[-1].completion.text if play.turns else "",
        target=task.target,
        finish=play.turns[-1].completion.finish if play.turns else "",
        tokens_in=sum(usage.prompt_tokens for usage in usages),
        tokens_out=sum(usage.completion_tokens for usage in usages),
        tags=task.tags,
    )


def _reason(play: Trajectory) -> str:
    if "out_of_context" in play.counters:
        return "context"
    if "out_of_turns" in play.counters or "truncated" in play.counters:
        return "turns"
    return (play.fault or "")[:500]


def _messages(play: Trajectory) -> tuple[Message, ...]:
    messages = list(play.opening)
    for turn in play.turns:
        said = turn.completion
        messages.append(Message(role="assistant", content=said.text, calls=said.calls))
        messages += [Message.of(observation) for observation in turn.observations]
    return tuple(messages)
