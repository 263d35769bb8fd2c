"""Environments as they are written elsewhere: games with boxed actions, tool environments, Gymnasium's text ones."""

from __future__ import annotations

# ruff: noqa: E501 (what is written elsewhere has its own line length)

# A game answered once; it leaves out imports that its home puts in, and asks for a library that is not in the child.
MARKET_SUM = r'''
import random
from math_verify import parse, verify


def verify_answer(given, wanted):
    if str(given).strip() == str(wanted).strip():
        return True
    try:
        return verify(parse(given), parse(wanted))
    except:
        return False


class MarketSumEnv:
    """Work out what a basket costs after a discount."""

    def __init__(self, max_turns=1, **kwargs):
        self.max_turns = max_turns
        self.turn_count = 0
        self._answer = None
        self.reset()

    def reset(self, seed=None) -> Tuple[str, dict]:
        if seed is not None:
            random.seed(seed)
        self.turn_count = 0
        self.prices = {name: random.randint(11, 97) for name in ("apples", "bread", "cheese")}
        self.counts = {name: random.randint(2, 9) for name in self.prices}
        self.off = random.randint(5, 60)
        self._answer = sum(self.prices[name] * self.counts[name] for name in self.prices) - self.off
        basket = ", ".join(f"{self.counts[name]} {name} at {self.prices[name]}" for name in self.prices)
        return f"A basket holds {basket}. {self.off} is taken off. What is paid? Answer with \\boxed{{number}}.", {}

    def solution(self) -> str:
        return str(self._answer)

    def step(self, action):
        self.turn_count += 1
        truncated = self.turn_count >= self.max_turns
        match = re.search(r"\\boxed\{([^}]+)\}", action)
        if match and verify_answer(match.group(1), self.solution()):
            return "Correct.", 1.0, True, False, {}
        if truncated:
            return f"It was {self.solution()}.", 0.0, False, True, {}
        return "Wrong, try again.", -0.1, False, False, {}

    def close(self):
        pass
'''

# A game of several turns; its rewards leave [0, 1] on both sides, and it tells its solution as a list.
VALVE_ROOM = r'''
import random
import re


class _Room:
    def _shown(self):
        return " ".join("open" if valve else "shut" for valve in self.valves)


class ValveRoomEnv(_Room):
    """Open every valve; turning one turns its right neighbour too."""

    def __init__(self, max_turns=14):
        self.max_turns = max_turns
        self.reset()

    def reset(self, seed=None):
        if seed is not None:
            random.seed(seed)
        self.turns = 0
        while True:
            self.presses = [random.random() < 0.5 for _ in range(6)]
            self.valves = [True] * 6
            for place, pressed in enumerate(self.presses):
                if pressed:
                    self._turn(place)
            if sum(self.presses) >= 2 and not all(self.valves):
                break
        return f"Six valves: {self._shown()}. Turning one turns its right neighbour too. Open all: \\boxed{{turn N}}.", {}

    def _turn(self, place):
        for at in (place, place + 1):
            if at < 6:
                self.valves[at] = not self.valves[at]

    def step(self, action):
        self.turns += 1
        truncated = self.turns >= self.max_turns
        found = re.search(r"\\boxed\{\s*turn\s+([1-6])\s*\}", action)
        if not found:
            return "Use \\boxed{turn N} with N from 1 to 6.", -0.1, False, truncated, {}
        self._turn(int(found.group(1)) - 1)
        if all(self.valves):
            return "All open.", 10.0, True, False, {"why": object()}
        return f"Now: {self._shown()}.", 0.0, False, truncated, {}

    def solution(self):
        return [f"\\boxed{{turn {place + 1}}}" for place, pressed in enumerate(self.presses) if pressed]
'''

