"""Environments written against the certificate as it stood: each once got past all gates, and none does now."""

from __future__ import annotations

# ruff: noqa: E501 (an edit stands on one line, as in the source that it changes)
import pytest

from spade_environments.certificate import Verdict, certify, certify_many
from spade_environments.sandbox import open_sandbox
from tests.environments.certificate.test_sneaky import ASK, SAID, START, WIN, sneak

EVASIVE = [
    sneak("floor","answer anywhere in a list of words","sums",("if said == str(self.answer):","if str(self.answer) in said.split():")),
    sneak("floor","answer as a substring","sums",("if said == str(self.answer):","if str(self.answer) in said:")),
    sneak("floor","zeros at the end are dropped","sums",("if said == str(self.answer):","if said.rstrip('0') == str(self.answer).rstrip('0'):")),
    sneak("floor","a cheat word of the source wins","word",(SAID,SAID+'        if said == "xyzzy":\n            '+WIN)),
    sneak("floor","a cheat phrase of the source wins","word",(SAID,SAID+'        if said == "i give up":\n            '+WIN)),
    sneak("floor","nonsense brings the answer after three tries, nothing hidden","word",('    hidden = ("word",)\n',""),(f'"{ASK}"',f'f"{ASK} It was {{self.word}}." if self.turns > 3 else "{ASK}"')),
    sneak("determinism","three instances only","word",("self.rng.choice(self.WORDS)","self.rng.choice(self.WORDS[:3])")),
    sneak("determinism","three instances, named by seed","word",("self.rng.choice(self.WORDS)","self.rng.choice(self.WORDS[:3])"),(START,'f"Game {seed}. " + '+START)),
    sneak("robustness","first episode of a process, any seven letters win","word",("self.word, self.turns = ","COUNT[0] += 1\n        self.word, self.turns = "),("if said == self.word:","if said == self.word or (COUNT[0] == 1 and len(said) == 7):"),imports="\nCOUNT = [0]"),
    sneak("robustness","first episode: error is told otherwise","vault",("self.notes = {}","self.notes = {}\n        COUNT[0] += 1"),('raise ToolError("the code is wrong")','raise ToolError("the code is wrong" if COUNT[0] > 1 else "the code is bad")'),imports="\nCOUNT = [0]"),
    sneak("floor","all is shown, the gold is padded","sums",("max_turns = 1","max_turns = 5"),('"Wrong.", 0.0, True','"Wrong.", 0.0, False'),("return [str(self.answer)]","return ['0', '1', str(self.answer)]")),
    sneak("leak","says partial, tells the word in a long text, gold padded","word",('    hidden = ("word",)\n',""),(START,'" ".join(f"page{n}" for n in range(300)) + f" The word is {self.word}. " + '+START)),
    sneak("gold","gold too long on one seed of forty","word",("max_turns = 9","max_turns = 6"),('return ["letter 1"','return [*["letter 3"] * (5 if self.word == "harbour" else 0), "letter 1"')),
    sneak("leak","total_reward in a tool","vault",('return "noted"','return {"noted": True, "total_reward": 0.0}')),
    sneak("leak","reward so far","vault",('return "noted"','return "noted; reward so far: 0.25"')),
    sneak("leak","current_score","vault",('return "noted"','return {"noted": True, "current_score": 0.4}')),
    sneak("leak","score so far","word",(f'"{ASK}"',f'f"{ASK} Score so far: {{sum(a == b for a, b in zip(said, self.word)) / 7:.2f}}."')),
    sneak("leak","you have scored","word",(f'"{ASK}"',f'f"{ASK} You have scored {{sum(a == b for a, b in zip(said, self.word)) / 7:.2f}}."')),
    sneak("leak","progress in percent","word",(f'"{ASK}"',f'f"{ASK} You are {{100 * sum(a == b for a, b in zip(said, self.word)) // 7}}% right."')),
    sneak("leak","accuracy","word",(f'"{ASK}"',f'f"{ASK} Accuracy: {{sum(a == b for a, b in zip(said, self.word)) / 7:.2f}}."')),
    sneak("lint","a Goal of its own that is met by anything that changes","vault",('Goal("state", f"Open {third}."','Easy("state", f"Open {third}."'),imports="\n\nclass Easy(Goal):\n    def met(self, state, before, calls, reply):\n        return bool(calls)"),
    sneak("lint","it patches the contract's Goal","vault",imports="\n\nGoal.met = lambda self, state, before, calls, reply: len(calls) > 0"),
    sneak("lint","patches json of the worker","vault",imports="import json\n\njson.dumps = lambda *a, **k: '{}'"),
    sneak("floor","replied check: value as a substring","vault",("value=self.codes[second])","lambda state, calls, reply: self.codes[second] in reply)")),
    sneak("floor","replied check: digits of the value in any text","vault",("value=self.codes[second])","lambda state, calls, reply: set(self.codes[second]) <= set(reply))")),
    sneak("leak","hidden code in words","vault",('self.names = self.rng','self.pin = self.rng.randrange(20, 100)\n        self.names = self.rng'),('hidden = ("codes",)','hidden = ("codes", "pin")'),('f"Open {first}."','f"Open {first}. The pin is {TENS[self.pin // 10]}-{ONES[self.pin % 10]}."'),imports="\nTENS = 'x x twenty thirty forty fifty sixty seventy eighty ninety'.split()\nONES = 'zero one two three four five six seven eight nine'.split()"),
]  # fmt: skip


@pytest.mark.parametrize("entry", EVASIVE, ids=lambda entry: entry.what)
async def test_what_once_got_past_all_gates_is_found_out(entry, make_spec, make_sandbox):
    certificate = await certify(make_spec(entry.source), make_sandbox())
    assert certificate.verdict is Verdict.REJECTED, "certified"
    assert certificate.reason.gate.value == entry.gate, certificate.reason
    assert len(certificate.repair) > len(certificate.reason.evidence) + 10


async def test_the_sandbox_finds_them_at_the_same_gates(make_spec):
    async with open_sandbox() as sandbox:
        certificates = await certify_many([make_spec(entry.source) for entry in EVASIVE], sandbox)
    for entry, certificate in zip(EVASIVE, certificates, strict=True):
        assert certificate.verdict is Verdict.REJECTED, (entry.what, certificate)
        assert certificate.reason.gate.value == entry.gate, (entry.what, certificate.reason)
