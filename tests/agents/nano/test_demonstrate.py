"""Noisy demonstrations: slips lose, hints help, errors are real, and transcripts render append-only."""

from __future__ import annotations

import random

import pytest

from spade_agents.messages import Conversation
from spade_agents.nano.build import build_tokenizer
from spade_agents.nano.demonstrate import Slips, demonstrate
from spade_agents.nano.examples import warm_program
from spade_agents.policy.tokenizer import PlainTokenizer
from spade_agents.rendering import HermesRenderer

NEVER = Slips(plain=0.0, hinted=0.0)
OFTEN = Slips(plain=0.4, hinted=0.0)


@pytest.fixture(scope="module")
def programs():
    rng = random.Random(17)
    return [warm_program(rng).program for _ in range(60)]


def wins(programs, slips, hinted=False):
    rng = random.Random(2)
    plays = [demonstrate(p.source, 5, rng, hint=p.hint if hinted else None, slips=slips) for p in programs]
    return sum(play.won for play in plays) / len(plays)


def test_without_slips_every_play_is_won(programs):
    assert wins(programs, NEVER) == 1.0


def test_slips_lose_plays_and_a_hint_wins_them_back(programs):
    assert wins(programs, OFTEN) < 0.6
    assert wins(programs, OFTEN, hinted=True) == 1.0


def test_the_hint_stands_once_below_the_first_instruction(programs):
    play = demonstrate(programs[0].source, 5, random.Random(0), hint="call it first.")
    assert play.messages[1].content.endswith("\nhint: call it first.")
    assert sum("hint:" in message.content for message in play.messages) == 1


def test_errors_come_from_the_environment_and_some_are_mended(programs):
    rng = random.Random(4)
    plays = [demonstrate(p.source, seed, rng, slips=OFTEN) for p in programs for seed in range(4)]
    erred = [play for play in plays if any(m.content.startswith("Error: ") for m in play.messages if m.role == "tool")]
    assert any(play.won for play in erred)
    assert any(not play.won for play in erred)


def test_the_same_random_state_gives_the_same_play(programs):
    first, second = (demonstrate(programs[1].source, 5, random.Random(9), slips=OFTEN) for _ in range(2))
    assert first == second


def test_transcripts_render_as_they_would_be_sampled_turn_by_turn(programs):
    renderer = HermesRenderer(PlainTokenizer(build_tokenizer(seed=0, programs=60)), style="compact")
    for program in programs[:10]:
        play = demonstrate(program.source, 5, random.Random(1), slips=OFTEN)
        ids, mask = renderer.render_transcript(play.messages, play.tools)
        conversation = Conversation(messages=play.messages[:2], tools=play.tools)
        tokens: list[int] = []
        for message in play.messages[2:]:
            if message.role == "assistant":
                tokens = [*renderer.render_prompt(conversation), *renderer.render_assistant(message)]
                conversation = conversation.then(message, tokens=tuple(tokens))
            else:
                conversation = conversation.then(message)
        assert ids == tokens
        assert sum(mask) < len(ids) < 1024
