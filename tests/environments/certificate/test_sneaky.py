"""Environments written to get past the certificate: each looks sound, and none of them is certified."""

from __future__ import annotations

# ruff: noqa: E501 (an edit stands on one line, as in the source that it changes)
from dataclasses import dataclass

import pytest

from spade_environments.certificate import CertificateSettings, Verdict, certify, certify_many
from spade_environments.sandbox import open_sandbox

CODE_WORD = '''from spade_environments import TextEnv


class CodeWord(TextEnv):
    """Find a word by asking for its letters."""

    max_turns = 9
    observability = "partial"
    hidden = ("word",)
    WORDS = ("harbour", "lantern", "thimble", "orchard", "compass", "feather", "granite", "whistle", "cabinet", "journey",
             "biscuit", "pottery", "meadows", "railway", "volcano", "cushion", "dolphin", "mustard", "pyramid", "saddler")

    def reset(self, seed):
        self.word, self.turns = self.rng.choice(self.WORDS), 0
        return "A word of seven letters is sought. Ask 'letter N' for one of them, or say the word.", {}

    def step(self, action):
        self.turns += 1
        said = action.strip().lower()
        if said == self.word:
            return "That is it.", 1.0, True, False, {}
        first, _, place = said.partition(" ")
        if first == "letter" and place in ("1", "2", "3", "4", "5", "6", "7"):
            return f"It is {self.word[int(place) - 1]}.", 0.0, False, False, {}
        return "Ask 'letter N' with N from 1 to 7, or say the word.", 0.0, False, False, {}

    def solution(self):
        return ["letter 1", "letter 2", self.word]
'''

VAULT = '''from spade_environments import Call, Goal, ToolEnv, ToolError, tool


class Vault(ToolEnv):
    """Read codes and open boxes with them."""

    max_turns = 16
    hidden = ("codes",)

    def setup(self):
        self.names = self.rng.sample(["ash", "beech", "cedar", "elm", "fir", "holly"], 4)
        self.codes = {name: str(self.rng.randrange(10_000, 99_999)) for name in self.names}
        self.state = {name: "shut" for name in self.names}
        self.notes = {}

    @tool
    def read_slip(self, name: str) -> str:
        """Read the slip on which the code of a box is written."""
        if name not in self.state:
            raise ToolError("there is no such box")
        return f"The code of {name} is {self.codes[name]}."

    @tool
    def open_box(self, name: str, code: str) -> str:
        """Open a box with its code."""
        if name not in self.state:
            raise ToolError("there is no such box")
        if code != self.codes[name]:
            raise ToolError("the code is wrong")
        self.state[name] = "open"
        return f"{name} is open"

    @tool
    def note(self, text: str) -> str:
        """Write a note."""
        return "noted"

    def goals(self):
        first, second, third = self.names[:3]
        return [
            Goal("state", f"Open {first}.", lambda state, calls, reply: state[first] == "open"),
            Goal("replied", f"What is the code of {second}?", value=self.codes[second]),
            Goal("state", f"Open {third}.", lambda state, calls, reply: state[third] == "open"),
        ]

    def solution(self):
        first, second, third = self.names[:3]
        return [
            [Call("read_slip", name=first), Call("open_box", name=first, code=self.codes[first])],
            [Call("read_slip", name=second), self.codes[second]],
            [Call("read_slip", name=third), Call("open_box", name=third, code=self.codes[third])],
        ]
'''

SUMS = '''from spade_environments import TextEnv


class Sums(TextEnv):
    """Add and multiply."""

    max_turns = 1

    def reset(self, seed):
        self.a, self.b, self.c = (self.rng.randint(101, 999) for _ in range(3))
        self.answer = self.a * self.b - self.c
        return f"What is {self.a} times {self.b}, less {self.c}?", {}

    def step(self, action):
        said = action.strip()
        if said == str(self.answer):
            return "Right.", 1.0, True, False, {}
        return "Wrong.", 0.0, True, False, {}

    def solution(self):
        return [str(self.answer)]
'''

BASES = {"word": CODE_WORD, "vault": VAULT, "sums": SUMS}
START = '"A word of seven letters is sought. Ask'
SAID = "        said = action.strip().lower()\n"
WIN = "return 'Well.', 1.0, True, False, {}\n"
ASK = "Ask 'letter N' with N from 1 to 7, or say the word."


def told(expression: str) -> tuple[str, str]:
    """An edit that puts the value of `expression` into the first observation of the word game."""
    return START, f'f"Note {{{expression}}}. " + {START}'


