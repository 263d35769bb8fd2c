from spade_environments import TextEnv

from itertools import product
from string import ascii_uppercase as LETTERS

RULES = """The machine knows these operations on a word:
- reverse: the letters in opposite order
- rotate K (K is 1, 2 or 3): the first K letters move to the end
- advance K (K from 1 to 5): every letter becomes the one K places later in the alphabet (after Z comes A)
- mirror: every letter becomes its opposite in the alphabet (A and Z, B and Y, and so on)
- pairs: the first letter changes places with the second, the third with the fourth, and so on
- ends: the first letter changes places with the last
- unzip: first the letters at odd places (first, third, ...), then those at even places"""

OPERATIONS = (
    ("reverse", 0), ("rotate", 1), ("rotate", 2), ("rotate", 3), ("advance", 1), ("advance", 2), ("advance", 3),
    ("advance", 4), ("advance", 5), ("mirror", 0), ("pairs", 0), ("ends", 0), ("unzip", 0),
)  # fmt: skip


def run(program, word):
    for name, k in program:
        if name == "reverse":
            word = word[::-1]
        elif name == "rotate":
            word = word[k:] + word[:k]
        elif name == "advance":
            word = "".join(LETTERS[(LETTERS.index(letter) + k) % 26] for letter in word)
        elif name == "mirror":
            word = "".join(LETTERS[25 - LETTERS.index(letter)] for letter in word)
        elif name == "pairs":
            word = "".join(word[i : i + 2][::-1] for i in range(0, len(word), 2))
        elif name == "ends":
            word = word[-1] + word[1:-1] + word[0]
        else:
            word = word[::2] + word[1::2]
    return word


class WordMachine(TextEnv):
    """Infer which operations a machine applies to words from a few examples, and say what it makes of another word."""

    max_turns = 1
    DEPTH = 2  # operations one after another, at most 3
    N_EXAMPLES = 3  # words shown with their results
    LENGTH = 6  # letters in a word

    def reset(self, seed):
        if not any(self._draw() for _ in range(1000)):
            raise ValueError("no instance fits these parameters")
        return "\n".join([
            RULES,
            f"It applies {self.DEPTH} operations to a word, one after another, always the same ones in the same order.",
            *(f"{word} becomes {result}" for word, result in self.examples),
            f"What does {self.word} become? Answer with the word alone.",
        ]), {}  # fmt: skip

    def _draw(self):
        program = [self.rng.choice(OPERATIONS) for _ in range(self.DEPTH)]
        self.word, *words = ("".join(self.rng.sample(LETTERS, self.LENGTH)) for _ in range(self.N_EXAMPLES + 1))
        self.examples = [(word, run(program, word)) for word in words]
        self.result = run(program, self.word)
        if any(word == result for word, result in [*self.examples, (self.word, self.result)]):
            return False
        fitting = (p for p in product(OPERATIONS, repeat=self.DEPTH) if all(run(p, w) == r for w, r in self.examples))
        return all(run(p, self.word) == self.result for p in fitting)

    def step(self, action):
        if action[:100].strip().upper() == self.result:
            return "Correct.", 1.0, True, False, {}
        return "That is not what it becomes.", 0.0, True, False, {}

    def solution(self):
        return [self.result]