# No solution: it can be played, and not be proven.
MINE_WALK = r'''
import random
import re


class MineWalkEnv:
    """Walk from the left edge to the right one without stepping on a mine."""

    max_turns = 12

    def reset(self, seed=None):
        random.seed(seed)
        self.at, self.row = 0, random.randrange(3)
        self.mines = {(column, random.randrange(3)) for column in range(1, 6)}
        return f"You stand in row {self.row} of 3. Say \\boxed{{up}}, \\boxed{{down}} or \\boxed{{on}}.", {}

    def step(self, action):
        found = re.search(r"\\boxed\{(up|down|on)\}", action)
        if not found:
            return "Say \\boxed{up}, \\boxed{down} or \\boxed{on}.", 0.0, False, False, {}
        self.row = (self.row + {"up": -1, "down": 1, "on": 0}[found.group(1)]) % 3
        self.at += 1
        if (self.at, self.row) in self.mines:
            return "A mine.", 0.0, True, False, {}
        if self.at == 6:
            return "Across.", 1.0, True, False, {}
        return f"Column {self.at}, row {self.row}.", 0.0, False, False, {}
'''

# One task: find something out by tools and tell it.
STOCK_COUNT = r"""
import random
import json


class StockCountEnv(ToolUseBaseEnv):
    def reset(self, seed=None):
        self.turn_count = 0
        self._call_history = []
        rng = random.Random(seed)
        sites = rng.sample(["Aarhus", "Bergen", "Cadiz", "Delft", "Evora"], 3)
        self._state = {"stock": {site: {sku: rng.randint(3, 90) for sku in ("bolts", "nails", "nuts")} for site in sites}}
        self._sku = rng.choice(["bolts", "nails", "nuts"])
        self._tools = {
            "list_sites": {"description": "List the sites", "parameters": {"type": "object", "properties": {}}},
            "count": {
                "description": "Count one article at a site",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "site": {"type": "string", "description": "where"},
                        "sku": {"type": "string", "enum": ["bolts", "nails", "nuts"]},
                    },
                    "required": ["site", "sku"],
                },
            },
            "order": {
                "description": "Order more",
                "parameters": {
                    "type": "object",
                    "properties": {"site": {"type": "string"}, "amount": {"type": "integer"}, "note": {"type": "string"}},
                    "required": ["site", "amount"],
                },
            },
        }
        self._expected_answer = sum(self._state["stock"][site][self._sku] for site in sites)
        return f"How many {self._sku} are there over all sites? Submit <answer>number</answer>.", {}

    def tool_list_sites(self) -> str:
        return json.dumps(sorted(self._state["stock"]))

    def tool_count(self, site="", sku="") -> str:
        return str(self._state["stock"][site][sku])

    def tool_order(self, site="", amount=0, note="") -> str:
        self._state["stock"][site]["bolts"] += amount
        return "ordered"

    def solution(self) -> str:
        counted = " ".join(f"{n}. count(site={site!r}, sku={self._sku!r})" for n, site in enumerate(self._state["stock"], 2))
        return f"1. list_sites() {counted} ANSWER: {self._expected_answer}"
"""

