from spade_environments import TextEnv

from collections import deque

STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}


class DieWalk(TextEnv):
    """Roll a die over a board with holes until it lies on the marked cell with the wanted number on top."""

    max_turns = 20
    SIZE = 5  # cells along each side
    N_HOLES = 4  # cells that cannot be entered
    MIN_ROLLS = 6  # the shortest way takes this many rolls, or one or two more
    SLACK = 2  # rolls allowed beyond the shortest way

    def reset(self, seed):
        if not any(self._draw() for _ in range(1000)):
            raise ValueError("no instance fits these parameters")
        return "\n".join([
            "A die stands on a board (opposite faces add up to 7). Rolling it in a direction tips it over its edge "
            "onto the next cell, so that its top face then looks in that direction.",
            *self._board(),
            "# is a hole; the die cannot enter it or leave the board. North is up.",
            f"Bring the die to cell {self._cell(self.goal)} with {self.face} on top, in at most {self.left} rolls.",
            "Write: roll north, roll south, roll east or roll west.",
            self._where(),
        ]), {}  # fmt: skip

    def _draw(self):
        cells = [(x, y) for x in range(self.SIZE) for y in range(self.SIZE)]
        self.holes = self.rng.sample(cells, self.N_HOLES)
        top, north = self.rng.choice([(a, b) for a in range(1, 7) for b in range(1, 7) if b not in (a, 7 - a)])
        east = self.rng.choice([c for c in range(1, 7) if c not in (top, 7 - top, north, 7 - north)])
        self.die = (self.rng.choice([cell for cell in cells if cell not in self.holes]), top, north, east)
        ways = {}
        for die, way in self._ways().items():
            ways.setdefault((die[0], die[1]), way)
        far = [end for end, way in ways.items() if self.MIN_ROLLS <= len(way) <= self.MIN_ROLLS + 2]
        if not far:
            return False
        self.goal, self.face = self.rng.choice(far)
        self.way = ways[(self.goal, self.face)]
        self.left = len(self.way) + self.SLACK
        return True

    def _ways(self):
        ways, queue = {self.die: ()}, deque([self.die])
        while queue:
            die = queue.popleft()
            for direction in STEPS:
                rolled = self._rolled(die, direction)
                if rolled is not None and rolled not in ways:
                    ways[rolled] = (*ways[die], direction)
                    queue.append(rolled)
        return ways

    def _rolled(self, die, direction):
        (x, y), top, north, east = die
        cell = (x + STEPS[direction][0], y + STEPS[direction][1])
        if cell in self.holes or not (0 <= cell[0] < self.SIZE and 0 <= cell[1] < self.SIZE):
            return None
        faces = {
            "north": (7 - north, top, east),
            "south": (north, 7 - top, east),
            "east": (7 - east, north, top),
            "west": (east, north, 7 - top),
        }
        return (cell, *faces[direction])

    def _cell(self, cell):
        return f"{chr(ord('a') + cell[0])}{cell[1] + 1}"

    def _board(self):
        rows = [
            f"{y + 1:2} " + " ".join("#" if (x, y) in self.holes else "." for x in range(self.SIZE))
            for y in reversed(range(self.SIZE))
        ]
        return [*rows, "   " + " ".join(chr(ord("a") + x) for x in range(self.SIZE))]

    def _where(self):
        cell, top, north, east = self.die
        return f"The die is at {self._cell(cell)}: top {top}, north {north}, east {east}. Rolls left: {self.left}."

    def step(self, action):
        verb, _, direction = action[:40].strip().lower().partition(" ")
        if verb != "roll" or direction not in STEPS:
            return f"Write roll and a direction: {', '.join(STEPS)}.", 0.0, False, False, {}
        rolled = self._rolled(self.die, direction)
        if rolled is None:
            return f"The die cannot roll {direction} from here. {self._where()}", 0.0, False, False, {}
        self.die, self.left = rolled, self.left - 1
        if self.die[:2] == (self.goal, self.face):
            return f"{self._where()} That is it.", 1.0, True, False, {}
        if self.left == 0:
            return f"{self._where()} You are out of rolls.", 0.0, True, False, {}
        return self._where(), 0.0, False, False, {}

    def solution(self):
        return [f"roll {direction}" for direction in self.way]
