"""Loading designed source and what an episode refuses."""

import pytest

from spade_environments import ContractError
from spade_environments.inside.episode import Episode

HEAD = "from spade_environments import Call, Goal, TextEnv, ToolEnv, tool\n"
TOOL = "    @tool\n    def go(self):\n        'x'\n"
TEXT = HEAD + (
    "class Echo(TextEnv):\n"
    "    hidden = ('secret',)\n"
    "    def reset(self, seed):\n"
    "        self.secret = str(self.rng.randrange(100))\n"
    "        return 'say it', {}\n"
    "    def step(self, action):\n"
    "        return RESULT\n"
    "    def solution(self):\n"
    "        return [self.secret]\n"
)


def text(result="('no', 0.0, False, False, {})"):
    return Episode(TEXT.replace("RESULT", result))


def test_a_text_environment_has_one_tool_and_a_reply_is_told_so():
    episode = text()
    episode.reset(1)
    assert [spec["name"] for spec in episode.tools] == ["act"]
    reply = episode.step(None, None, "hello")
    assert (reply["role"], reply["terminated"], reply["info"]) == ("user", False, {"error": "reply"})
    assert "act" in reply["observation"]


def test_the_same_seed_gives_the_same_instance():
    episode = text()
    episode.reset(5)
    first = episode.hidden_values()
    episode.reset(6)
    episode.reset(5)
    assert episode.hidden_values() == first == {"secret": episode.solution()[0]["arguments"]["action"]}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("('no', 0.0, False, False)", "must return"),
        ("(b'no', 0.0, False, False, {})", "observation of type bytes"),
        ("('no', True, False, False, {})", "reward is bool"),
        ("('no', 0.0, 0, False, {})", "must be bool"),
        ("('no', 0.0, False, False, {'x': {1}})", "JSON-able"),
        ("('no', 0.0, False, False, {'x': 'y' * 5000})", "at most 4096"),
    ],
)
def test_a_step_result_of_another_shape_is_refused(result, told):
    episode = text(result)
    episode.reset(1)
    with pytest.raises(ContractError, match=told):
        episode.step("act", {"action": "x"}, None)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (HEAD, "found none"),
        (HEAD + "class A(TextEnv): pass\nclass B(TextEnv): pass\n", "found A, B"),
        (HEAD + "class A(ToolEnv): pass\n", "at least one @tool"),
        (HEAD + "class A(TextEnv):\n    max_turns = 99\n", "max_turns is 99"),
        (HEAD + "class A(TextEnv):\n    observability = 'none'\n", "observability"),
        (HEAD + "class A(ToolEnv):\n    @tool\n    def hint(self):\n        'x'\n", "reserved"),
        (HEAD + "class A(ToolEnv):\n    @tool\n    def go(self):\n        return 1\n", "docstring"),
        (HEAD + "class A(ToolEnv):\n    @tool\n    @staticmethod\n    def go(x: int):\n        'x'\n", "plain method"),
        (
            HEAD + "class _B(ToolEnv):\n    @tool\n    def go(self):\n        'x'\nclass A(_B):\n    go = None\n",
            "plain",
        ),
        (HEAD + "class A(ToolEnv):\n    @tool\n    def größe(self):\n        'x'\n", "größe needs a name of"),
        (HEAD + f"class A(ToolEnv):\n    @tool\n    def go(self):\n        '{'x' * 2001}'\n", "found one of 2001 char"),
        (HEAD + f"class M:\n    def step(self, action): pass\nclass A(M, ToolEnv):\n{TOOL}", "a step of its own"),
        (HEAD + f"class A(ToolEnv):\n    _run = lambda self, call: 'x'\n{TOOL}", "a _run of its own"),
        (HEAD + "class A(TextEnv):\n    tool_name = 'reset'\n", "tool_name is 'reset'"),
        (HEAD + "class A(TextEnv):\n    tool_name = 'my tool'\n", "tool_name is 'my tool'"),
    ],
)
def test_a_class_that_breaks_the_contract_is_refused_at_load(source, told):
    with pytest.raises(ContractError, match=told):
        Episode(source)


def test_a_second_name_makes_neither_a_second_class_nor_a_second_tool_of_one_name():
    source = HEAD + "class A(ToolEnv):\n    @tool\n    def go(self):\n        'x'\n    run = go\nAlias = A\n"
    assert [spec["name"] for spec in Episode(source).tools] == ["go", "run"]


def test_a_hidden_path_that_leads_nowhere_is_told_by_name():
    episode = Episode(TEXT.replace("'secret',", "'safe.pin',"))
    episode.reset(0)
    with pytest.raises(ContractError, match=r"hidden names 'safe.pin', and there is no 'safe'"):
        episode.hidden_values()
