"""Goals, replies and the turn structure of a ToolEnv."""

import random
from enum import StrEnum

import pytest

from spade_environments import Call, ContractError, Goal, TextEnv, ToolEnv, ToolError, tool
from spade_environments.inside.contract import carries
from spade_environments.inside.schema import bind_arguments


class Desk(ToolEnv):
    """A desk with two lamps and a locked drawer."""

    ORDERED = ("replied", "called", "asked", "state", "declined")

    def setup(self):
        self.state = {"lamps": {"left": "off", "right": "off"}, "pin": self.rng.randint(10, 99)}

    @tool
    def read_pin(self) -> int:
        """Read the pin."""
        return self.state["pin"]

    @tool
    def light(self, lamp: str) -> str:
        """Light a lamp."""
        if lamp not in self.state["lamps"]:
            raise ToolError(f"no lamp {lamp}")
        self.state["lamps"][lamp] = "on"
        return "lit"

    @tool
    def open_drawer(self) -> str:
        """Open the drawer."""
        return "open"

    def goals(self):
        return [
            Goal("replied", "What is the pin?", value=self.state["pin"]),
            Goal("called", "Look at the pin.", lambda state, calls, reply: any(c.name == "read_pin" for c in calls)),
            Goal("asked", "Light the lamp."),
            Goal("state", "The left one.", lambda s, c, r: s["lamps"]["left"] == "on", unlocks=("open_drawer",)),
            Goal("declined", "Sing a song."),
        ]

    def solution(self):
        return [
            [Call("read_pin"), str(self.state["pin"])],
            [Call("read_pin")],
            ["Which lamp?"],
            [Call("light", lamp="left")],
            ["I cannot sing."],
        ]


def a_desk(seed=1):
    desk = Desk()
    desk.rng = random.Random(seed)
    desk.reset(seed)
    return desk


def play(desk, actions):
    for action in actions:
        result = desk.step(action)
    return result


def gold(desk):
    return [step for part in desk.solution() for step in (part if isinstance(part[-1], str) else [*part, ""])]


def test_the_solution_meets_every_goal_and_pays_one():
    desk = a_desk()
    _, reward, terminated, truncated, info = play(desk, gold(desk))
    assert (reward, terminated, truncated, info["met"]) == (1.0, True, False, True)


def test_a_goal_that_is_not_met_ends_the_episode_without_pay():
    desk = a_desk()
    _, reward, terminated, _, info = desk.step("no idea")
    assert (reward, terminated, info["met"]) == (0.0, True, False)


def test_asking_after_changing_the_state_does_not_meet_asked():
    desk = a_desk()
    play(desk, gold(desk)[:4])
    desk.step(Call("light", lamp="right"))
    _, reward, terminated, _, _ = desk.step("Which lamp?")
    assert (reward, terminated) == (0.0, True)


def test_calls_count_from_the_instruction_on():
    desk = a_desk()
    play(desk, gold(desk)[:2])
    _, _, terminated, _, info = desk.step("")
    assert terminated and not info["met"], "the pin was read before the instruction that asks for reading it"


def test_a_tool_that_a_goal_unlocks_starts_locked():
    desk = a_desk()
    assert desk.available_tools() == ("read_pin", "light")
    play(desk, gold(desk)[:-1])
    assert desk.available_tools() == ("read_pin", "light", "open_drawer")


def test_a_tool_error_is_text_and_leaves_ok_false():
    desk = a_desk()
    call = Call("light", lamp="green")
    assert desk.step(call)[0] == "Error: no lamp green"
    assert call.ok is False


