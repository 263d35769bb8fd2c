"""State shapes of plain values: counts, stages, links, and a table of counts by place."""

from __future__ import annotations

from spade_agents.nano.grammar.draft import Draft, GoalMaker, Shape, listed, refuse
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart

__all__ = ["counter_tools", "counters", "grid", "links", "stages"]


def counters(draft: Draft) -> Shape:
    """Keys to a count."""
    return Shape(
        name="counters",
        setup=("self.state = {k: self.rng.randint(3, self.HIGH) for k in names}",),
        tools=counter_tools(draft),
        goals={
            "count": lambda key: _count_goal(draft, key),
            "add": lambda key: _change_goal(draft, key, "add", "+", f"Add {{self.n}} to {{{key}}}."),
            "take": lambda key: _change_goal(draft, key, "take", "-", f"Take {{self.n}} from {{{key}}}."),
            "clear": lambda key: GoalPart(
                kind="state",
                instruction=f"Set {{{key}}} back to zero.",
                check=f"state[{key}] == 0",
                calls=(draft.call(f"clear_{draft.thing}", key, writes=True),),
                hint=f"use clear_{draft.thing}",
                label="clear",
            ),
        },
        constants=(("HIGH", draft.high),),
    )


def counter_tools(draft: Draft) -> tuple[ToolPart, ...]:
    """Read, list, add to, take from and clear a count."""
    thing, done, number = draft.thing, draft.finish(), draft.words.number
    check, at = draft.at()
    known = draft.known()
    amount = (("amount", "int"),)
    few = refuse("amount < 1", "too small")
    return (
        draft.keyed(f"{number}_of", f"Tell the {number}.", *check, f"return {at}", returns="int"),
        ToolPart(name=f"list_{thing}", returns="dict", told=f"List every {thing}.", body=("return self.state",)),
        draft.keyed(
            f"add_{number}",
            f"Add to the {number}.",
            *known,
            *few,
            f"self.state[{thing}] += amount",
            done,
            more=amount,
            writes=True,
        ),
        draft.keyed(
            f"take_{number}",
            f"Take from the {number}.",
            *known,
            *few,
            *refuse(f"amount > self.state[{thing}]", "not enough"),
            f"self.state[{thing}] -= amount",
            done,
            more=amount,
            writes=True,
        ),
        draft.keyed(
            f"clear_{thing}", f"Set the {number} to zero.", *known, f"self.state[{thing}] = 0", done, writes=True
        ),
    )


def _count_goal(draft: Draft, key: str) -> GoalPart:
    return draft.number_asked(key, f"{draft.words.number}_of", f"self.state[{key}]", label="count")


def _change_goal(draft: Draft, key: str, verb: str, sign: str, instruction: str) -> GoalPart:
    tool = f"{verb}_{draft.words.number}"
    return GoalPart(
        kind="state",
        instruction=instruction,
        check=f"state[{key}] == self.want",
        calls=(draft.call(tool, key, ("amount", "self.n"), writes=True),),
        setup=("self.n = self.rng.randint(1, 3)", f"self.want = self.state[{key}] {sign} self.n"),
        hint=f"use {tool} once",
        label=verb,
    )


def stages(draft: Draft) -> Shape:
    """Keys to a stage, which moves on by one."""
    thing = draft.thing
    steps = listed(("new", *draft.words.values[:2]))
    known = draft.known()
    check, at = draft.at()
    name = f"stage_of_{thing}" if draft.rng.random() < 0.5 else "stage_of"
    tools = (
        draft.keyed(name, f"Tell the stage of one {thing}.", *check, f"return self.steps[{at}]"),
        ToolPart(name="list_steps", returns="list", told="List the stages in order.", body=("return self.steps",)),
        draft.keyed(
            f"next_{thing}",
            "Move on by one stage.",
            *known,
            *refuse(f"self.state[{thing}] == 2", "already at the end"),
            f"self.state[{thing}] += 1",
            f"return self.steps[self.state[{thing}]]",
            writes=True,
        ),
        draft.keyed(
            f"reset_{thing}",
            "Go back to the first stage.",
            *known,
            f"self.state[{thing}] = 0",
            draft.finish(),
            writes=True,
        ),
    )
    return Shape(
        name="stages",
        setup=(f"self.steps = {steps}", "self.state = {k: self.rng.randint(0, 1) for k in names}"),
        tools=tools,
        goals=_stage_goals(draft, name),
    )


def _stage_goals(draft: Draft, tool: str) -> dict[str, GoalMaker]:
    """What a user asks of stages; `tool` tells the stage of one key."""
    thing = draft.thing
    return {
        "stage": lambda key: GoalPart(
            kind="replied",
            instruction=f"Which stage has {{{key}}}?",
            value=f"self.steps[self.state[{key}]]",
            calls=(draft.call(tool, key),),
            reply=f"self.steps[self.state[{key}]]",
            hint=f"read it with {tool} and reply with the stage",
            label="stage",
        ),
        "bring": lambda key: GoalPart(
            kind="state",
            instruction=f"Bring {{{key}}} to {{self.steps[2]}}.",
            check=f"state[{key}] == 2",
            calls=tuple(draft.call(f"next_{thing}", key, writes=True) for _ in range(2)),
            setup=(f"self.state[{key}] = 0",),
            hint=f"call next_{thing} until it is there",
            label="bring",
        ),
        "step": lambda key: GoalPart(
            kind="state",
            instruction=f"Move {{{key}}} on by one.",
            check=f"state[{key}] == self.want",
            calls=(draft.call(f"next_{thing}", key, writes=True),),
            setup=(f"self.want = self.state[{key}] + 1",),
            hint=f"call next_{thing} once",
            label="step",
        ),
    }


