"""Broken environments: each passes every gate before the named one and fails there, with a message that helps."""

from __future__ import annotations

import pytest

from spade_environments.certificate import Gate, Verdict, certify

# Gate, what is broken, base, (old, new) edits, words that the repair message must hold.
BROKEN = [
    # 1 lint
    ("lint", "it does not parse", "desk", [("def setup(self):", "def setup(self:")], ["Line 9", "valid Python"]),
    ("lint", "it imports a module that is not allowed", "dial", [("\n\n\nclass", "\nimport os\n\n\nclass")], ["'os'"]),
    ("lint", "it evaluates text of the agent", "dial", [("int(word) == self", "eval(word) == self")], ["eval"]),
    (
        "lint",
        "it reads an attribute by a computed name",
        "dial",
        [("if not (word.isdecimal() and len(word) < 12):", "if getattr(self, word):")],
        ["getattr", "dict"],
    ),
    (
        "lint",
        "it walks into the interpreter",
        "dial",
        [("self.turns = 0", "self.turns = ().__class__.__base__")],
        ["__class__"],
    ),
    ("lint", "it formats text of the agent", "dial", [('"Say a number."', "action.format(self)")], ["f-string"]),
    (
        "lint",
        "it formats text of the agent by %",
        "dial",
        [('"Say a number."', "action % (self.secret,)")],
        ["f-string"],
    ),
    (
        "lint",
        "it has two public classes",
        "dial",
        [("\n\n\nclass", "\n\n\nclass Other(TextEnv):\n    pass\n\n\nclass")],
        ["exactly one public class"],
    ),
    (
        "lint",
        "it does not begin with the contract",
        "dial",
        [("from spade", "import random\nfrom spade")],
        ["Begin with"],
    ),
    ("lint", "it is too large", "dial", [("TextEnv\n", "TextEnv\n" + "# filler\n" * 8000)], ["at most 65536"]),
    (
        "lint",
        "it takes over the base's step",
        "desk",
        [("def goals", "def step(self, action):\n        return 1\n\n    def goals")],
        ["overrides step"],
    ),
    (
        "lint",
        "it moves its own place among the goals",
        "desk",
        [('return "cancelled"', "self._position = 3")],
        ["_position"],
    ),
    # 2 load
    ("load", "its module raises", "dial", [("\n\n\nclass", "\n\nSIZE = 1 // 0\n\n\nclass")], ["ZeroDivisionError"]),
    ("load", "a tool has no description", "desk", [('        """Cancel an open order."""\n', "")], ["docstring"]),
    (
        "load",
        "a parameter has no type",
        "desk",
        [("get_order(self, order_id: str)", "get_order(self, order_id)")],
        ["needs a type"],
    ),
    ("load", "max_turns is too large", "dial", [("max_turns = 10", "max_turns = 100")], ["max_turns"]),
    ("load", "a tool has a reserved name", "desk", [("get_order", "hint")], ["reserved"]),
    ("load", "it has no tools", "desk", [("    @tool\n", "")], ["@tool"]),
    # 3 reset
    ("reset", "reset raises", "dial", [("self.turns = 0", "self.turns = self.missing")], ["AttributeError", "seed"]),
    ("reset", "reset returns no pair", "dial", [('to 99.", {}', 'to 99."')], ["(observation, info)"]),
    ("reset", "the reward is text", "dial", [('number.", 0.0', 'number.", "0"')], ["reward is str", "action 1"]),
    (
        "reset",
        "the reward is too large",
        "dial",
        [('"Lower.", 0.0', '"Lower.", 5.0'), ("0.0, False", "2.0, False")],
        ["reward"],
    ),
    (
        "reset",
        "the first observation is empty",
        "dial",
        [("Open the lock: say a number from 0 to 99.", " ")],
        ["empty"],
    ),
    (
        "reset",
        "step raises on a word",
        "dial",
        [("if not (word.isdecimal() and len(word) < 12):", "if int(word) < 0:")],
        ["ValueError", "act("],
    ),
    ("reset", "hidden names nothing", "dial", [('hidden = ("secret",)', 'hidden = ("pin",)')], ["pin"]),
    (
        "reset",
        "the last goal is of kind asked",
        "desk",
        [
            (
                'Goal("state", f"I mean {third}.", lambda state, calls, reply: state[third]["status"] == "cancelled")',
                'Goal("asked", "More?")',
            )
        ],
        ["asked"],
    ),
    # 4 determinism
    ("determinism", "every seed gives one instance", "dial", [("self.rng.randrange(100)", "37")], ["self.rng"]),
    (
        "determinism",
        "an episode changes the next",
        "dial",
        [
            ("    max_turns", "    COUNT = [0]\n    max_turns"),
            ("self.turns = 0", "self.COUNT[0] += 1"),
            ('"Open the lock: say', 'f"Lock {self.COUNT[0]}: say'),
            ("self.turns += 1", ""),
        ],
        ["first observation"],
    ),
    (
        "determinism",
        "a class attribute is shuffled in place",
        "desk",
        [
            ("    max_turns", "    NAMES = ['Ann', 'Bob', 'Cyd', 'Dee', 'Eve']\n    max_turns"),
            ("self.ids = [", "self.rng.shuffle(self.NAMES)\n        self.ids = ["),
            ("What is the total", "{self.NAMES[0]} asks: what is the total"),
        ],
        ["Seed", "in another"],
    ),
    (
        "determinism",
        "an object's address shows",
        "dial",
        [('"Say a number."', 'f"Say a number, {id(self)}."')],
        ["action 1", "id()"],
    ),
    (
        "determinism",
        "late steps remember other episodes",
        "dial",
        [
            ("    max_turns", "    LOG = []\n    max_turns"),
            ("self.turns += 1", "self.turns += 1\n        self.LOG.append(action)"),
            ('"Say a number."', 'f"Say a number ({len(self.LOG) if self.turns > 7 else 0})."'),
        ],
        ["action 8"],
    ),
    # 5 goals
    (
        "goals",
        "a goal of kind called is met by no call",
        "desk",
        [
            (
                "lambda state, calls, reply: any(\n                call.name",
                "lambda state, calls, reply: not calls or any(\n                call.name",
            )
        ],
        ["goal 2", "empty reply"],
    ),
    (
        "goals",
        "any reply carries the value",
        "desk",
        [
            (
                'Goal("replied", f"What is the total of order {first}?", value=self.state[first]["total"])',
                'Goal("replied", f"What is the total of order {first}?", lambda state, calls, reply: True)',
            )
        ],
        ["goal 1", "empty reply"],
    ),
    (
        "goals",
        "the solution cancels the wrong order",
        "desk",
        [("order_id=third", "order_id=second")],
        ["goal 4", "changed state"],
    ),
    (
        "goals",
        "the solution has too few parts",
        "desk",
        [('            [Call("cancel_order", order_id=third)],\n', "")],
        ["goals remain"],
    ),
    (
        "goals",
        "the solution calls a tool that is not there",
        "desk",
        [('[Call("get_order", order_id=second)', '[Call("see")')],
        ["malformed"],
    ),
    ("goals", "the solution is not written", "desk", [("    def solution", "    def _solution")], ["solution"]),
    (
        "goals",
        "an empty action wins",
        "dial",
        [
            (
                "if not (word.isdecimal() and len(word) < 12):",
                'if not word:\n            return "Ok.", 1.0, True, False, {}\n'
                "        if not (word.isdecimal() and len(word) < 12):",
            )
        ],
        ["empty"],
    ),
    (
        "goals",
        "waiting pays",
        "dial",
        [
            (
                "word = action.strip()",
                "word = action.strip()\n        if self.turns == 9:\n            return 'Late.', 0.5, True, False, {}",
            )
        ],
        ["9 empty actions", "0.5"],
    ),
    # 6 gold
    (
        "gold",
        "the solution raises",
        "dial",
        [('return ["50", str(self.secret)] if', "return [self.secret + 'x'] if")],
        ["TypeError", "seed"],
    ),
    ("gold", "the solution is not written", "dial", [("    def solution", "    def _solution")], ["solution"]),
    (
        "gold",
        "the solution gives another number",
        "dial",
        [('return ["50", str(self.secret)]', "return [str(self.secret + 1)]")],
        ["does not end the episode"],
    ),
    ("gold", "the full reward is never paid", "dial", [('"It opens.", 1.0', '"It opens.", 0.9')], ["0.9"]),
    (
        "gold",
        "the solution is longer than the episode",
        "dial",
        [("max_turns = 10", "max_turns = 1")],
        ["max_turns is 1"],
    ),
    (
        "gold",
        "the solution goes on after the end",
        "dial",
        [('["50", str(self.secret)]', '["50", str(self.secret), "0"]')],
        ["ends after action 2 of 3"],
    ),
    (
        "gold",
        "the winning step raises",
        "dial",
        [('return "It opens.", 1.0, True', 'return "It opens.", self.prize, True')],
        ["cannot be played", "AttributeError", "action"],
    ),
    (
        "gold",
        "the final reward is beyond 1",
        "dial",
        [('"It opens.", 1.0', '"It opens.", 7.0')],
        ["cannot be played", "reward"],
    ),
    (
        "goals",
        "a tool raises on the right order",
        "desk",
        [('return "cancelled"', 'return "cancelled" if order_id != self.ids[2] else self.done')],
        ["cannot be played", "AttributeError", "cancel_order"],
    ),
    (
        "gold",
        "the solution is empty",
        "dial",
        [('return ["50", str(self.secret)] if self.secret != 50 else ["50"]', "return []")],
        ["empty"],
    ),
]


@pytest.mark.parametrize(("gate", "defect", "base", "edits", "words"), BROKEN, ids=[f"{b[0]}-{b[1]}" for b in BROKEN])
async def test_a_broken_environment_fails_at_its_gate_and_passes_all_before(
    gate, defect, base, edits, words, check_broken
):
    await check_broken(gate, base, edits, words)


@pytest.mark.parametrize("base", ["desk", "dial"])
async def test_the_unbroken_environments_are_certified(base, make_sandbox, make_spec, request):
    sandbox = make_sandbox()
    certificate = await certify(make_spec(request.getfixturevalue(base)), sandbox)
    assert certificate.verdict is Verdict.CERTIFIED, certificate.reason
    assert certificate.gold_lengths and len(certificate.gold_lengths) == len(certificate.seeds) == 8
    assert sandbox.children == 3 + 3  # three at a time, and one fresh one for each play compared


async def test_the_real_sandbox_finds_every_broken_environment_at_the_same_gate(check_all_sandboxed):
    await check_all_sandboxed(BROKEN)


def test_each_of_the_first_six_gates_has_at_least_five_broken_environments():
    for gate in list(Gate)[:6]:
        assert sum(entry[0] == gate for entry in BROKEN) >= 5