# Several instructions, each revealed by the tool that fulfils the one before it.
SHELF_MOVES = r"""
import random


class ShelfMovesEnv(ToolUseBaseEnv):
    def __init__(self, max_turns=15, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        self.turn_count = 0
        self._call_history = []
        if seed is not None:
            random.seed(seed)
        boxes = random.sample(["amber", "birch", "coral", "denim", "ebony", "flint"], 4)
        self._state = {"place": {box: random.randint(1, 4) for box in boxes}, "read": []}
        first, second, third = boxes[:3]
        target, place = random.randint(5, 9), dict(self._state["place"])
        self._tools = {
            "where": {"description": "Where a box stands", "parameters": {
                "type": "object", "properties": {"box": {"type": "string"}}, "required": ["box"]}},
            "move": {"description": "Move a box to a shelf", "parameters": {
                "type": "object", "properties": {"box": {"type": "string"}, "shelf": {"type": "integer"}},
                "required": ["box", "shelf"]}},
            "decline_request": {"description": "Decline what no tool can do", "parameters": {
                "type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}},
        }
        self._user_messages = [
            f"Move {first} to shelf {target}.",
            f"Look up where {second} stands.",
            f"Move {third} to the shelf beside it, one higher.",
            "What will the weather be tomorrow?",
        ]
        self._message_criteria = [
            lambda s: s["place"][first] == target,
            lambda s: second in s["read"],
            lambda s: s["place"][third] == place[second] + 1 + 0 * len(s["read"]) and "moved" in s and s["moved"] == third,
            lambda s: s.get("declined", False),
        ]
        self._current_msg = 0
        self._expected_answer = "done"
        self._plan = (first, second, third, target, place[second] + 1)
        return self._user_messages[0], {}

    def _advance_if_done(self):
        if self._current_msg >= len(self._user_messages):
            return ""
        if self._message_criteria[self._current_msg](self._state):
            self._current_msg += 1
            if self._current_msg >= len(self._user_messages):
                return "\n\n[ALL STEPS COMPLETE] Submit <answer>done</answer>."
            return f"\n\n[NEW INSTRUCTION] {self._user_messages[self._current_msg]}"
        return ""

    def _check_answer(self, answer):
        return answer == "done" and self._current_msg >= len(self._user_messages)

    def tool_where(self, box=""):
        self._state["read"].append(box)
        return f"on shelf {self._state['place'][box]}" + self._advance_if_done()

    def tool_move(self, box="", shelf=0):
        if box not in self._state["place"]:
            return f"Error: no box {box}" + self._advance_if_done()
        self._state["place"][box] = shelf
        self._state["moved"] = box
        return f"moved {box} to {shelf}" + self._advance_if_done()

    def tool_decline_request(self, reason=""):
        self._state["declined"] = True
        return "declined" + self._advance_if_done()

    def solution(self):
        first, second, third, target, place = self._plan
        return (
            f"1. move(box='{first}', shelf={target}) -> moved 2. tool_where('{second}') 3. move(box='{third}', shelf={place}) "
            "4. decline_request(reason='no (such) tool') 5. <answer>done</answer>"
        )
"""

# Text in, text out, by Gymnasium's book, with its own generator.
CAVE_TEXT = r'''
from typing import Optional

import gymnasium as gym
from gymnasium import spaces


class CaveText(gym.Env[str, str]):
    """Find the way out of a cave whose doors answer left or right to a word."""

    metadata = {"render_modes": []}
    MAX_STEPS = 15

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Text(max_length=200)
        self.action_space = spaces.Text(max_length=20)

    def reset(self, *, seed: Optional[int] = None, options: Optional[dict] = None):
        super().reset(seed=seed)
        self.path = [("left", "right")[int(n)] for n in self.np_random.integers(0, 2, size=7)]
        self.at = 0
        signs = "".join("<" if turn == "left" else ">" for turn in self.path)
        return f"Seven doors, their signs: {signs}. Say left or right at each; a wrong one leads back.", {"signs": self.path}

    def step(self, action: str):
        if action.strip().lower() == self.path[self.at]:
            self.at += 1
            done = self.at == len(self.path)
            return ("Daylight." if done else "Onwards.", 1 if done else 0, done, False, {})
        self.at = 0
        return "Back at the start.", 0, False, False, {}

    def solution(self):
        return list(self.path)
'''

# Numbered actions, the older four values of a step.
LIFT_GYM = r"""
import gym
import random


class LiftEnv(gym.Env):
    def __init__(self):
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, seed=None):
        self.rng = random.Random(seed)
        self.floor, self.goal, self.load = self.rng.randint(0, 4), self.rng.randint(8, 12), 0
        self.max_turns = 24
        return {"floor": self.floor, "wanted": self.goal, "actions": ["down", "up", "open the door"]}

    def step(self, action):
        assert action in (0, 1, 2)
        if action == 2:
            return {"door": "open", "floor": self.floor}, float(self.floor == self.goal), True, {}
        self.floor += 1 if action else -1
        return {"floor": self.floor}, 0.0, False, {}

    def solution(self):
        return [1] * (self.goal - self.floor) + [2]
"""