@dataclass(frozen=True)
class Sneak:
    """What is hidden in which base, and the gate that has to find it."""

    gate: str
    what: str
    base: str
    edits: tuple[tuple[str, str], ...]
    imports: str = ""

    @property
    def source(self) -> str:
        source = BASES[self.base]
        for old, new in self.edits:
            assert old in source, (self.what, old)
            source = source.replace(old, new)
        return source.replace("\n\n\nclass", f"\n{self.imports}\n\n\nclass", 1)


def sneak(gate: str, what: str, base: str, *edits: tuple[str, str], imports: str = "") -> Sneak:
    return Sneak(gate, what, base, edits, imports)


SNEAKY = [
    # Leaks in another form.
    sneak("leak", "the hidden word stands there backwards", "word", told("self.word[::-1]")),
    sneak("leak", "the hidden word stands there in base64", "word",
          told("base64.b64encode(self.word.encode()).decode()"), imports="import base64"),
    sneak("leak", "the hidden word stands there in hex", "word", told("self.word.encode().hex()")),
    sneak("leak", "the hidden word is spelled out with dashes", "word", told("'-'.join(self.word)")),
    sneak("leak", "the hidden word is spelled out with spaces", "word", told("' '.join(self.word.upper())")),
    sneak("leak", "the hidden word stands there shifted by thirteen", "word",
          told("codecs_like(self.word)"), imports="import string\n\n\ndef codecs_like(word):\n    "
          "return ''.join(chr((ord(letter) - 84) % 26 + 97) for letter in word)"),
    sneak("leak", "the hidden word stands inside a longer one", "word", told("'xq' + self.word + 'zk'")),
    sneak("leak", "the hidden word stands there as numbers of its letters", "word",
          told("' '.join(str(ord(letter)) for letter in self.word)")),
    sneak("leak|floor", "a wrong action tells the hidden word", "word", (f'"{ASK}"', f'f"{ASK} Not {{self.word}}."')),
    sneak("leak", "a wrong action tells the hidden word in two halves", "word",
          (f'"{ASK}"', f'f"{ASK} {{self.word[:4] if self.turns % 2 else self.word[4:]}}"')),
    sneak("leak", "an error tells the hidden code", "vault",
          ('raise ToolError("the code is wrong")', 'raise ToolError(f"the code is wrong, not {self.codes[name]}")')),
    sneak("leak", "an error about an unknown box tells all hidden codes", "vault",
          ('raise ToolError("there is no such box")', 'raise ToolError(f"no such box in {self.codes}")')),
    sneak("leak", "a grade is told before the end", "word",
          (f'"{ASK}"', f'f"{ASK} Grade: {{sum(a == b for a, b in zip(said, self.word)) / 7:.2f}}."')),
    sneak("leak", "a score in percent is told before the end", "word",
          (f'"{ASK}"', f'f"{ASK} Score: {{100 * sum(a == b for a, b in zip(said, self.word)) // 7}}%."')),
    sneak("leak", "a tool tells the reward", "vault", ('return "noted"', 'return {"noted": True, "reward": 0.0}')),
    sneak("leak", "it says that it is partly observed, and the one action stands at the end of a long text", "word",
          ("max_turns = 9", "max_turns = 2"),
          (START, '" ".join(f"page{n}" for n in range(300)) + f" The word is {self.word}. " + ' + START),
          ('["letter 1", "letter 2", self.word]', "[self.word]"), ('    hidden = ("word",)\n', "")),
    # Won without understanding.
    sneak("floor", "a word that only the middle of a long text names always wins", "word",
          (SAID, SAID + '        if said == "surrender":\n            ' + WIN),
          (START, '" ".join(f"page{n}" for n in range(12)) + " or surrender. " + ' + START)),
    sneak("floor", "a plea for help wins", "word", (SAID, SAID + '        if said == "help":\n            ' + WIN)),
    sneak("floor", "a letter of the word is enough", "word",
          ("if said == self.word:", "if said and said in self.word:")),
    sneak("floor", "the beginning of the answer is enough", "sums",
          ("if said == str(self.answer):", "if said and str(self.answer).startswith(said):")),
    sneak("floor", "any action from the ninth on wins", "word",
          (SAID, SAID + "        if self.turns >= 9 and said:\n            " + WIN)),
    sneak("floor", "only seeds' names differ", "word",
          ("self.rng.choice(self.WORDS)", "'harbour'"), (START, 'f"Game {seed}. " + ' + START)),
    sneak("floor", "a near miss is as good", "sums",
          ("if said == str(self.answer):", "if said.isdecimal() and abs(int(said) - self.answer) < 300_000:")),
    sneak("goals", "a wrong answer pays a fifth", "sums", ('"Wrong.", 0.0', '"Wrong.", 0.2')),
    sneak("goals", "every instruction is met by any words", "vault",
          ('state[first] == "open"', "bool(reply)"), ('state[third] == "open"', "bool(reply)"),
          ("value=self.codes[second])", "lambda state, calls, reply: bool(reply))"), ('Goal("state"', 'Goal("called"'),
          ("Call(\"open_box\", name=first, code=self.codes[first])]", "'Well.']"),
          ("Call(\"open_box\", name=third, code=self.codes[third])]", "'Well.']")),
    sneak("floor", "a tool without arguments does everything", "vault",
          ("    @tool\n    def note", '    @tool\n    def settle(self) -> str:\n        """Bring the books up to date."""\n'
           '        self.state = {name: "open" for name in self.state}\n        self.state[len(self.notes)] = "x"\n'
           '        self.notes[len(self.notes)] = 1\n        return str(sorted(self.codes.values()))\n\n    @tool\n    def note'),
          ("value=self.codes[second])", "lambda state, calls, reply: len(calls) > 0)")),
    # A goal that asks for nothing.
    sneak("goals", "one of the instructions is met by any words", "vault",
          ("value=self.codes[second])", "lambda state, calls, reply: len(reply) > 0)")),
    sneak("goals", "an instruction is met by the calls of the one before it", "vault",
          ('Goal("state", f"Open {third}.", lambda state, calls, reply: state[third] == "open")',
           'Goal("called", f"See that {first} is open.", lambda state, calls, reply: state[first] == "open")'),
          ("Call(\"open_box\", name=third, code=self.codes[third])]", "'It is.']")),
    sneak("floor", "an instruction is met by any change", "vault",
          ('return "noted"', 'self.state["note"] = text\n        return "noted"'),
          ('lambda state, calls, reply: state[third] == "open"', "lambda state, calls, reply: True")),
    sneak("floor", "an instruction to read one slip is met by reading any", "vault",
          ('Goal("state", f"Open {third}.", lambda state, calls, reply: state[third] == "open")',
           'Goal("called", f"Read the slip of {third}.",\n                 '
           'lambda state, calls, reply: any(call.name == "read_slip" for call in calls))'),
          (', Call("open_box", name=third, code=self.codes[third])]', "]")),
    sneak("goals", "its state is never equal to itself, so that nothing counts as a change", "vault",
          ('self.state = {name: "shut" for name in self.names}', "self.state = Odd(zip(self.names, ['shut'] * 4))"),
          ('state[first] == "open"', "True"),
          imports="\n\nclass Odd(dict):\n    def __ne__(self, other):\n        return True"),
    # Odd input.
    sneak("robustness", "a goal's check reads the result of a call that failed", "vault",
          ('Goal("state", f"Open {third}.", lambda state, calls, reply: state[third] == "open")',
           'Goal("called", f"Read the slip of {third}.",\n                 '
           'lambda state, calls, reply: bool(calls) and calls[-1].result.split("code of ")[1].startswith(third))'),
          (', Call("open_box", name=third, code=self.codes[third])]', "]")),
    sneak("goals|robustness", "a goal's check takes for granted that there was a call", "vault",
          ('Goal("state", f"Open {third}.", lambda state, calls, reply: state[third] == "open")',
           'Goal("called", f"Read the slip of {third}.",\n                 '
           'lambda state, calls, reply: reply != "" and not calls[0].arguments["name"] != third)'),
          (', Call("open_box", name=third, code=self.codes[third])]', ", 'Read.']")),
    sneak("robustness", "a digit that is no number raises", "word",
          ('place in ("1", "2", "3", "4", "5", "6", "7")', "place.isdigit() and 0 < int(place) < 8")),
    sneak("robustness", "a number of thousands of digits raises", "sums",
          ("if said == str(self.answer):", "if said.isdecimal() and int(said) == self.answer:")),
    sneak("robustness", "a pattern of its own takes for ever on some words", "word",
          ("if said == self.word:", 'if re.match(r"^(\\w+\\s?)*$", said) and said == self.word:'), imports="import re"),
    sneak("robustness", "deep brackets raise", "sums",
          ("said = action.strip()", "said = action.strip()\n        try:\n            json.loads(said)\n"
           "        except ValueError:\n            pass"), imports="import json"),
    sneak("robustness", "nothing compares with what is no number", "sums",
          ("said = action.strip()", "said = action.strip()\n        try:\n            value = float(said)\n"
           "        except ValueError:\n            value = 0.0"),
          ("if said == str(self.answer):", "if not (value < self.answer or value > self.answer):")),
    sneak("robustness", "an amount below zero breaks a tool", "vault",
          ("def note(self, text: str)", "def note(self, text: str, times: int = 1)"),
          ('return "noted"', 'return "noted " + "and again "[: (16 // (times + 1)) * 3]'),
          ('[Call("read_slip", name=second), ', '[Call("note", text="x", times=2), Call("read_slip", name=second), ')),
    sneak("reset|robustness", "late in the game an observation is far too large", "word",
          (f'"{ASK}"', f'"{ASK}" + " more" * (9000 if self.turns > 8 and self.word < "g" else 0)')),
    # What is kept from one episode to the next, or comes from outside.
    sneak("determinism", "a module keeps count of the episodes", "word",
          (SAID, SAID + "        SEEN.append(said)\n"), (f'"{ASK}"', f'f"{ASK} ({{len(SEEN) % 3}})"'), imports="\nSEEN = []"),
    sneak("determinism", "a default argument is kept", "word",
          ("def step(self, action):", "def step(self, action, seen=[]):\n        seen.append(action)"),
          (f'"{ASK}"', f'f"{ASK} {{len(seen)}}"')),
    sneak("determinism", "a cache answers as it did in another episode", "vault",
          ('"""Read the slip', '"""Read the slip of a box, on'), ("on which the code", "on which its code"),
          ("    @tool\n    def read_slip", "    SLIPS = {}\n\n    @tool\n    def read_slip"),
          ('return f"The code of {name} is {self.codes[name]}."',
           'return self.SLIPS.setdefault(name, f"The code of {name} is {self.codes[name]}.")')),
    sneak("robustness", "after fifty episodes it changes", "word",
          ("self.word, self.turns = ", "COUNT[0] += 1\n        self.word, self.turns = "),
          ('return f"It is {', 'return f"It {\'may be\' if COUNT[0] > 50 else \'is\'} {'), imports="\nCOUNT = [0]"),
    sneak("determinism", "the address of an object decides", "word",
          ("self.rng.choice(self.WORDS), 0", "self.WORDS[id(self) // 16 % 20], 0")),
    sneak("determinism", "the text of an object shows", "vault", ('return "noted"', 'return f"noted {object()!r}"')),
    sneak("determinism", "a late step of one play in two depends on it", "word",
          (f'"{ASK}"', f'"{ASK}" + (str(id(self) % 99991) if self.turns > 8 and self.word > "g" else "")')),
    sneak("gold", "the solution prepares the way for itself", "word",
          ('return ["letter 1"', 'type(self).READY = True\n        return ["letter 1"'),
          ("if said == self.word:", 'if said == self.word and getattr(self, "READY", False):')),
    sneak("gold", "the solution is right on most seeds only", "sums",
          ("return [str(self.answer)]", "return [str(self.answer + (self.a % 4 == 0))]")),
    sneak("gold", "the last step pays nearly all", "word", ('"That is it.", 1.0', '"That is it.", 0.999')),
    sneak("load", "it makes its tools while it loads, with one of a reserved name", "vault",
          ("    def goals(self):", "    hint = tool(read_slip)\n\n    def goals(self):")),
    sneak("lint", "it reaches its own class by its name in text", "word",
          ("self.turns += 1", "self.turns += 1\n        vars(type(self))")),
]  # fmt: skip


