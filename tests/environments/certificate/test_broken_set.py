"""The broken set as a whole: its copies of what is known, named defects that came late, and its count by gate."""

from __future__ import annotations

from collections import Counter

import pytest

from spade_environments.certificate import Gate, GateStatus, NoveltyIndex, Verdict, certify
from tests.environments.certificate import test_gates, test_worth
from tests.environments.certificate.test_evasions import EVASIVE
from tests.environments.certificate.test_sneaky import SNEAKY

# What was done to an environment that is known already, and what the message must hold.
COPIES = [
    ("nothing", "desk", [], ["orders", "normalised syntax tree"]),
    ("it has other names", "desk", [("order", "parcel"), ("OrderDesk", "ParcelDesk")], ["orders"]),
    ("it has other words", "dial", [("Open the lock: say", "Find the safe's combination: name")], ["locks"]),
    ("its comments differ", "dial", [("        word =", "        # as it was said\n        word =")], ["locks"]),
    ("one number differs", "dial", [("max_turns = 10", "max_turns = 11")], ["similarity", "limit"]),
    ("a line was added", "desk", [("    max_turns = 8", "    SIZE = 4\n    max_turns = 8")], ["similarity", "orders"]),
    (
        "it has another order of tools",
        "desk",
        [("max_turns = 8", 'observability = "partial"\n    max_turns = 8')],
        ["orders"],
    ),
]

# Gate, what is broken, base, edits, words of the repair: defects known from elsewhere.
NAMED = [
    (
        "goals",
        "the first goal is met already at reset",
        "desk",
        [
            (
                'Goal("replied", f"What is the total of order {first}?", value=self.state[first]["total"])',
                'Goal("called", f"Open order {first}.", lambda state, calls, reply: state[first]["status"] == "open")',
            )
        ],
        ["goal 1", "empty reply"],
    ),
    (
        "reset",
        "the reward is not a number",
        "dial",
        [('return "Say a number.", 0.0,', 'return "Say a number.", float("nan"),')],
        ["reward", "action 1"],
    ),
    (
        "reset",
        "the eighth step of ten raises",
        "dial",
        [("self.turns += 1", "self.turns += 1\n        assert self.turns != 8")],
        ["AssertionError", "action 8"],
    ),
    (
        "goals",
        "the eighth empty step of ten wins",
        "dial",
        [
            (
                "word = action.strip()",
                "word = action.strip()\n        if self.turns == 8:\n            return 'Ok.', 1.0, True, False, {}",
            )
        ],
        ["8 empty actions"],
    ),
    (
        "floor",
        "invalid moves are paid in part at the end",
        "dial",
        [
            (
                "self.turns += 1",
                "self.turns += 1\n        if self.turns == 10 and action.strip():\n"
                "            return 'Well tried.', 0.3, True, False, {}",
            )
        ],
        ["mean return of 0.30"],
    ),
    (
        "gold",
        "the solution wins in its own process only",
        "dial",
        [
            ("    def solution(self):\n", "    def solution(self):\n        self.ready = True\n"),
            ("if int(word) == self.secret:", 'if int(word) == self.secret and hasattr(self, "ready"):'),
        ],
        ["does not end the episode"],
    ),
]


@pytest.mark.parametrize(("done", "base", "edits", "words"), COPIES, ids=[entry[0] for entry in COPIES])
async def test_a_copy_passes_every_gate_but_that_of_novelty(done, base, edits, words, request, make_spec, make_sandbox):
    known = NoveltyIndex([("orders", request.getfixturevalue("desk")), ("locks", request.getfixturevalue("dial"))])
    source = request.getfixturevalue(base)
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    certificate = await certify(make_spec(source), make_sandbox(), novelty=known)
    assert certificate.verdict is Verdict.REJECTED
    assert certificate.reason.gate is Gate.NOVELTY
    assert [result.status for result in certificate.gates[:-1]] == [GateStatus.PASSED] * 9
    for word in (*words, "Design another structure"):
        assert word in certificate.repair


@pytest.mark.parametrize(("gate", "defect", "base", "edits", "words"), NAMED, ids=[entry[1] for entry in NAMED])
async def test_a_defect_known_from_elsewhere_fails_at_its_gate(gate, defect, base, edits, words, check_broken):
    await check_broken(gate, base, edits, words)


async def test_the_real_sandbox_finds_the_named_defects_at_the_same_gates(check_all_sandboxed):
    await check_all_sandboxed(NAMED)


def test_each_of_the_ten_gates_has_its_broken_environments():
    count = Counter(entry[0] for entry in (*test_gates.BROKEN, *test_worth.BROKEN, *NAMED))
    count.update(entry.gate.split("|")[0] for entry in (*SNEAKY, *EVASIVE))
    count["novelty"] += len(COPIES)
    assert set(count) == {gate.value for gate in tuple(Gate)[:10]}
    assert min(count.values()) >= 5, count
    assert sum(count.values()) >= 60 + len(SNEAKY) + len(EVASIVE)
