from spade_environments import Call, Goal, ToolEnv, ToolError, tool

from typing import Literal

CITIES = ("Arlen", "Brost", "Corvin", "Dunmore", "Elst", "Farholm", "Gavle", "Hartz", "Ivrea", "Jonzac")
PEOPLE = ("Ada Voss", "Ben Okoro", "Cleo Marsh", "Dev Anand", "Eva Lind", "Finn Rask", "Gina Tose", "Hugo Brand")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CURRENCIES = ("francs", "florins", "ducats")


class RailTrip(ToolEnv):
    """Book trains out and back by joining the answers of several services, and convert a price."""

    max_turns = 20
    hidden = ("trip",)
    N_TRAINS = 6  # trains a day on each line
    N_RETURNING = 2  # people on the way back, at most 5

    def setup(self):
        self.home, self.away = self.rng.sample(CITIES, 2)
        letters = [a + b for a in "KLMNPQR" for b in "XZWVTS"]
        self.codes = dict(zip(CITIES, self.rng.sample(letters, len(CITIES)), strict=True))
        numbers = self.rng.sample(range(1000, 9999), len(PEOPLE) + 4 * self.N_TRAINS)
        self.ids = {name: f"P{numbers.pop()}" for name in PEOPLE}
        self.party = self.rng.sample(PEOPLE, self.N_RETURNING)
        self.rates = {currency: self.rng.randint(113, 987) for currency in CURRENCIES}
        self.currency = self.rng.choice(CURRENCIES)
        first, last = sorted(self.rng.sample(range(len(DAYS)), 2))
        self.out_day, self.back_day = DAYS[first], DAYS[last]
        self.state = {"trains": {}, "seats": []}
        for start, end in ((self.home, self.away), (self.away, self.home)):
            for day in (self.out_day, self.back_day):
                self._timetable([f"T{numbers.pop()}" for _ in range(self.N_TRAINS)], start, end, day)
        self._choose()

    def _timetable(self, ids, start, end, day):
        departures = sorted(self.rng.sample(range(5 * 12, 20 * 12), self.N_TRAINS))
        prices = self.rng.sample(range(31, 147), self.N_TRAINS)
        for train, departs, price in zip(ids, departures, prices, strict=True):
            arrives = departs + self.rng.randint(13, 37)
            self.state["trains"][train] = {
                "line": [self.codes[start], self.codes[end], day],
                "departs": self._clock(departs),
                "arrives": self._clock(arrives),
                "price": price,
            }

    def _clock(self, fives):
        return f"{fives // 12:02}:{fives % 12 * 5:02}"

    def _choose(self):
        out = self._on_line(self.home, self.away, self.out_day)
        cheapest = min(out, key=self._price)
        # The deadline shuts out the cheapest train of the day wherever another train arrives before it.
        earlier = [train for train in out if self._arrives(train) < self._arrives(cheapest)]
        allowed = earlier or out
        self.deadline = max(self._arrives(train) for train in allowed)
        self.out = min(allowed, key=self._price)
        # A timetable stands in order of departure.
        back = self._on_line(self.away, self.home, self.back_day)
        place = self.rng.randrange(1, len(back))
        self.after, self.back = self.state["trains"][back[place - 1]]["departs"], back[place]
        self.trip = f"{self.out} {self.back}"
        self.price = self._price(self.out) * self.rates[self.currency] / 100

    def _on_line(self, start, end, day):
        line = [self.codes[start], self.codes[end], day]
        return [train for train, facts in self.state["trains"].items() if facts["line"] == line]

    def _price(self, train):
        return self.state["trains"][train]["price"]

    def _arrives(self, train):
        return self.state["trains"][train]["arrives"]

    @tool
    def find_station(self, city: str) -> str:
        """Give the code of a city's station."""
        if city not in self.codes:
            raise ToolError(f"no station in {city[:40]!r}; the city's name is needed")
        return self.codes[city]

    @tool
    def find_traveller(self, name: str) -> str:
        """Give the traveller id of a person, by full name."""
        if name not in self.ids:
            raise ToolError(f"nobody is registered as {name[:40]!r}; the full name is needed")
        return self.ids[name]

    @tool
    def list_trains(
        self,
        origin: str,
        destination: str,
        day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    ) -> list:
        """List the trains between two station codes on a day, with times and the price of a seat in crowns."""
        for code in (origin, destination):
            if code not in self.codes.values():
                raise ToolError(f"{code[:40]!r} is not a station code")
        trains = self.state["trains"].items()
        found = [{"train": train, **facts} for train, facts in trains if facts["line"] == [origin, destination, day]]
        return [{key: value for key, value in train.items() if key != "line"} for train in found]

    @tool
    def reserve_seat(self, train: str, traveller_id: str) -> str:
        """Reserve one seat on a train for one traveller."""
        if train not in self.state["trains"]:
            raise ToolError(f"there is no train {train[:40]!r}")
        if traveller_id not in self.ids.values():
            raise ToolError(f"{traveller_id[:40]!r} is not a traveller id")
        if [train, traveller_id] in self.state["seats"]:
            raise ToolError("this traveller has a seat on this train already")
        self.state["seats"].append([train, traveller_id])
        return "reserved"

    @tool
    def release_seat(self, train: str, traveller_id: str) -> str:
        """Give back a reserved seat."""
        if [train, traveller_id] not in self.state["seats"]:
            raise ToolError("there is no such reservation")
        self.state["seats"].remove([train, traveller_id])
        return "released"

    @tool
    def convert_crowns(self, crowns: int, currency: Literal["francs", "florins", "ducats"]) -> dict:
        """Convert an amount in crowns into another currency at today's rate."""
        if not 0 < crowns <= 100000:
            raise ToolError("the amount must lie between 1 and 100000 crowns")
        return {currency: round(crowns * self.rates[currency] / 100, 2)}

    @tool
    def forecast(self, city: str) -> str:
        """Tell tomorrow's weather in a city."""
        if city not in self.codes:
            raise ToolError(f"no forecast for {city[:40]!r}")
        return ("rain", "sun", "fog", "wind")[CITIES.index(city) % 4]

    def goals(self):
        me, ids = self.party[0], [self.ids[name] for name in self.party]
        out = [[self.out, ids[0]]]
        back = sorted([*out, *([self.back, person] for person in ids)])
        everyone = " and for ".join(["me", *self.party[1:]])
        return [
            Goal("state", f"I am {me}. Reserve me a seat on the cheapest train from {self.home} to {self.away} on "
                 f"{self.out_day} that arrives at {self.deadline} or earlier.",
                 lambda state, calls, reply: state["seats"] == out),
            Goal("replied", f"How much is that seat in {self.currency}?", value=round(self.price, 2)),
            Goal("state", f"Now the way back on {self.back_day}, for {everyone}: the first train that leaves later "
                 f"than {self.after}.", lambda state, calls, reply: sorted(state["seats"]) == back),
        ]  # fmt: skip

    def solution(self):
        start, end = self.codes[self.home], self.codes[self.away]
        return [
            [
                Call("find_station", city=self.home),
                Call("find_station", city=self.away),
                Call("list_trains", origin=start, destination=end, day=self.out_day),
                Call("find_traveller", name=self.party[0]),
                Call("reserve_seat", train=self.out, traveller_id=self.ids[self.party[0]]),
            ],
            [
                Call("convert_crowns", crowns=self._price(self.out), currency=self.currency),
                f"It is {self.price:.2f} {self.currency}.",
            ],
            [
                Call("list_trains", origin=end, destination=start, day=self.back_day),
                *(Call("find_traveller", name=name) for name in self.party[1:]),
                *(Call("reserve_seat", train=self.back, traveller_id=self.ids[name]) for name in self.party),
            ],
        ]
