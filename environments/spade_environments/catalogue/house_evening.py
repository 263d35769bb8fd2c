from spade_environments import Call, Goal, ToolEnv, ToolError, tool

import copy
from typing import Literal

ROOMS = (
    "kitchen", "study", "nursery", "library", "bathroom", "studio", "hall", "bedroom", "pantry", "workshop", "lounge",
    "laundry", "parlour", "gallery", "sunroom", "playroom", "wardrobe", "office",
)  # fmt: skip


class HouseEvening(ToolEnv):
    """Set lamps, heaters and blinds of a house as its owner asks, and touch nothing else."""

    max_turns = 25
    hidden = ("work",)
    N_ROOMS = 3  # rooms on each of two floors, at most 5
    N_LAMPS = 2  # lamps in each room
    N_LIT = 3  # lamps to be put out

    def setup(self):
        rooms = self.rng.sample(ROOMS, 2 * self.N_ROOMS)
        self.floors = {"ground": rooms[: self.N_ROOMS], "upper": rooms[self.N_ROOMS :]}
        numbers = self.rng.sample(range(100, 1000), 2 * self.N_ROOMS * (self.N_LAMPS + 2))
        self.state = {}
        for room in rooms:
            for _ in range(self.N_LAMPS):
                self.state[f"D{numbers.pop()}"] = {"room": room, "kind": "lamp", "on": self.rng.random() < 0.5}
            self.state[f"D{numbers.pop()}"] = {"room": room, "kind": "heater", "level": self.rng.randint(14, 18)}
            self.state[f"D{numbers.pop()}"] = {"room": room, "kind": "blind", "level": self.rng.randint(60, 99)}
        self.floor = self.rng.choice(("ground", "upper"))
        self.spared, *others = self.rng.sample(self.floors[self.floor], self.N_ROOMS)
        lamps = [lamp for room in others for lamp in self._devices(room, "lamp")]
        self.lit = sorted(self.rng.sample(lamps, min(self.N_LIT, len(lamps))))
        for lamp in lamps:
            self.state[lamp]["on"] = lamp in self.lit
        self.state[self._devices(self.spared, "lamp")[0]]["on"] = True
        self.heated, self.degrees = self.rng.choice(rooms), self.rng.randint(20, 26)
        self.percent = self.rng.randint(10, 50)
        self.shaded = self.rng.choice([room for room in rooms if room != self.heated])
        self.work = " ".join(self.lit)

    def _devices(self, room, kind):
        return [device for device, facts in self.state.items() if (facts["room"], facts["kind"]) == (room, kind)]

    @tool
    def list_rooms(self, floor: Literal["ground", "upper"]) -> list:
        """List the rooms of a floor."""
        return self.floors[floor]

    @tool
    def list_devices(self, room: str) -> list:
        """List the devices of a room, each with its id and how it is set."""
        found = [{"device": device, **facts} for device, facts in self.state.items() if facts["room"] == room]
        if not found:
            raise ToolError(f"there is no room {room[:40]!r}")
        return found

    @tool
    def switch_lamp(self, device: str, on: bool) -> str:
        """Turn one lamp on or off."""
        self._find(device, "lamp")["on"] = on
        return "done"

    @tool
    def set_heater(self, device: str, degrees: int) -> str:
        """Set a heater to a temperature in whole degrees."""
        heater = self._find(device, "heater")
        if not 5 <= degrees <= 30:
            raise ToolError("a temperature lies between 5 and 30 degrees")
        heater["level"] = degrees
        return "done"

    @tool
    def set_blind(self, device: str, percent: int) -> str:
        """Set how far a blind is open, in percent."""
        blind = self._find(device, "blind")
        if not 0 <= percent <= 100:
            raise ToolError("a blind is open between 0 and 100 percent")
        blind["level"] = percent
        return "done"

    @tool
    def blackout(self, floor: Literal["ground", "upper"]) -> str:
        """Turn off every lamp of a floor at once, whichever room it is in."""
        for facts in self.state.values():
            if facts["kind"] == "lamp" and facts["room"] in self.floors[floor]:
                facts["on"] = False
        return "done"

    @tool
    def send_robot(self, room: str) -> str:
        """Send the cleaning robot into a room."""
        if not any(facts["room"] == room for facts in self.state.values()):
            raise ToolError(f"there is no room {room[:40]!r}")
        return "on its way"

    def _find(self, device, kind):
        if device not in self.state:
            raise ToolError(f"there is no device {device[:40]!r}")
        if self.state[device]["kind"] != kind:
            raise ToolError(f"{device} is a {self.state[device]['kind']}, not a {kind}")
        return self.state[device]

    def goals(self):
        dark = copy.deepcopy(self.state)
        for lamp in self.lit:
            dark[lamp]["on"] = False
        warm = copy.deepcopy(dark)
        warm[self._devices(self.heated, "heater")[0]]["level"] = self.degrees
        dim = copy.deepcopy(warm)
        dim[self._devices(self.shaded, "blind")[0]]["level"] = self.percent
        return [
            Goal("state", f"Turn off every lamp that is on on the {self.floor} floor, but leave those in the "
                 f"{self.spared} as they are.", lambda state, calls, reply: state == dark),
            Goal("asked", f"I want another temperature in the {self.heated}."),
            Goal("state", f"{self.degrees} degrees.", lambda state, calls, reply: state == warm),
            Goal("state", f"Set the blind in the {self.shaded} to {self.percent} percent.",
                 lambda state, calls, reply: state == dim),
            Goal("declined", "Now water the plants on the balcony."),
        ]  # fmt: skip

    def solution(self):
        rooms = [room for room in self.floors[self.floor] if room != self.spared]
        heater, blind = self._devices(self.heated, "heater")[0], self._devices(self.shaded, "blind")[0]
        heat = [Call("list_devices", room=room) for room in (self.heated,) if room not in rooms]
        shade = [Call("list_devices", room=room) for room in (self.shaded,) if room not in rooms]
        return [
            [
                Call("list_rooms", floor=self.floor),
                *(Call("list_devices", room=room) for room in rooms),
                *(Call("switch_lamp", device=lamp, on=False) for lamp in self.lit),
            ],
            ["Which temperature shall I set?"],
            [*heat, Call("set_heater", device=heater, degrees=self.degrees)],
            [*shade, Call("set_blind", device=blind, percent=self.percent)],
            ["I cannot water plants from here."],
        ]
