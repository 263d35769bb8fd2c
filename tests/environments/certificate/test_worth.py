"""Broken environments for gates 7 to 9: each passes every gate before the named one and fails there."""

from __future__ import annotations

import pytest

BROKEN = [
    # 7 floor
    (
        "floor",
        "every number wins",
        "dial",
        [
            ("if int(word) == self.secret:", "if True:"),
            (
                '"Higher." if int(word) < self.secret else "Lower.", 0.0, False, False, {}',
                '"No.", 0.0, False, False, {}',
            ),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', "[str(self.secret)]"),
        ],
        ["mean return"],
    ),
    (
        "floor",
        "one guess in two is right",
        "dial",
        [
            ("max_turns = 10", "max_turns = 1"),
            ("randrange(100)", "randrange(2)"),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', "[str(self.secret)]"),
            (
                "Open the lock: say a number from 0 to 99.",
                "Heads or tails? It is what {len(str(7**self.rng.randrange(900)))} coins before did not show.",
            ),
        ],
        ["wins on"],
    ),
    (
        "floor",
        "all is shown and one action wins",
        "dial",
        [
            ('"partial"', '"full"'),
            ('    hidden = ("secret",)\n', ""),
            (
                '"Open the lock: say a number from 0 to 99."',
                'f"Open the lock: say {self.secret * 3} divided by three."',
            ),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', "[str(self.secret)]"),
        ],
        ["one action solves 8 of 8", "max_turns = 1"],
    ),
    (
        "floor",
        "one script wins for every seed",
        "dial",
        [
            ("self.turns = 0", "self.turns = self.done = 0"),
            ("Open the lock: say", "Lock {self.secret}: say"),
            ('return "Lock', 'return f"Lock'),
            (
                "if int(word) == self.secret:",
                "self.done = self.done + 1 if word == ('93', '17', '58')[self.done] else 0\n        if self.done == 3:",
            ),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', '["93", "17", "58"]'),
            ('    hidden = ("secret",)\n', ""),
        ],
        ["wins on 100% of others", "self.rng"],
    ),
    (
        "floor",
        "a reply with every value seen wins",
        "desk",
        [
            ("        ]\n\n    def solution", "        ][:1]\n\n    def solution"),
            (
                '[Call("cancel_order", order_id=third)],\n        ]',
                '[Call("cancel_order", order_id=third)],\n        ][:1]',
            ),
        ],
        ["dump", "mean return"],
    ),
    (
        "floor",
        "a wrong answer pays a part",
        "dial",
        [
            ("max_turns = 10", "max_turns = 2"),
            (
                '"Higher." if int(word) < self.secret else "Lower.", 0.0, False, False, {}',
                '"Wrong.", 0.4, self.turns == 2, False, {}',
            ),
        ],
        ["mean return of 0.4"],
    ),
    (
        "floor",
        "a reply with all that the user said wins",
        "desk",
        [
            (
                'f"What is the total of order {first}?", value=self.state[first]["total"])',
                'f"Which comes first, {first} or {second}?", value=min(first, second))',
            ),
            ('[Call("get_order", order_id=first), str(self.state[first]["total"])]', "[min(first, second)]"),
            ("        ]\n\n    def solution", "        ][:1]\n\n    def solution"),
            (
                '[Call("cancel_order", order_id=third)],\n        ]',
                '[Call("cancel_order", order_id=third)],\n        ][:1]',
            ),
        ],
        ["dump", "mean return"],
    ),
    (
        "floor",
        "waiting long enough wins",
        "dial",
        [
            ('"Open the lock: say a number from 0 to 99."', '"Open the lock: wait, or say a number from 0 to 99."'),
            (
                "word = action.strip()",
                "word = action.strip()\n        self.turns -= word != 'wait'\n        if self.turns > 6:\n"
                "            return 'It opens.', 1.0, True, False, {}",
            ),
        ],
        ["repeat act(action='wait')", "mean return of 1.00"],
    ),
    (
        "floor",
        "a list of all numbers holds the answer",
        "dial",
        [
            ("max_turns = 10", "max_turns = 1"),
            ("if not (word.isdecimal() and len(word) < 12):", "if not word:"),
            ("if int(word) == self.secret:", "if str(self.secret) in word.split():"),
            (
                'return "Higher." if int(word) < self.secret else "Lower.", 0.0, False, False, {}',
                "return 'No.', 0.0, True, False, {}",
            ),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', "[str(self.secret)]"),
        ],
        ["every number", "mean return of 1.00"],
    ),
    # 8 robustness
    (
        "robustness",
        "it raises on what is no number",
        "dial",
        [
            (
                "if not (word.isdecimal() and len(word) < 12):",
                "try:\n            float(word)\n        except ValueError:",
            ),
            ("int(word)", "int(float(word))"),
        ],
        ["nan", "raise"],
    ),
    (
        "robustness",
        "it raises on letters of another alphabet",
        "dial",
        [("word = action.strip()", "word = action.encode('ascii').decode().strip()")],
        ["UnicodeEncodeError"],
    ),
    (
        "robustness",
        "it raises on a long action",
        "dial",
        [("word = action.strip()", "word = action.strip()\n        assert len(word) < 5000")],
        ["AssertionError"],
    ),
    (
        "robustness",
        "a tool raises on a strange identifier",
        "desk",
        [
            (
                'raise ToolError(f"no order {order_id}")\n        return',
                'if ".." in order_id:\n                raise KeyError(order_id)\n'
                '            raise ToolError("no such order")\n        return',
            )
        ],
        ["KeyError", "get_order"],
    ),
    (
        "robustness",
        "the check of a later goal raises on words",
        "desk",
        [
            (
                'Goal("asked", "Cancel another one."),',
                'Goal("replied", "And its total?", lambda s, c, r: int(r or 0) == total),',
            ),
            ('["Which one?"],', '[Call("get_order", order_id=second), str(self.state[second]["total"])],'),
            (
                "        first, second, third = self.ids[:3]\n        return [\n            Goal",
                "        first, second, third = self.ids[:3]\n        total = self.state[second]['total']\n"
                "        return [\n            Goal",
            ),
        ],
        ["ValueError", "it is done"],
    ),
    (
        "robustness",
        "a long text wins",
        "dial",
        [
            (
                "word = action.strip()",
                "word = action.strip()\n        if len(word) > 5000:\n            return 'Ok.', 1.0, True, False, {}",
            )
        ],
        ["reward 1"],
    ),
    (
        "robustness",
        "code in braces wins",
        "dial",
        [
            (
                "word = action.strip()",
                "word = action.strip()\n        if '_' * 2 in word:\n            return 'Ok.', 1.0, True, False, {}",
            )
        ],
        ["__class__", "well-formed"],
    ),
    (
        "robustness",
        "a rare word that random agents find raises",
        "dial",
        [
            ('"Open the lock: say a number from 0 to 99."', '"Open the lock, or break it: say a number from 0 to 99."'),
            ("word = action.strip()", "word = action.strip()\n        assert 'break' not in word or self.turns < 3"),
        ],
        ["AssertionError", "break"],
    ),
    # 9 leak
    (
        "leak",
        "a tool's description gives a value away",
        "desk",
        [
            ('"""Cancel an open order."""', '"""Cancel an open order, with the code 48213."""'),
            ("def cancel_order(self, order_id: str)", "def cancel_order(self, order_id: str, code: int)"),
            ("order_id=third)", "order_id=third, code=48213)"),
            (
                'self.state[order_id]["status"] = "cancelled"',
                'self.state[order_id]["status"] = "cancelled" if code == 48213 else "open"',
            ),
        ],
        ["48213", "cancel_order"],
    ),
    (
        "leak",
        "the answer stands in the question",
        "dial",
        [
            ("max_turns = 10", "max_turns = 1"),
            ("randrange(100)", "randrange(10**9)"),
            ('["50", str(self.secret)] if self.secret != 50 else ["50"]', "[str(self.secret)]"),
            (
                '"Open the lock: say a number from 0 to 99."',
                'f"Which number comes next after those that were read this morning? '
                'It is not far from {self.secret}, said one of those who were there."',
            ),
        ],
        ["answer stands in the question"],
    ),
    (
        "leak",
        "a hidden value stands in the first observation",
        "desk",
        [
            ("max_turns = 8", 'max_turns = 8\n    hidden = ("spare",)'),
            ("        self.state = {i:", "        self.spare = self.ids[3]\n        self.state = {i:"),
            ("What is the total of order {first}?", "What is the total of order {first}, not of {self.spare}?"),
        ],
        ["hidden value spare"],
    ),
    (
        "leak",
        "a hidden list stands in the first observation, part by part",
        "dial",
        [
            ('("secret",)', '("digits",)'),
            ("self.turns = 0", "self.turns = 0\n        self.digits = [self.secret // 10, self.secret % 10]"),
            ('"Open the lock: say', 'f"Lock {self.digits[0]} + {self.digits[1]}: say'),
        ],
        ["hidden value digits"],
    ),
    ("leak", "the reward is told", "dial", [('"Say a number."', '"Say a number. Reward: 0."')], ["reward", "action 1"]),
    (
        "leak",
        "the score is told",
        "dial",
        [('"Higher."', 'f"Higher, score {1 - abs(int(word) - self.secret) / 100:.2f}."')],
        ["score"],
    ),
    (
        "leak",
        "the reward of the step is told as a number",
        "dial",
        [
            (
                'return "Higher." if int(word) < self.secret else "Lower.", 0.0,',
                "near = round(0.5 / (1 + abs(int(word) - self.secret)), 3)\n        return f'Near by {near:g}.', near,",
            )
        ],
        ["reward can be read"],
    ),
]


@pytest.mark.parametrize(("gate", "defect", "base", "edits", "words"), BROKEN, ids=[f"{b[0]}-{b[1]}" for b in BROKEN])
async def test_an_unworthy_environment_fails_at_its_gate_and_passes_all_before(
    gate, defect, base, edits, words, check_broken
):
    await check_broken(gate, base, edits, words)


async def test_the_real_sandbox_finds_every_unworthy_environment_at_the_same_gate(check_all_sandboxed):
    await check_all_sandboxed(BROKEN)


def test_each_of_these_gates_has_at_least_five_broken_environments():
    for gate in ("floor", "robustness", "leak"):
        assert sum(entry[0] == gate for entry in BROKEN) >= 5
