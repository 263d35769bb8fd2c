from spade_environments import TextEnv

import math
import re

BELLS = ("North", "River", "Market", "Abbey", "Harbour", "Mill", "Castle", "Garden", "Bridge", "Orchard")


class BellTowers(TextEnv):
    """Name the first minute at which all bells of a town ring together (simultaneous congruences)."""

    max_turns = 1
    N_BELLS = 3  # bells in the town
    MAX_PERIOD = 18  # longest wait between two strokes of one bell, in minutes

    def reset(self, seed):
        if not any(self._draw() for _ in range(1000)):
            raise ValueError("no instance fits these parameters")
        lines = [
            f"The {name} bell rings at minute {self.meeting % period} and from then on every {period} minutes."
            for name, period in zip(self.names, self.periods, strict=True)
        ]
        question = "Minute 0 is midnight. What is the first minute at which all of them ring together?"
        return "\n".join([*lines, question, "Answer with the minute alone, as a whole number."]), {}

    def _draw(self):
        self.names = self.rng.sample(BELLS, self.N_BELLS)
        self.periods = self.rng.sample(range(4, self.MAX_PERIOD + 1), self.N_BELLS)
        self.meeting = self.rng.randrange(math.lcm(*self.periods))
        nested = any(a != b and a % b == 0 for a in self.periods for b in self.periods)
        return self.meeting > 2 * self.MAX_PERIOD and not nested

    def step(self, action):
        found = re.fullmatch(r"\s*([0-9]{1,9})\s*", action)
        if found and int(found[1]) == self.meeting:
            return "Correct.", 1.0, True, False, {}
        return "That is not the minute.", 0.0, True, False, {}

    def solution(self):
        return [str(self.meeting)]