@pytest.mark.parametrize(
    ("reply", "value", "met"),
    [
        ("42", 42, True),
        ("It is 42.", 42, True),
        ("It is 42.0 in all", 42, True),
        ("1,204.50 euros", 1204.5, True),
        ("-3 degrees", -3, True),
        ("142", 42, False),
        ("4.2", 42, False),
        ("A42", 42, False),
        ("order a12 is open", "A12", True),
        ("order A123", "A12", False),
        ("x" * 301 + " 42", 42, False),
        ("", 42, False),
        ("1204,340", 1204, True),
        ("1204,340", 1204340, False),
        ("1,234kg", 1, False),
        ("12.5kg", 12, False),
        ("version 1.2.3", 1.2, False),
        ("It is .5 now", 0.5, True),
        ("\N{MINUS SIGN}5 degrees", -5, True),
        ("\N{MINUS SIGN}5 degrees", 5, False),
        ("from 3-5", -5, False),
        ("12.5", "12", False),
        ("12.5", "5", False),
        ("version 1.2.3", "1.2", False),
        ("It is 12.", "12", True),
        (" ".join(map(str, range(100))), 17, False),
        (" ".join(map(str, range(24))) + " so 17", 17, True),
    ],
)
def test_a_reply_carries_its_value_as_a_whole_token(reply, value, met):
    assert carries(reply, value) is met


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("won", "x"), "unknown"),
        (("state", "x"), "check"),
        (("called", "x"), "check"),
        (("replied", "x"), "value"),
        (("declined", " "), "instruction"),
    ],
)
def test_a_goal_that_cannot_be_judged_is_refused(arguments, told):
    with pytest.raises(ContractError, match=told):
        Goal(*arguments)


def test_a_goal_with_an_empty_value_is_refused():
    with pytest.raises(ContractError, match="every reply would carry it"):
        Goal("replied", "What does it say?", value=" ")


def desk_with(goals):
    class Other(Desk):
        def goals(self):
            return goals

    other = Other()
    other.rng = random.Random(0)
    return other


@pytest.mark.parametrize(
    ("goals", "told"),
    [
        ([], "non-empty"),
        ([Goal("declined", "Sing.")], "at least one goal"),
        ([Goal("replied", "Pin?", value=1), Goal("asked", "Light it.")], "last goal"),
        ([Goal("replied", "Pin?", value=1, unlocks=("fly",)), Goal("declined", "Sing.")], "'fly'"),
        ([Goal("replied", "Pin?", value=1, unlocks=("light",))], "no later instruction"),
    ],
)
def test_a_list_of_goals_that_breaks_the_contract_is_refused_at_reset(goals, told):
    with pytest.raises(ContractError, match=told):
        desk_with(goals).reset(0)


def test_a_single_turn_text_environment_answers_and_others_act():
    class Once(TextEnv):
        max_turns = 1

    class Long(TextEnv):
        pass

    class _Named(TextEnv):
        max_turns = 1
        tool_name = "solve"

    class Child(_Named):
        pass

    assert (Once.tool_name, Long.tool_name, Child.tool_name) == ("answer", "act", "solve")


def test_a_method_that_keeps_its_arguments_changes_neither_the_call_nor_its_default():
    class Basket(Desk):
        @tool
        def put(self, items: list = []) -> list:  # noqa: B006 (what designed code may write)
            """Put items in."""
            items.append("more")
            return items

    basket = Basket()
    basket.rng = random.Random(0)
    basket.reset(0)
    call = Call("put", items=["one"])
    assert basket.step(call)[0] == '["one", "more"]'
    assert call.arguments == {"items": ["one"]}
    default = bind_arguments(Basket.put, {})
    assert [basket.step(Call("put", **default))[0] for _ in range(2)] == ['["more"]', '["more"]']


def test_an_attribute_of_a_tools_name_does_not_hide_the_tool():
    desk = a_desk()
    desk.read_pin = 5
    assert desk.step(Call("read_pin"))[0] == str(desk.state["pin"])


def test_a_tool_may_return_a_member_of_a_string_enum():
    class Size(StrEnum):
        BIG = "big"

    class Shop(Desk):
        @tool
        def size(self) -> Size:
            """Read the size."""
            return Size.BIG

    shop = Shop()
    shop.rng = random.Random(0)
    shop.reset(0)
    call = Call("size")
    assert type(shop.step(call)[0]) is type(call.result) is str
    assert call.result == "big"
