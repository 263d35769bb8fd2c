"""Composes whole programs from shapes, rules, goals and distractors, and proves each one by playing it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spade_agents.nano.grammar.counters import counters, grid, links, stages
from spade_agents.nano.grammar.documents import Document
from spade_agents.nano.grammar.draft import Draft, Shape
from spade_agents.nano.grammar.holders import basket, slots
from spade_agents.nano.grammar.program import GoalPart, Program, ToolPart
from spade_agents.nano.grammar.records import records
from spade_agents.nano.grammar.rules import RULES, Rule, make_rule
from spade_agents.nano.grammar.unseen import find_then_change, queue, transfer
from spade_environments import Skill
from spade_environments.inside.episode import Episode

__all__ = ["KNOWN_SHAPES", "UNSEEN_SHAPES", "compose"]

KNOWN_SHAPES = ("records", "found", "counters", "stages", "links", "grid", "basket", "limited", "slots")
UNSEEN_SHAPES = ("queue", "transfer", "find_then_change")
PICKS = ("self.one", "self.two", "self.three")
ATTEMPTS = 200

_ERRANDS = (
    "book a taxi",
    "order a pizza",
    "sing a song",
    "write a poem",
    "cook some soup",
    "call my doctor",
    "draw a horse",
    "buy a ticket",
    "water the flowers",
    "tell a joke",
    "fix my bike",
    "translate a letter",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taste:
    """What a skill prefers: weights of shapes, rules and numbers of goals, and chances of the rest."""

    shapes: tuple[float, ...]
    rules: tuple[float, ...]
    goals: tuple[float, ...]
    reads: float
    asked: float
    declined: float
    spare: tuple[float, ...]


# Columns: KNOWN_SHAPES; RULES (none, ready, unlock, code, seen); one, two, three goals; then chances.
_TASTES: dict[Skill, Taste] = {
    Skill.API_ORCHESTRATION: Taste(
        shapes=(2, 1, 2, 1, 1, 1, 1, 1, 1),
        rules=(0, 3, 1, 5, 1),
        goals=(5, 4, 1),
        reads=0.4,
        asked=0.05,
        declined=0.05,
        spare=(3, 4, 1),
    ),
    Skill.DATA_RETRIEVAL: Taste(
        shapes=(3, 3, 2, 1, 3, 2, 1, 0, 1),
        rules=(6, 1, 0, 1, 1),
        goals=(0, 5, 3),
        reads=0.8,
        asked=0.02,
        declined=0.1,
        spare=(2, 4, 2),
    ),
    Skill.STATE_MODIFICATION: Taste(
        shapes=(3, 1, 3, 2, 1, 2, 2, 1, 2),
        rules=(4, 2, 1, 1, 1),
        goals=(1, 6, 2),
        reads=0.1,
        asked=0.05,
        declined=0.05,
        spare=(3, 4, 1),
    ),
    Skill.ERROR_RECOVERY: Taste(
        shapes=(2, 1, 1, 2, 1, 1, 1, 4, 4),
        rules=(1, 2, 5, 1, 5),
        goals=(5, 4, 1),
        reads=0.2,
        asked=0.05,
        declined=0.05,
        spare=(3, 3, 1),
    ),
    Skill.TOOL_SELECTION: Taste(
        shapes=(3, 2, 3, 2, 1, 1, 3, 1, 2),
        rules=(5, 1, 1, 1, 1),
        goals=(1, 5, 1),
        reads=0.4,
        asked=0.05,
        declined=0.5,
        spare=(0, 3, 5),
    ),
    Skill.MULTI_STEP_WORKFLOWS: Taste(
        shapes=(2, 2, 2, 3, 2, 1, 2, 2, 2),
        rules=(2, 2, 2, 1, 1),
        goals=(0, 4, 4),
        reads=0.4,
        asked=0.35,
        declined=0.05,
        spare=(4, 3, 1),
    ),
}


def compose(
    rng: random.Random,
    document: Document,
    skill: Skill,
    *,
    shapes: tuple[str, ...] = KNOWN_SHAPES,
    wanted: Callable[[str], bool] = lambda source: True,
) -> Program:
    """Draw programs until one is wanted and proven: gold wins on every seed tried, silence never, seeds differ.

    Raises:
        RuntimeError: no draw held, which means that the grammar is broken.
    """
    for _ in range(ATTEMPTS):
        program = _draw(rng, document, skill, shapes)
        if program is not None and wanted(program.source) and proven(program.source):
            return program
    raise RuntimeError(f"no program of {shapes} was proven in {ATTEMPTS} draws; the grammar is broken")


def _draw(rng: random.Random, document: Document, skill: Skill, shapes: tuple[str, ...]) -> Program | None:
    taste = _TASTES[skill]
    weights = taste.shapes if shapes == KNOWN_SHAPES else (1.0,) * len(shapes)
    draft = Draft(
        rng=rng,
        words=document.words,
        helper=rng.random() < 0.5,
        numbered=rng.random() < 0.35,
        done=rng.choice(("done", "ok", "saved")),
        size=rng.choice((3, 4, 4)),
        high=rng.choice((20, 30, 40, 50, 60)),
    )
    shape = _shape(rng.choices(shapes, weights)[0], draft)
    if not shape.root:
        draft = replace(draft, helper=False)
    rule = make_rule(rng.choices(RULES, taste.rules)[0], draft, shape)
    goals = _goals(draft, shape, taste)
    if not goals:
        return None
    if not any(goal.kind == "state" for goal in goals):
        goals = _exact(goals)
    goals, rule = _ruled(goals, rule)
    if not goals or sum(len(goal.calls) for goal in goals) < 2:
        return None
    goals = _with_talk(draft, taste, rule, goals)
    tools = _tools(draft, shape, rule, goals, taste)
    setup = _setup(draft, shape, rule, goals)
    if setup is None or not 2 <= len(tools) <= 4:
        return None
    constants = (("SIZE", draft.size), *shape.constants)
    return Program(
        desk=document.words.desk,
        constants=constants,
        setup=setup,
        helper=_helper(draft, shape, tools),
        tools=tools,
        goals=goals,
        skill=skill,
        domain=document.domain,
        rule=rule.name,
        shape=shape.name,
        hints=(rule.hint,) if rule.hint else (),
    )


def _shape(name: str, draft: Draft) -> Shape:
    if name in ("records", "found"):
        return records(draft, unique=name == "found")
    if name in ("basket", "limited"):
        return basket(draft, limited=name == "limited")
    makers = {
        "counters": counters,
        "stages": stages,
        "links": links,
        "grid": grid,
        "slots": slots,
        "queue": queue,
        "transfer": transfer,
        "find_then_change": find_then_change,
    }
    return makers[name](draft)


def _goals(draft: Draft, shape: Shape, taste: Taste) -> tuple[GoalPart, ...] | None:
    rng = draft.rng
    count = rng.choices((1, 2, 3), taste.goals)[0]
    labels = list(shape.goals)
    rng.shuffle(labels)
    made = [shape.goals[label](pick) for label, pick in zip(labels, PICKS, strict=False)]
    made.sort(key=lambda goal: rng.random() + (taste.reads if goal.kind == "state" else 1 - taste.reads))
    goals = tuple(made[:count])
    wrote = False
    for goal in goals:
        if wrote and goal.label in shape.after_write:
            return None
        wrote = wrote or goal.kind == "state"
    return goals


def _exact(goals: tuple[GoalPart, ...]) -> tuple[GoalPart, ...]:
    """Demands one bare reply, to keep out an agent that reads all and repeats all; no goals where that cannot be."""
    for index, goal in enumerate(goals):
        if goal.kind == "replied" and goal.label != "far":
            bare = replace(goal, check=f"reply == {goal.reply}", value="")
            return (*goals[:index], bare, *goals[index + 1 :])
    return ()


def _ruled(goals: tuple[GoalPart, ...], rule: Rule) -> tuple[tuple[GoalPart, ...], Rule]:
    if not any(call.about for goal in goals for call in goal.calls):
        return goals, Rule(name="none")
    satisfied: set[str] = set()
    return tuple(replace(goal, calls=rule.solved(goal, satisfied)) for goal in goals), rule


def _with_talk(draft: Draft, taste: Taste, rule: Rule, goals: tuple[GoalPart, ...]) -> tuple[GoalPart, ...]:
    """Puts in a goal that must be asked about, or one that must be declined."""
    rng, thing = draft.rng, draft.thing
    result = list(goals)
    writing = [index for index, goal in enumerate(result) if goal.kind == "state"]
    if writing and rng.random() < taste.asked:
        told = rng.choice((f"Please change one {thing}.", f"I need another {thing} changed.", f"Change my {thing}."))
        result.insert(
            rng.choice(writing),
            GoalPart(
                kind="asked",
                instruction=told,
                reply='"Which one?"',
                label="asked",
                hint="ask which one when none is named",
            ),
        )
    if rng.random() < taste.declined:
        other = draft.words.acts[1]
        errand = f"{other} a {thing}" if rule.name != "unlock" and rng.random() < 0.4 else rng.choice(_ERRANDS)
        place = rng.choice(
            [index for index in range(len(result) + 1) if not index or result[index - 1].kind != "asked"]
        )
        result.insert(
            place,
            GoalPart(
                kind="declined",
                instruction=f"Please {errand}.",
                reply='"I cannot do that."',
                label="declined",
                hint="decline what no tool does",
            ),
        )
    return tuple(result)


def _tools(draft: Draft, shape: Shape, rule: Rule, goals: tuple[GoalPart, ...], taste: Taste) -> tuple[ToolPart, ...]:
    needed = {call.tool for goal in goals for call in goal.calls}
    spare = [tool.name for tool in shape.tools if tool.name not in needed]
    draft.rng.shuffle(spare)
    needed.update(spare[: draft.rng.choices((0, 1, 2), taste.spare)[0]])
    chosen = [rule.applied(tool) for tool in shape.tools if tool.name in needed]
    if rule.tool is not None and not rule.reader:
        chosen.append(rule.tool)
    if draft.rng.random() < 0.5:
        draft.rng.shuffle(chosen)
    return tuple(chosen)


def _setup(draft: Draft, shape: Shape, rule: Rule, goals: tuple[GoalPart, ...]) -> tuple[str, ...] | None:
    """All lines, or `None` where two goals would set one attribute in two ways."""
    text = "\n".join([goal.text() + goal.solved() + "\n".join(goal.setup) for goal in goals])
    used = [pick for pick in PICKS if pick in text]
    lines = [draft.names(), *shape.setup]
    if used:
        last = PICKS.index(used[-1]) + 1
        lines.append("self.one = names[0]" if last == 1 else f"{', '.join(PICKS[:last])} = names[:{last}]")
    added = dict.fromkeys(line for goal in goals for line in goal.setup)
    set_by = [line.split(" = ")[0] for line in added]
    if len(set(set_by)) < len(set_by):
        return None
    return (*lines, *added, *rule.setup)


def _helper(draft: Draft, shape: Shape, tools: tuple[ToolPart, ...]) -> tuple[str, ...]:
    if not draft.helper or not any("self._at(" in line for tool in tools for line in tool.body):
        return ()
    return (
        "def _at(self, name):",
        f"    if name not in {shape.root}:",
        f'        raise ToolError("unknown {draft.thing}")',
        f"    return {shape.root}[name]",
    )


def proven(source: str, seeds: tuple[int, ...] = (0, 1, 2)) -> bool:
    """Whether gold wins and silence loses on each seed, and the instances differ; trusted source only."""
    episode = Episode(source)
    told = set()
    for seed in seeds:
        told.add(episode.reset(seed)["observation"] + repr(episode.solution()))
        result: dict[str, Any] = {"reward": 0.0}
        for action in episode.solution():
            result = episode.step(action.get("name"), action.get("arguments"), action.get("text"))
            if result["terminated"] and not result["reward"]:
                return False
            if "name" in action and result["observation"].startswith("Error:"):
                return False
        if result["reward"] != 1.0:
            return False
        episode.reset(seed)
        result = episode.step(None, None, "")
        while not result["terminated"]:
            result = episode.step(None, None, "")
        if result["reward"]:
            return False
    return len(told) > 1
