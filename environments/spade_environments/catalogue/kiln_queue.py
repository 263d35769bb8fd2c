from spade_environments import TextEnv

PIECES = ("vase", "bowl", "tile", "jug", "plate", "lamp", "crock", "mask", "urn", "cup", "dish", "bell")


class KilnQueue(TextEnv):
    """Fire pieces one at a time so that the total cost of waiting is the least possible."""

    max_turns = 20
    N_PIECES = 6  # pieces to fire, at most 8
    N_LINKS = 1  # pairs of which one piece must be fired before the other
    MAX_MINUTES = 30  # longest firing

    def reset(self, seed):
        if not any(self._draw() for _ in range(1000)):
            raise ValueError("no instance fits these parameters")
        self.fired, self.clock, self.bill = [], 0, 0
        return "\n".join([
            "Your kiln takes one piece at a time. For every minute until a piece is out of the kiln, its buyer takes "
            "the piece's rate off the price; the clock starts at 0 and the kiln never rests.",
            *(f"{name}: {self.minutes[name]} minutes in the kiln, rate {self.rate[name]}" for name in self.names),
            *(f"The {first} must be fired before the {second}." for first, second in self.links),
            "Fire them all in an order that makes the sum of what is taken off as small as it can be.",
            "Write: fire NAME, one piece at a time. What is fired is fired.",
        ]), {}  # fmt: skip

    def _draw(self):
        self.names = self.rng.sample(PIECES, self.N_PIECES)
        self.minutes = {name: self.rng.randint(3, self.MAX_MINUTES) for name in self.names}
        self.rate = {name: self.rng.randint(1, 9) for name in self.names}
        order = self.rng.sample(self.names, self.N_PIECES)
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
        self.links = self.rng.sample(pairs, self.N_LINKS)
        self.best, count = self._best((), 0, {})
        self.least = self._cost(self.best)
        tempting = [
            self.names,
            sorted(self.names, key=self.minutes.get),
            sorted(self.names, key=self.rate.get, reverse=True),
        ]
        unbound = sorted(self.names, key=lambda name: self.minutes[name] / self.rate[name])
        binding = self.N_LINKS == 0 or self._cost(unbound) < self.least
        return count == 1 and binding and all(self._cost(order) != self.least for order in tempting)

    def _best(self, fired, clock, known):
        """The cheapest order of what is left, as a tuple, and how many orders are as cheap."""
        left = frozenset(self.names) - frozenset(fired)
        if not left:
            return (), 1
        if left in known:
            return known[left]
        found, least, count = (), None, 0
        for name in sorted(left):
            if self._blocked(name, fired):
                continue
            out = clock + self.minutes[name]
            rest, ways = self._best((*fired, name), out, known)
            cost = self._cost((name, *rest), clock)
            if least is None or cost < least:
                found, least, count = (name, *rest), cost, ways
            elif cost == least:
                count += ways
        known[left] = found, count
        return known[left]

    def _cost(self, order, clock=0):
        cost = 0
        for name in order:
            clock += self.minutes[name]
            cost += clock * self.rate[name]
        return cost

    def _blocked(self, name, fired):
        return next((first for first, second in self.links if second == name and first not in fired), None)

    def step(self, action):
        verb, _, name = action[:40].strip().lower().partition(" ")
        if verb != "fire" or name not in self.names:
            return "Write fire and the name of a piece.", 0.0, False, False, {}
        if name in self.fired:
            return f"The {name} has been fired already.", 0.0, False, False, {}
        first = self._blocked(name, self.fired)
        if first:
            return f"The {first} must be fired before the {name}.", 0.0, False, False, {}
        self.fired.append(name)
        self.clock += self.minutes[name]
        self.bill += self.clock * self.rate[name]
        told = f"The {name} is out at minute {self.clock}; taken off so far: {self.bill}."
        left = [name for name in self.names if name not in self.fired]
        if left:
            return f"{told} Still to fire: {', '.join(left)}.", 0.0, False, False, {}
        if self.bill == self.least:
            return f"{told} No order is cheaper.", 1.0, True, False, {}
        return f"{told} A cheaper order was possible.", 0.0, True, False, {}

    def solution(self):
        return [f"fire {name}" for name in self.best]
