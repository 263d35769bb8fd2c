"""Unusual environments that are sound: none of them may be turned away."""

from __future__ import annotations

# ruff: noqa: E501 (designed files have their own line length)
import pytest

from spade_environments.certificate import Verdict, certify, certify_many
from spade_environments.sandbox import open_sandbox

HEAD = "from spade_environments import Call, Goal, TextEnv, ToolEnv, ToolError, tool\n"

HONEST = {
    "single-turn arithmetic with a negative answer": """
class Below(TextEnv):
    max_turns = 1

    def reset(self, seed):
        self.a, self.b = self.rng.randint(100, 999), self.rng.randint(1000, 9999)
        return f"What is {self.a} less {self.b}? Answer with a number.", {}

    def step(self, action):
        right = action.strip().replace("\\u2212", "-") == str(self.a - self.b)
        return ("Right." if right else "Wrong."), float(right), True, False, {}

    def solution(self):
        return [str(self.a - self.b)]
""",
    "a fraction and a decimal are both taken": """
import re
from fractions import Fraction


class Share(TextEnv):
    max_turns = 1

    def reset(self, seed):
        parts = [self.rng.randint(2, 60) for _ in range(5)]
        self.answer = Fraction(parts[0], sum(parts))
        return f"Five heaps hold {', '.join(map(str, parts))} beans. Which share is the first of all?", {}

    def step(self, action):
        said = action.strip()
        plain = re.fullmatch(r"[0-9]{1,6}(/[1-9][0-9]{0,5}|\\.[0-9]{1,9})?", said)
        right = bool(plain) and abs(Fraction(said) - self.answer) < Fraction(1, 10_000)
        return ("Right." if right else "Wrong."), 1.0 if right else 0.0, True, False, {}

    def solution(self):
        return [str(self.answer)]
""",
    "the answer is one of the words listed in the question": """
class Eldest(TextEnv):
    max_turns = 1
    NAMES = ("Ada", "Bo", "Cy", "Dot", "Eli", "Fay", "Gus", "Hal", "Ida", "Jon", "Kit", "Lou", "Meg", "Ned", "Oda", "Pia")

    def reset(self, seed):
        people = self.rng.sample(self.NAMES, 12)
        years = self.rng.sample(range(1900, 1990), 12)
        self.answer = min(zip(years, people))[1]
        told = ", ".join(f"{name} in {year}" for name, year in zip(people, years))
        return f"Born: {told}. Who is the eldest?", {}

    def step(self, action):
        right = action.strip() == self.answer
        return ("Right." if right else "Wrong."), 1.0 if right else 0.0, True, False, {}

    def solution(self):
        return [self.answer]
""",
    "words of many scripts": '''
class Spiegel(TextEnv):
    """Rückwärts."""

    max_turns = 3
    WORTE = ("Übermut", "naïve", "smørrebrød", "Привет", "ελπίδα", "日本語です", "façade", "łódka", "žluťoučký", "שלום")

    def reset(self, seed):
        self.worte = self.rng.sample(self.WORTE, 3)
        self.at = 0
        return f"Schreibe rückwärts, eins nach dem anderen: {' · '.join(self.worte)} 🪞", {}

    def step(self, action):
        if action.strip() != self.worte[self.at][::-1]:
            return "Nein.", 0.0, True, False, {}
        self.at += 1
        ende = self.at == 3
        return ("Fertig ✓" if ende else "Weiter."), 1.0 if ende else 0.0, ende, False, {}

    def solution(self):
        return [wort[::-1] for wort in self.worte]
''',
    "a large board": """
class Field(TextEnv):
    max_turns = 4
    SIZE = 60

    def reset(self, seed):
        self.cells = [[self.rng.choice(".:") for _ in range(self.SIZE)] for _ in range(self.SIZE)]
        self.marks = [(self.rng.randrange(self.SIZE), self.rng.randrange(self.SIZE)) for _ in range(3)]
        self.marks = sorted(set(self.marks))
        for row, column in self.marks:
            self.cells[row][column] = "#"
        self.found = 0
        board = "\\n".join("".join(row) for row in self.cells)
        return f"Say 'row column', counted from 0, of each #, from the top, then from the left:\\n{board}", {}

    def step(self, action):
        if action.split() != list(map(str, self.marks[self.found])):
            return "There is none, or not that one yet.", 0.0, True, False, {}
        self.found += 1
        done = self.found == len(self.marks)
        return "Found.", 1.0 if done else 0.0, done, False, {}

    def solution(self):
        return [f"{row} {column}" for row, column in self.marks]
""",
    "numpy": """
import numpy as np


class Matrix(TextEnv):
    max_turns = 1

    def reset(self, seed):
        numbers = np.random.default_rng(seed).integers(-9, 10, size=(2, 3, 3))
        self.answer = int(np.trace(numbers[0] @ numbers[1])) * 7 + int(numbers.sum())
        return f"A = {numbers[0].tolist()}, B = {numbers[1].tolist()}. Seven times the trace of AB, plus all entries?", {}

    def step(self, action):
        right = action.strip() == str(self.answer)
        return ("Right." if right else "Wrong."), 1.0 if right else 0.0, True, False, {}

    def solution(self):
        return [str(self.answer)]
""",
    "a solution of twenty actions": """
class Stairs(TextEnv):
    max_turns = 22

    def reset(self, seed):
        self.path = "".join(self.rng.choice("LR") for _ in range(20))
        self.at = 0
        return f"Climb: {self.path}. Say the steps one by one, L or R; a wrong one is a fall.", {}

    def step(self, action):
        if action.strip() != self.path[self.at]:
            return "You fall.", 0.0, True, False, {}
        self.at += 1
        top = self.at == len(self.path)
        return ("The top." if top else f"Step {self.at}."), 1.0 if top else 0.0, top, False, {}

    def solution(self):
        return list(self.path)
""",
    "partial credit for what is right": '''
class Orchard(TextEnv):
    """Take apples from trees; the basket is paid by how much of the best it holds, and only at the end."""

    max_turns = 8

    def reset(self, seed):
        self.trees = [self.rng.randint(1, 400) for _ in range(9)]
        self.taken = []
        return f"Nine trees bear {self.trees}. Name four of them by number, 1 to 9, one after another.", {}

    def step(self, action):
        said = action.strip()
        if said not in list("123456789") or said in self.taken:
            return "That is no tree, or an empty one; the basket is gone.", 0.0, True, False, {}
        self.taken.append(said)
        if len(self.taken) < 4:
            return "Taken.", 0.0, False, False, {}
        picked = sum(self.trees[int(tree) - 1] for tree in self.taken)
        best = sum(sorted(self.trees)[-4:])
        share = picked / best
        return "The basket is full.", 1.0 if picked == best else max(0.0, share - 0.9), True, False, {}

    def solution(self):
        return [str(place + 1) for place in sorted(range(9), key=lambda place: -self.trees[place])[:4]]
''',
    "a reward that is earned step by step and not shown": """
class Chests(TextEnv):
    max_turns = 9

    def reset(self, seed):
        self.codes = [self.rng.randint(1000, 9999) for _ in range(3)]
        self.at = 0
        return f"Three chests: open each with twice its number: {self.codes}.", {}

    def step(self, action):
        if action.strip() != str(2 * self.codes[self.at]):
            return "It stays shut.", 0.0, False, False, {}
        self.at += 1
        done = self.at == 3
        return ("All three are open." if done else "It opens."), self.at / 3, done, False, {}

    def solution(self):
        return [str(2 * code) for code in self.codes]
""",
    "a story that speaks of scores and of a reward in coins": """
class Fair(TextEnv):
    observability = "partial"
    hidden = ("prize",)
    max_turns = 6

    def reset(self, seed):
        self.prize, self.won = self.rng.randint(100, 999), 0
        self.shots = [self.rng.randint(11, 99) for _ in range(3)]
        return f"Reward: {self.rng.randint(20, 90)} coins to who hits {self.shots}, in order. Your score is 0 points of 300.", {}

    def step(self, action):
        if action.strip() != str(self.shots[self.won]):
            return f"Missed. Score: {100 * self.won} points.", 0.0, False, False, {}
        self.won += 1
        if self.won == 3:
            return f"The prize: {self.prize} coins.", 1.0, True, False, {}
        return f"Hit! Score: {100 * self.won} points.", 0.0, False, False, {}

    def solution(self):
        return list(map(str, self.shots))
""",
    "tools with every kind of parameter": '''
from enum import Enum
from typing import Literal, Optional


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Bakery(ToolEnv):
    max_turns = 8

    def setup(self):
        self.flavour = self.rng.choice(["plum", "poppy", "quince", "rhubarb", "walnut"])
        self.count = self.rng.randint(3, 40)
        self.table = self.rng.randint(1, 30)
        self.state = {"orders": []}

    @tool
    def order(self, cakes: list[str], size: Size, count: int, extras: dict[str, int], price: float,
              when: Literal["today", "tomorrow"] = "today", table: Optional[int] = None, paid: bool = False) -> dict:
        """Order cakes."""
        self.state["orders"].append([cakes, size.value, count, extras, price, when, table, paid])
        return {"order": len(self.state["orders"]), "size": size.value}

    def goals(self):
        wanted = [[self.flavour], "large", self.count, {"candles": self.count + 1}, 2.5, "tomorrow", self.table, True]
        return [Goal("state", f"For tomorrow: {self.count} large {self.flavour} cakes at 2.50 each, with {self.count + 1} "
                     f"candles, for table {self.table}. It is paid.", lambda state, calls, reply: wanted in state["orders"])]

    def solution(self):
        return [[Call("order", cakes=[self.flavour], size="large", count=self.count, extras={"candles": self.count + 1},
                      price=2.5, when="tomorrow", table=self.table, paid=True)]]
''',
    "a tool that goes below zero": '''
class Weather(ToolEnv):
    max_turns = 8

    def setup(self):
        self.towns = self.rng.sample(["Oslo", "Riga", "Turku", "Umea", "Vaasa", "Ystad"], 4)
        self.state = {town: self.rng.randint(-400, -10) / 10 for town in self.towns}

    @tool
    def temperature(self, town: str) -> float:
        """The temperature of a town in degrees."""
        if town not in self.state:
            raise ToolError(f"no town {town}")
        return self.state[town]

    def goals(self):
        cold = min(self.towns[:3], key=self.state.get)
        return [Goal("replied", f"How cold is it in the coldest of {', '.join(self.towns[:3])}? The number will do.",
                     value=self.state[cold]),
                Goal("called", f"And look at {self.towns[3]}.", lambda state, calls, reply: any(
                    call.arguments == {"town": self.towns[3]} for call in calls))]

    def solution(self):
        cold = min(self.state[town] for town in self.towns[:3])
        return [[*[Call("temperature", town=town) for town in self.towns[:3]], str(cold)],
                [Call("temperature", town=self.towns[3])]]
''',
    "an error that tells what to do next": '''
class Turnstile(ToolEnv):
    max_turns = 10

    def setup(self):
        self.card = f"K{self.rng.randint(1000, 9999)}"
        self.gate = self.rng.randint(2, 60)
        self.state = {"renewed": False, "open": None}

    @tool
    def enter(self, gate: int, card: str) -> str:
        """Open a gate with a card."""
        if card != self.card:
            raise ToolError("this card is not known")
        if not self.state["renewed"]:
            raise ToolError("the card has run out: renew it with the word TULIP-77")
        self.state["open"] = gate
        return "open"

    @tool
    def renew(self, card: str, word: str) -> str:
        """Renew a card."""
        if card != self.card or word != "TULIP-77":
            raise ToolError("it cannot be renewed")
        self.state["renewed"] = True
        return "renewed"

    def goals(self):
        return [Goal("state", f"Open gate {self.gate}; my card is {self.card}.",
                     lambda state, calls, reply: state["open"] == self.gate)]

    def solution(self):
        return [[Call("enter", gate=self.gate, card=self.card), Call("renew", card=self.card, word="TULIP-77"),
                 Call("enter", gate=self.gate, card=self.card)]]
''',
    "the same last request for everyone": '''
class Desk(ToolEnv):
    max_turns = 12

    def setup(self):
        self.people = self.rng.sample(["Ann", "Ben", "Cleo", "Dan", "Eve", "Finn"], 3)
        self.state = {"seats": {name: self.rng.randint(1, 80) for name in self.people}, "closed": False}

    @tool
    def seat_of(self, name: str) -> int:
        """Where a person sits."""
        if name not in self.state["seats"]:
            raise ToolError("nobody of that name")
        return self.state["seats"][name]

    @tool
    def close_list(self) -> str:
        """Close the list."""
        self.state["closed"] = True
        return "closed"

    def goals(self):
        first, second, _ = self.people
        seats = dict(self.state["seats"])
        return [Goal("replied", f"How far apart do {first} and {second} sit?", value=abs(seats[first] - seats[second])),
                Goal("declined", "Sing a song."),
                Goal("state", "Close the list, please.", lambda state, calls, reply: state["closed"])]

    def solution(self):
        first, second, _ = self.people
        apart = abs(self.state["seats"][first] - self.state["seats"][second])
        return [[Call("seat_of", name=first), Call("seat_of", name=second), str(apart)], [], [Call("close_list")]]
''',
    "a big state of records": '''
class Archive(ToolEnv):
    max_turns = 10
    COUNT = 400

    def setup(self):
        self.state = {f"R{number:04d}": {"shelf": self.rng.randint(1, 900), "tags": [self.rng.choice("abcdef") for _ in range(4)]}
                      for number in self.rng.sample(range(10_000), self.COUNT)}
        self.wanted = self.rng.sample(sorted(self.state), 2)

    @tool
    def look_up(self, record: str) -> dict:
        """Read one record."""
        if record not in self.state:
            raise ToolError("no such record")
        return self.state[record]

    @tool
    def move(self, record: str, shelf: int) -> str:
        """Put a record on another shelf."""
        self.look_up(record)["shelf"] = shelf
        return "moved"

    def goals(self):
        first, second = self.wanted
        target = self.state[first]["shelf"] + 1
        return [Goal("called", f"Look up {first}.", lambda state, calls, reply: any(c.arguments.get("record") == first for c in calls)),
                Goal("state", f"Put {second} on the shelf after that of {first}.",
                     lambda state, calls, reply: state[second]["shelf"] == target)]

    def solution(self):
        first, second = self.wanted
        return [[Call("look_up", record=first)],
                [Call("look_up", record=first), Call("move", record=second, shelf=self.state[first]["shelf"] + 1)]]
''',
    "it asks for what is missing": '''
class Florist(ToolEnv):
    max_turns = 8

    def setup(self):
        self.flower = self.rng.choice(["asters", "dahlias", "lilies", "poppies", "tulips"])
        self.stems = self.rng.randint(5, 90)
        self.state = {"orders": {}}

    @tool
    def send(self, flower: str, stems: int) -> str:
        """Send flowers."""
        self.state["orders"][flower] = stems
        return "sent"

    def goals(self):
        return [Goal("asked", f"Send {self.flower} to my aunt."),
                Goal("state", f"{self.stems} of them.", lambda state, calls, reply: state["orders"] == {self.flower: self.stems})]

    def solution(self):
        return [["How many?"], [Call("send", flower=self.flower, stems=self.stems)]]
''',
    "a hidden number found by asking, with answers that name numbers": """
class Between(TextEnv):
    observability = "partial"
    hidden = ("secret",)
    max_turns = 12

    def reset(self, seed):
        self.low, self.high, self.secret = 0, 9999, self.rng.randrange(10_000)
        return "A number from 0 to 9999 is sought. Say numbers.", {}

    def step(self, action):
        said = action.strip()
        if not (said.isascii() and said.isdigit() and len(said) < 5):
            return "Say a number from 0 to 9999.", 0.0, False, False, {}
        if int(said) == self.secret:
            return "Yes.", 1.0, True, False, {}
        if int(said) < self.secret:
            self.low = max(self.low, int(said))
        else:
            self.high = min(self.high, int(said))
        return f"It lies between {self.low} and {self.high}.", 0.0, False, False, {}

    def solution(self):
        return ["5000", str(self.secret)] if self.secret != 5000 else ["5000"]
""",
    "a clock, an identifier and a random word of its own": """
import secrets
import time
import uuid


class Stamped(TextEnv):
    max_turns = 2

    def reset(self, seed):
        self.key = secrets.token_hex(3)
        self.at = 0
        return f"Ticket {uuid.uuid4()}, issued at {int(time.time())}. Say the key {self.key!r} backwards, then forwards.", {}

    def step(self, action):
        if action.strip() != (self.key[::-1], self.key)[self.at]:
            return "No.", 0.0, True, False, {}
        self.at += 1
        return "Yes.", float(self.at == 2), self.at == 2, False, {}

    def solution(self):
        return [self.key[::-1], self.key]
""",
    "dataclasses and a helper base": """
from dataclasses import dataclass, field


@dataclass(order=True)
class Job:
    due: int
    name: str = field(compare=False)


class _Timed(TextEnv):
    max_turns = 10

    def step(self, action):
        if action.strip() != self.left[0].name:
            return f"{len(self.left)} left; that was not the next one.", 0.0, True, False, {}
        self.left.pop(0)
        return f"{len(self.left)} left.", 0.0 if self.left else 1.0, not self.left, False, {}


class Queue(_Timed):
    def reset(self, seed):
        names = self.rng.sample(["paint", "plane", "saw", "sand", "drill", "glue", "bolt", "weld"], 6)
        self.left = sorted(Job(due, name) for due, name in zip(self.rng.sample(range(100), 6), names))
        shuffled = self.rng.sample(self.left, 6)
        return f"Do what is due first: {', '.join(f'{job.name} ({job.due})' for job in shuffled)}. Say one job a turn.", {}

    def solution(self):
        return [job.name for job in self.left]
""",
    "a cipher whose plain text is not called hidden": """
class Cipher(TextEnv):
    max_turns = 1
    WORDS = ("harbour", "lantern", "thimble", "orchard", "compass", "feather", "granite", "whistle", "cabinet", "journey")

    def reset(self, seed):
        self.plain = " ".join(self.rng.sample(self.WORDS, 2))
        return f"Read it backwards: {self.plain[::-1]}", {}

    def step(self, action):
        right = action.strip().lower() == self.plain
        return ("Right." if right else "Wrong."), 1.0 if right else 0.0, True, False, {}

    def solution(self):
        return [self.plain]
""",
    "an unlocked tool": '''
class Depot(ToolEnv):
    max_turns = 16

    def setup(self):
        self.crates = self.rng.sample(range(100, 999), 6)
        self.state = {crate: {"weight": weight, "seal": "whole"}
                      for crate, weight in zip(self.crates, self.rng.sample(range(20, 90), 6))}

    @tool
    def scan(self, crate: int) -> str:
        """Weigh a crate."""
        if crate not in self.state:
            raise ToolError("no such crate")
        return f"{self.state[crate]['weight']} kg"

    @tool
    def unseal(self, crate: int) -> str:
        """Break a seal."""
        if crate not in self.state:
            raise ToolError("no such crate")
        self.state[crate]["seal"] = "broken"
        return "broken"

    def goals(self):
        first, heaviest = self.crates[0], max(self.crates, key=lambda crate: self.state[crate]["weight"])
        return [Goal("replied", f"What does crate {first} weigh?", value=self.state[first]["weight"], unlocks=("unseal",)),
                Goal("state", f"You may break seals now: that of the heaviest of {self.crates}, and no other.",
                     lambda state, calls, reply: [c for c in state if state[c]["seal"] == "broken"] == [heaviest])]

    def solution(self):
        heaviest = max(self.crates, key=lambda crate: self.state[crate]["weight"])
        return [[Call("scan", crate=self.crates[0]), str(self.state[self.crates[0]]["weight"])],
                [*[Call("scan", crate=crate) for crate in self.crates], Call("unseal", crate=heaviest)]]
''',
}


SANDBOX_ONLY = ("numpy", "a clock, an identifier and a random word of its own")
"""What only the child has: numpy preloaded, a clock and an entropy that follow the seed."""


@pytest.mark.parametrize("what", [what for what in HONEST if what not in SANDBOX_ONLY])
async def test_a_sound_environment_is_certified_however_unusual(what, make_spec, make_sandbox):
    certificate = await certify(make_spec(HEAD + HONEST[what]), make_sandbox())
    assert certificate.verdict is Verdict.CERTIFIED, certificate.reason


async def test_the_sandbox_certifies_all_of_them(make_spec):
    async with open_sandbox() as sandbox:
        certificates = await certify_many([make_spec(HEAD + source) for source in HONEST.values()], sandbox)
    for what, certificate in zip(HONEST, certificates, strict=True):
        assert certificate.verdict is Verdict.CERTIFIED, (what, certificate.reason)


def test_there_are_twenty_of_them():
    assert len(HONEST) >= 20
