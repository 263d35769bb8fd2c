"""Scenario classes of our own in evalscope's place, and entries over them, so that no foreign package is needed."""

from __future__ import annotations

import json

from spade_evals.suites.acebench.environment import evalscope_folder

_CLASS = """
class {name}:
    def __init__(self):
        {fields}

    def _load_scenario(self, scenario, long_context=False):
        self.wifi = scenario.get("wifi", False)

    def turn_on_wifi(self):
        self.wifi = True
        return {{"status": True}}
"""
_ORDER = """
    def order(self, product, quantity=1):
        if not self.wifi:
            return {"status": False, "message": "Wi-Fi is off"}
        self.orders.append({"product": product, "quantity": quantity})
        return {"status": True}
"""
_FIELDS = {
    "base_api": ("BaseApi", "self.logged_in = True"),
    "message": ("MessageApi", "self.inbox = {1: 'hello'}"),
    "reminder": ("ReminderApi", "self.reminder_list = {}"),
    "food_services": ("FoodPlatform", "self.users, self.logged_in_users, self.orders = {}, [], []"),
    "travel": ("Travel", "self.users, self.reservations = {}, []"),
}
GOLD = [
    {"BaseApi": {"wifi": True, "logged_in": True}},
    {"FoodPlatform": {"users": {}, "logged_in_users": [], "orders": [{"product": "tea", "quantity": 2}]}},
]


def install(monkeypatch, cache):
    """Put the classes where `setup acebench` would."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    package = evalscope_folder() / "evalscope" / "third_party" / "acebench" / "en"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for module, (name, fields) in _FIELDS.items():
        source = _CLASS.format(name=name, fields=fields) + (_ORDER if name == "FoodPlatform" else "")
        (package / f"{module}.py").write_text(source)
    (evalscope_folder() / "READY").touch()


def write_entries(folder):
    """One entry of each agent part: order two teas, the device being off line."""
    english = folder / "data_all" / "data_en"
    (english / "possible_answer").mkdir(parents=True, exist_ok=True)
    for name in ("agent_multi_step", "agent_multi_turn"):
        entry = {
            "id": f"{name}_0",
            "question": "Order two teas.",
            "initial_config": {"BaseApi": {"wifi": False}},
            "function": [{"name": "order"}, {"name": "turn_on_wifi"}],
            "involved_classes": ["BaseApi", "FoodPlatform"],
        }
        answer = {"id": f"{name}_0", "ground_truth": GOLD, "mile_stone": []}
        (english / f"data_{name}.json").write_text(json.dumps(entry) + "\n")
        (english / "possible_answer" / f"data_{name}.json").write_text(json.dumps(answer) + "\n")
    return folder
