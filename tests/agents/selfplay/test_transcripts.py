"""Plays as a person reads them."""

from __future__ import annotations

from spade_agents.agent.prompts import opening_messages
from spade_agents.report import Line
from spade_agents.selfplay.transcripts import chosen_pair, play_lines
from spade_agents.trajectory import BrokenCall, Completion, Outcome, Trajectory, Turn
from spade_environments import Observation, ToolCall

FIRST = Observation(role="user", text="How many lamps?")


def play(
    *, seed: int = 1, hinted: bool = False, reward: float | None = 0.0, turns: tuple[Turn, ...] = ()
) -> Trajectory:
    return Trajectory(
        environment_id="e",
        seed=seed,
        hinted=hinted,
        opening=opening_messages(FIRST, "count first" if hinted else None, style="compact"),
        turns=turns,
        outcome=Outcome.SCORED,
        reward=reward,
    )


def test_the_system_prompt_is_left_out_and_the_hint_stands_apart():
    assert play_lines(play()) == (Line(speaker="user", text="How many lamps?"),)
    assert play_lines(play(hinted=True), "count first") == (
        Line(speaker="user", text="How many lamps?"),
        Line(speaker="hint", text="count first"),
    )


def test_calls_results_errors_and_replies_are_lines_of_their_own():
    call = Turn(
        completion=Completion(text="", calls=(ToolCall(name="count", arguments={"item": "lamps", "n": 2}),)),
        observations=(Observation(role="tool", text="42"),),
    )
    failing = Turn(
        completion=Completion(text="", calls=(ToolCall(name="count", arguments={}),)),
        observations=(Observation(role="tool", text="Error: item is missing"),),
    )
    reply = Turn(completion=Completion(text="42"))
    assert play_lines(play(turns=(call, failing, reply)))[1:] == (
        Line(speaker="call", text='count(item="lamps", n=2)'),
        Line(speaker="tool", text="42"),
        Line(speaker="call", text="count()"),
        Line(speaker="error", text="Error: item is missing"),
        Line(speaker="agent", text="42"),
    )


def test_a_broken_call_and_silence_are_told():
    broken = BrokenCall(kind="not_json", message="the arguments are not JSON")
    turns = (Turn(completion=Completion(text="", broken=(broken,))), Turn(completion=Completion(text=" ")))
    assert play_lines(play(turns=turns))[1:] == (
        Line(speaker="error", text="broken call (not_json): the arguments are not JSON"),
        Line(speaker="agent", text="(says nothing)"),
    )


def test_the_pair_shown_is_the_one_whose_arms_differ_most():
    plays = [
        play(seed=1, reward=1.0),
        play(seed=2, reward=0.0),
        play(seed=1, reward=1.0, hinted=True),
        play(seed=2, reward=1.0, hinted=True),
    ]
    assert chosen_pair(plays) == [plays[1], plays[3]]


def test_without_hinted_plays_the_first_play_is_shown():
    plays = [play(seed=1), play(seed=2)]
    assert chosen_pair(plays) == plays[:1]
    assert chosen_pair([]) == []
