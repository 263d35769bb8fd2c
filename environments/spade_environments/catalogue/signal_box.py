from spade_environments import TextEnv

import re

LAMPS = ("amber", "azure", "coral", "green", "ivory", "lilac", "ochre", "olive", "pearl", "ruby", "teal", "white")
HORN = "horn"


class SignalBox(TextEnv):
    """Find which lamps are wired straight into a horn, by forcing lamps on and off and watching the others."""

    max_turns = 20
    observability = "partial"
    hidden = ("secret",)
    N_LAMPS = 7  # lamps beside the horn, at least 5
    N_CAUSES = 3  # most lamps wired into the horn; at least 2 are
    MAX_FORCED = 3  # lamps that one try may force
    N_TRIES = 14  # tries before the answer is due, at most 19
    N_DAYS = 5  # days in the log

    def reset(self, seed):
        if not any(self._draw() for _ in range(1000)):
            raise ValueError("no instance fits these parameters")
        self.left = self.N_TRIES
        self.secret = " ".join(sorted(self.wires[HORN]))
        shown = [f"Day {day}: lit {self._told(self._daylight())}" for day in range(1, self.N_DAYS + 1)]
        return "\n".join([
            f"A signal box has the lamps {', '.join(sorted(self.lamps))} and a horn. Hidden wires lead from lamps or "
            "the horn to others, never in a circle. A lamp or horn that wires lead to is on exactly when at least one "
            "of them comes from something that is on. By day, lamps that no wire leads to come on by chance. The log:",
            *shown,
            "Now it is night: lamps that no wire leads to stay dark unless you force them.",
            f"try LAMP=on LAMP=off ...: force up to {self.MAX_FORCED} lamps, whatever their wires say, and see what is "
            f"lit. You have {self.left} tries. The horn cannot be forced.",
            "wired LAMP LAMP ...: name all lamps with a wire straight to the horn, and no others. Once only.",
        ]), {}  # fmt: skip

    def _draw(self):
        self.lamps = self.rng.sample(LAMPS, self.N_LAMPS)
        after = self.rng.randint(1, 2)
        self.order = [*self.lamps[:-after], HORN, *self.lamps[-after:]]
        self.wires = {}
        for place, name in enumerate(self.order):
            count = 0 if place < 2 else self.rng.randint(1, 2)
            if name == HORN:
                count = self.rng.randint(2, self.N_CAUSES)
            self.wires[name] = sorted(self.rng.sample(self.order[:place], min(count, place)))
        indirect = [name for name in self.lamps if self._rings({name: True}) and name not in self.wires[HORN]]
        narrow = all(len(self._between(name)) < self.MAX_FORCED for name in self.lamps)
        fed = any(HORN in self.wires[name] for name in self.lamps)
        return bool(indirect) and narrow and fed and len(self._experiments()) <= self.N_TRIES

    def _lit(self, forced, chance=()):
        lit = []
        for name in self.order:
            on = any(source in lit for source in self.wires[name]) or name in chance
            if forced.get(name, on):
                lit.append(name)
        return lit

    def _rings(self, forced):
        return HORN in self._lit(forced)

    def _between(self, name):
        """Lamps that light when `name` does and can ring the horn themselves."""
        return [lamp for lamp in self._lit({name: True}) if lamp not in (name, HORN) and self._rings({lamp: True})]

    def _daylight(self):
        loose = [name for name in self.order if not self.wires[name]]
        return self._lit({}, [name for name in loose if self.rng.random() < 0.5])

    def _told(self, lit):
        lamps = ", ".join(sorted(name for name in lit if name != HORN)) or "nothing"
        return f"{lamps}; the horn {'sounds' if HORN in lit else 'is silent'}."

    def step(self, action):
        verb, *words = action[:400].strip().lower().split() or [""]
        if verb == "wired" and words and all(word in self.lamps for word in words):
            if sorted(set(words)) == self.wires[HORN]:
                return "Those are the lamps, all of them.", 1.0, True, False, {}
            return "That is not how it is wired.", 0.0, True, False, {}
        settings = [re.fullmatch(r"([a-z]+)=(on|off)", word) for word in words]
        if verb != "try" or not settings or not all(found and found[1] in self.lamps for found in settings):
            return "Write: try LAMP=on LAMP=off ..., or: wired LAMP LAMP ...", 0.0, False, False, {}
        forced = {found[1]: found[2] == "on" for found in settings}
        if len(settings) > self.MAX_FORCED or len(forced) < len(settings):
            return f"Force up to {self.MAX_FORCED} lamps, each once.", 0.0, False, False, {}
        if self.left == 0:
            return "You have no tries left. Say what is wired.", 0.0, False, False, {}
        self.left -= 1
        return f"Lit: {self._told(self._lit(forced))} Tries left: {self.left}.", 0.0, False, False, {}

    def _experiments(self):
        singles = [f"try {name}=on" for name in self.lamps]
        ringing = [name for name in self.lamps if self._rings({name: True}) and self._between(name)]
        cut = [" ".join([f"try {name}=on", *(f"{lamp}=off" for lamp in self._between(name))]) for name in ringing]
        return [*singles, *cut]

    def solution(self):
        return [*self._experiments(), f"wired {self.secret}"]
