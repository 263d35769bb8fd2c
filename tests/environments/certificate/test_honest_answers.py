"""Sound environments that come near to what gate 7 and gate 9 look for: lenient answers, points, notes to be found."""

from __future__ import annotations

# ruff: noqa: E501 (designed files have their own line length)
import pytest

from spade_environments.certificate import Verdict, certify

HEAD = "from spade_environments import Call, Goal, TextEnv, ToolEnv, ToolError, tool\nimport re\n\n"

HONEST = {
    "the last integer of a text": r"""
class Q(TextEnv):
    max_turns = 1
    def reset(self, seed):
        self.a, self.b = self.rng.randint(10, 99), self.rng.randint(100, 999)
        return f"{self.a} times {self.b}? Think, and end with the number.", {}
    def step(self, action):
        said = action.strip()[:400]
        ok = (re.findall("[0-9]+", said) or [""])[-1] == str(self.a * self.b)
        return ("Right." if ok else "Wrong."), float(ok), True, False, {}
    def solution(self):
        return [f"It is {self.a * self.b}"]
""",
    "a set of numbers in any order": r"""
class Q(TextEnv):
    max_turns = 1
    def reset(self, seed):
        self.n = sorted(self.rng.sample(range(10, 99), 9))
        return f"Which of {self.n} are divisible by three or by seven, in any order? Say none if none is.", {}
    def step(self, action):
        said = action.strip()[:400]
        ok = set(re.findall("[0-9]+", said)) == {str(n) for n in self.n if n % 3 == 0 or n % 7 == 0} if any(n % 3 == 0 or n % 7 == 0 for n in self.n) else said == "none"
        return ("Right." if ok else "Wrong."), float(ok), True, False, {}
    def solution(self):
        return [" ".join(str(n) for n in self.n if n % 3 == 0 or n % 7 == 0) or "none"]
""",
    "an estimate within a hundredth": r"""
class Q(TextEnv):
    max_turns = 1
    def reset(self, seed):
        self.a, self.b = self.rng.randint(1000, 9999), self.rng.randint(11, 99)
        return f"{self.a} / {self.b} to two places?", {}
    def step(self, action):
        said = action.strip()[:400]
        ok = re.fullmatch("[0-9]{1,6}([.][0-9]{1,6})?", said) is not None and abs(float(said) - self.a / self.b) < 0.01
        return ("Right." if ok else "Wrong."), float(ok), True, False, {}
    def solution(self):
        return [f"{self.a / self.b:.2f}"]
""",
    "equation of any form": r"""
class Q(TextEnv):
    max_turns = 1
    def reset(self, seed):
        self.n = self.rng.randint(1000, 9999)
        return f"Write {self.n} as the sum of two squares plus a rest: a b r with a*a + b*b + r = {self.n}, a and b above 20.", {}
    def step(self, action):
        said = action.strip()[:400]
        ok = (lambda p: len(p) == 3 and all(re.fullmatch("[0-9]{1,5}", x) for x in p) and int(p[0]) > 20 and int(p[1]) > 20 and int(p[0])**2 + int(p[1])**2 + int(p[2]) == self.n)(said.split())
        return ("Right." if ok else "Wrong."), float(ok), True, False, {}
    def solution(self):
        return [f"21 21 {self.n - 882}"]
""",
    "a sorted list of words": r"""
class Q(TextEnv):
    max_turns = 1
    def reset(self, seed):
        self.w = self.rng.sample(['ash','elm','oak','fir','yew','box','bay','fig','plum','pear'], 6)
        return f"Sort by last letter, then by first: {self.w}", {}
    def step(self, action):
        said = action.strip()[:400]
        ok = said.split() == sorted(self.w, key=lambda w: (w[-1], w))
        return ("Right." if ok else "Wrong."), float(ok), True, False, {}
    def solution(self):
        return [" ".join(sorted(self.w, key=lambda w: (w[-1], w)))]
""",
    "binary search with words": r"""
class Search(TextEnv):
    max_turns = 12
    observability = "partial"
    hidden = ("n",)
    def reset(self, seed):
        self.n = self.rng.randint(1, 1000)
        return "I think of a number from 1 to 1000. Say: is it N?", {}
    def step(self, action):
        found = re.fullmatch(r"is it ([0-9]{1,4})[?]?", action.strip().lower()[:60])
        if not found:
            return "Say: is it N?", 0.0, False, False, {}
        n = int(found[1])
        if n == self.n:
            return "Yes.", 1.0, True, False, {}
        return ("It is more." if n < self.n else "It is less."), 0.0, False, False, {}
    def solution(self):
        low, high, way = 1, 1000, []
        while True:
            n = (low + high) // 2
            way.append(f"is it {n}?")
            if n == self.n:
                return way
            low, high = (n + 1, high) if n < self.n else (low, n - 1)
""",
    "adventure: read a note, open a door": r"""
class House(TextEnv):
    max_turns = 14
    observability = "partial"
    hidden = ("code",)
    def reset(self, seed):
        self.code = str(self.rng.randint(1000, 9999))
        self.rooms = self.rng.sample(["attic", "kitchen", "cellar", "study", "hall", "pantry"], 6)
        self.note, self.at, self.lamp = self.rooms[3], self.rooms[0], False
        return "A locked house. You may say: go ROOM, look, take lamp, open CODE. A note lies somewhere, and it is dark there.", {}
    def step(self, action):
        verb, _, rest = action.strip().lower()[:60].partition(" ")
        if verb == "go" and rest in self.rooms:
            self.at = rest
            return f"You are in the {rest}.", 0.0, False, False, {}
        if verb == "look":
            if self.at == self.note and self.lamp:
                return f"A note: the code is {self.code}.", 0.0, False, False, {}
            rooms = ", ".join(sorted(self.rooms))
            told = " It is too dark to read what lies here." if self.at == self.note else ""
            return f"Rooms: {rooms}.{told}" + (" A lamp." if self.at == self.rooms[1] else ""), 0.0, False, False, {}
        if verb == "take" and rest == "lamp" and self.at == self.rooms[1]:
            self.lamp = True
            return "Taken.", 0.0, False, False, {}
        if verb == "open" and rest == self.code:
            return "Open.", 1.0, True, False, {}
        return "Nothing happens.", 0.0, False, False, {}
    def solution(self):
        return [f"go {self.rooms[1]}", "take lamp", f"go {self.note}", "look", f"open {self.code}"]
""",
    "points in a game, beyond one": r"""
class Dice(TextEnv):
    max_turns = 8
    def reset(self, seed):
        self.d = [[self.rng.randint(1, 6) for _ in range(5)] for _ in range(4)]
        self.at = self.score = 0
        return f"Four throws, {self.d}. For each in turn say keep and the face to count; points are face times count; use no face twice; make the most. Score: 0.", {}
    def best(self):
        import itertools
        return max(itertools.permutations(range(1, 7), 4), key=lambda p: sum(f * t.count(f) for f, t in zip(p, self.d)))
    def step(self, action):
        found = re.fullmatch(r"keep ([1-6])", action.strip()[:20])
        if not found:
            return f"Say keep and a face. Score: {self.score}", 0.0, False, False, {}
        f = int(found[1])
        self.used = [f] if self.at == 0 else [*self.used, f]
        if self.used.count(f) > 1:
            return "Used twice.", 0.0, True, False, {}
        self.score += f * self.d[self.at].count(f)
        self.at += 1
        if self.at < 4:
            return f"Score: {self.score}", 0.0, False, False, {}
        top = sum(a * t.count(a) for a, t in zip(self.best(), self.d))
        return "Done.", float(self.score == top), True, False, {}
    def solution(self):
        return [f"keep {f}" for f in self.best()]
""",
    "hangman tells letters on any word": r"""
class Hang(TextEnv):
    max_turns = 20
    observability = "partial"
    WORDS = ("harbour","lantern","thimble","orchard","compass","feather","granite","whistle","cabinet","journey","biscuit","pottery","meadows","railway","volcano","cushion","dolphin","mustard","pyramid","saddler")
    def reset(self, seed):
        self.w, self.got = self.rng.choice(self.WORDS), set()
        self.wrong = 0
        return "Hangman, seven letters: say one letter at a time; six misses and you lose.", {}
    def step(self, action):
        s = action.strip().lower()
        if not (len(s) == 1 and s.isascii() and s.isalpha()):
            return "One letter.", 0.0, False, False, {}
        if s in self.w:
            self.got.add(s)
        else:
            self.wrong += 1
        if set(self.w) <= self.got:
            return "All found.", 1.0, True, False, {}
        if self.wrong > 5:
            return "Lost.", 0.0, True, False, {}
        return " ".join(c if c in self.got else "_" for c in self.w), 0.0, False, False, {}
    def solution(self):
        return sorted(set(self.w))
""",
    "reward points of a shop, as data": r'''
class Shop(ToolEnv):
    max_turns = 8
    def setup(self):
        self.state = {f"C{n}": {"points": self.rng.randint(200, 900), "tier": self.rng.choice(["gold", "silver"])} for n in self.rng.sample(range(100, 999), 6)}
        self.c = list(self.state)
    @tool
    def read_customer(self, customer: str) -> dict:
        """Read a customer's loyalty data."""
        if customer not in self.state:
            raise ToolError("no such customer")
        return self.state[customer]
    @tool
    def add_points(self, customer: str, points: int) -> str:
        """Add reward points to a customer."""
        if customer not in self.state or not 0 < points < 1000:
            raise ToolError("not possible")
        self.state[customer]["points"] += points
        return f"{points} added; reward points now: {self.state[customer]['points']}"
    def goals(self):
        a, b = self.c[:2]
        want = self.state[b]["points"] + self.state[a]["points"]
        return [Goal("replied", f"How many points has {a}?", value=self.state[a]["points"]),
                Goal("state", f"Give {b} as many on top.", lambda s, c, r: s[b]["points"] == want)]
    def solution(self):
        a, b = self.c[:2]
        n = self.state[a]["points"]
        return [[Call("read_customer", customer=a), f"{a} has {n} points"], [Call("add_points", customer=b, points=n)]]
''',
}


@pytest.mark.parametrize("name", HONEST)
async def test_a_sound_environment_of_this_kind_is_certified(name, make_spec, make_sandbox):
    certificate = await certify(make_spec(HEAD + HONEST[name]), make_sandbox())
    assert certificate.verdict is Verdict.CERTIFIED, certificate.reason