SANDBOX_ONLY = frozenset(
    {
        "the address of an object decides",
        "a late step of one play in two depends on it",
        "the text of an object shows",
        "a pattern of its own takes for ever on some words",
    }
)
"""What only the sandbox finds: in one process there is one heap, and no limit on time."""


@pytest.mark.parametrize("entry", [entry for entry in SNEAKY if entry.what not in SANDBOX_ONLY], ids=lambda e: e.what)
async def test_a_sneaky_environment_is_found_out(entry, make_spec, make_sandbox):
    certificate = await certify(make_spec(entry.source), make_sandbox())
    assert certificate.verdict is Verdict.REJECTED, "certified"
    assert certificate.reason.gate.value in entry.gate.split("|"), certificate.reason
    assert len(certificate.repair) > len(certificate.reason.evidence) + 10


async def test_the_sandbox_finds_every_sneaky_environment_out(make_spec):
    async with open_sandbox() as sandbox:
        specs = [make_spec(entry.source) for entry in SNEAKY]
        certificates = await certify_many(specs, sandbox, settings=CertificateSettings())
    for entry, certificate in zip(SNEAKY, certificates, strict=True):
        assert certificate.verdict is Verdict.REJECTED, (entry.what, certificate)
        assert certificate.reason.gate.value in entry.gate.split("|"), (entry.what, certificate.reason)


async def test_the_bases_of_the_sneaky_ones_are_sound(make_spec, make_sandbox):
    for name, source in BASES.items():
        certificate = await certify(make_spec(source), make_sandbox())
        assert certificate.verdict is Verdict.CERTIFIED, (name, certificate.reason)


def test_there_are_forty_of_them():
    assert len(SNEAKY) >= 40
    assert len({entry.source for entry in SNEAKY}) == len(SNEAKY)
