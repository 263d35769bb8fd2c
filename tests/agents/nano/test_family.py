"""Families: coarse labels of structure that names, texts and numbers do not change."""

from __future__ import annotations

import random

from spade_agents.nano.examples import warm_program
from spade_agents.nano.family import family

SOURCE = """
class Desk(ToolEnv):
    def setup(self):
        self.state = {k: self.rng.randint(1, 9) for k in ["a", "b"]}
        self.ready = False

    @tool
    def clear(self, item: str) -> str:
        if not self.ready:
            raise ToolError("start first")
        return "done"

    def goals(self):
        return [Goal("state", "Clear it.", lambda state, calls, reply: True), Goal("replied", "How many?", value=2)]
"""


def test_a_label_names_state_rules_and_goal_kinds():
    assert family(SOURCE) == "dict of number|flag|replied+state"


def test_names_texts_and_numbers_do_not_count():
    assert family(SOURCE.replace("clear", "wipe").replace("9", "99").replace("ready", "open")) == family(SOURCE)


def test_another_rule_is_another_family():
    guarded = SOURCE.replace("not self.ready", "item not in self.allowed")
    assert family(guarded) == "dict of number|permission|replied+state"
    assert family(SOURCE.replace("not self.ready", "code != self.code")) == "dict of number|secret|replied+state"


def test_the_grammar_spreads_over_many_families():
    rng = random.Random(6)
    labels = [family(warm_program(rng).program.source) for _ in range(150)]
    assert len(set(labels)) > 40
    assert max(labels.count(label) for label in set(labels)) < 0.15 * len(labels)