def links(draft: Draft) -> Shape:
    """Keys to other keys."""
    thing, role = draft.thing, draft.words.quality
    check, at = draft.at()
    tools = (
        draft.keyed(f"{role}_of", f"Tell the {role}.", *check, f"return {at}"),
        ToolPart(
            name=f"list_{thing}", returns="list", told=f"List every {thing}.", body=("return sorted(self.state)",)
        ),
        draft.keyed(
            f"set_{role}",
            f"Give it another {role}.",
            *draft.known(),
            f"self.state[{thing}] = {role}",
            draft.finish(),
            more=((role, "str"),),
            writes=True,
        ),
    )
    near = "self.state[{}]".format
    return Shape(
        name="links",
        setup=("self.state = {k: self.rng.choice([v for v in names if v != k]) for k in names}",),
        tools=tools,
        goals={
            "near": lambda key: GoalPart(
                kind="replied",
                instruction=f"Who is the {role} of {{{key}}}?",
                value=near(key),
                calls=(draft.call(f"{role}_of", key),),
                reply=near(key),
                hint=f"read it with {role}_of and reply with the name",
                label="near",
            ),
            "far": lambda key: GoalPart(
                kind="replied",
                instruction=f"Who is the {role} of the {role} of {{{key}}}?",
                value=near(near(key)),
                calls=(draft.call(f"{role}_of", key), draft.call(f"{role}_of", near(key))),
                reply=near(near(key)),
                hint=f"call {role}_of twice, the second time on what the first gave",
                label="far",
            ),
            "link": lambda key: GoalPart(
                kind="state",
                instruction=f"Make {{self.other}} the {role} of {{{key}}}.",
                check=f"state[{key}] == self.other",
                calls=(draft.call(f"set_{role}", key, (role, "self.other"), writes=True),),
                setup=(f"self.other = [k for k in names if k != {key} and k != self.state[{key}]][0]",),
                hint=f"use set_{role}",
                label="link",
            ),
        },
        after_write=frozenset({"near", "far"}),
    )


def grid(draft: Draft) -> Shape:
    """Places to keys to a count."""
    thing, number = draft.thing, draft.words.number
    guard = refuse(f"place not in self.state or {thing} not in self.state[place]", "not there")
    params = (("place", "str"), (thing, "str"))
    tools = (
        ToolPart(
            name=f"{number}_at",
            params=params,
            returns="int",
            told=f"Tell the {number} at a place.",
            body=(*guard, f"return self.state[place][{thing}]"),
        ),
        ToolPart(
            name=f"set_{number}",
            params=(*params, (number, "int")),
            told=f"Change the {number} at a place.",
            body=(*guard, f"self.state[place][{thing}] = {number}", draft.finish()),
            writes=True,
            keyed=thing,
        ),
        ToolPart(name="list_places", returns="list", told="List the places.", body=("return sorted(self.state)",)),
    )
    places = listed(draft.words.places)
    where = ("place", "self.place")
    return Shape(
        name="grid",
        setup=(
            f"self.state = {{p: {{k: self.rng.randint(1, self.HIGH) for k in names}} for p in {places}}}",
            "self.place = self.rng.choice(sorted(self.state))",
        ),
        tools=tools,
        goals={
            "cell": lambda key: GoalPart(
                kind="replied",
                instruction=f"What is the {number} of {{{key}}} at the {{self.place}}?",
                value=f"self.state[self.place][{key}]",
                calls=(_at_place(draft, f"{number}_at", where, key),),
                reply=f"str(self.state[self.place][{key}])",
                hint=f"read it with {number}_at and reply with the number only",
                label="cell",
            ),
            "put": lambda key: GoalPart(
                kind="state",
                instruction=f"Set the {number} of {{{key}}} at the {{self.place}} to {{self.n}}.",
                check=f"state[self.place][{key}] == self.n",
                calls=(_at_place(draft, f"set_{number}", where, key, (number, "self.n"), writes=True),),
                setup=("self.n = self.rng.randint(self.HIGH + 1, 99)",),
                hint=f"use set_{number} with the place",
                label="put",
            ),
        },
        constants=(("HIGH", draft.high),),
        root="",
    )


def _at_place(
    draft: Draft, tool: str, where: tuple[str, str], key: str, *more: tuple[str, str], writes: bool = False
) -> CallPart:
    return CallPart(tool=tool, arguments=(where, (draft.thing, key), *more), about=key if writes else "")
