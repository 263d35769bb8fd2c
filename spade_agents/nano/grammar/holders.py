"""State shapes of places that hold things: a basket, and slots."""

from __future__ import annotations

from spade_agents.nano.grammar.draft import Draft, GoalMaker, Shape, listed, refuse
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart

__all__ = ["basket", "slots"]


def basket(draft: Draft, *, limited: bool) -> Shape:
    """A stock of names and a place that holds some of them, at most two where `limited`."""
    thing, place, done = draft.thing, draft.words.places[0], draft.finish()
    held = f'self.state["{place}"]'
    full = refuse(f"len({held}) >= self.LIMIT", f"the {place} is full") if limited else ()
    tools = (
        ToolPart(name=f"list_{place}", returns="list", told=f"List what is in the {place}.", body=(f"return {held}",)),
        ToolPart(
            name=f"list_{thing}",
            returns="list",
            told=f"List every {thing}.",
            body=('return sorted(self.state["stock"])',),
        ),
        draft.keyed(
            f"add_{thing}",
            f"Put one {thing} in.",
            *refuse(f'{thing} not in self.state["stock"]', f"unknown {thing}"),
            *refuse(f"{thing} in {held}", "already there"),
            *full,
            f"{held}.append({thing})",
            done,
            writes=True,
        ),
        draft.keyed(
            f"remove_{thing}",
            f"Take one {thing} out.",
            *refuse(f"{thing} not in {held}", "not there"),
            f"{held}.remove({thing})",
            done,
            writes=True,
        ),
        ToolPart(name=f"clear_{place}", told=f"Empty the {place}.", body=(f"{held}.clear()", done), writes=True),
    )
    return Shape(
        name="limited basket" if limited else "basket",
        setup=(f'self.state = {{"stock": names, "{place}": names[2:3]}}',),
        tools=tools,
        goals=_basket_goals(draft, place, swap=limited),
        after_write=frozenset({"inside"}),
        constants=(("LIMIT", 1),) if limited else (),
        root="",
    )


def _basket_goals(draft: Draft, place: str, *, swap: bool) -> dict[str, GoalMaker]:
    thing = draft.thing

    def inside(_: str) -> GoalPart:
        return GoalPart(
            kind="replied",
            instruction=f"Which {thing} is in the {place}?",
            value='self.state["stock"][2]',
            calls=(CallPart(tool=f"list_{place}"),),
            reply='self.state["stock"][2]',
            hint=f"use list_{place} and reply with the name",
            label="inside",
        )

    def put(key: str) -> GoalPart:
        return GoalPart(
            kind="state",
            instruction=f"Put {{{key}}} in the {place}.",
            check=f'{key} in state["{place}"]',
            calls=(draft.call(f"add_{thing}", key, writes=True),),
            hint=f"use add_{thing}",
            label="put in",
        )

    def exchange(key: str) -> GoalPart:
        return GoalPart(
            kind="state",
            instruction=f"Put {{{key}}} in the {place}, and nothing else.",
            check=f'state["{place}"] == [{key}]',
            calls=(CallPart(tool=f"clear_{place}", about=key), draft.call(f"add_{thing}", key, writes=True)),
            hint=f"use clear_{place} first, then add_{thing}",
            label="exchange",
        )

    def out(_: str) -> GoalPart:
        third = 'self.state["stock"][2]'
        return GoalPart(
            kind="state",
            instruction=f"Take {{self.old}} out of the {place}.",
            check=f'self.old not in state["{place}"]',
            calls=(draft.call(f"remove_{thing}", "self.old", writes=True),),
            setup=(f"self.old = {third}",),
            hint=f"use remove_{thing}",
            label="take out",
        )

    return {"inside": inside, "take out": out, "exchange": exchange, **({} if swap else {"put in": put})}


FREE, TAKEN = "self.empty", "self.taken"
"""Where a program keeps the names of a place that is free, and of one that is not."""


def slots(draft: Draft) -> Shape:
    """Places that hold one name each, or nothing."""
    return Shape(
        name="slots",
        setup=(
            f"{FREE}, {TAKEN}, last = self.rng.sample({listed(draft.words.places)}, 3)",
            f'self.state = {{{FREE}: "", {TAKEN}: names[2], last: ""}}',
        ),
        tools=_slot_tools(draft),
        goals=_slot_goals(draft),
        after_write=frozenset({"who"}),
        root="",
        key="place",
    )


def _slot_tools(draft: Draft) -> tuple[ToolPart, ...]:
    thing, done = draft.thing, draft.finish()
    known = refuse("place not in self.state", "unknown place")
    place = ("place", "str")
    return (
        ToolPart(
            name="read_place",
            params=(place,),
            keyed="place",
            told="Tell what is at a place.",
            body=(*known, 'return self.state[place] or "nothing"'),
        ),
        ToolPart(name="list_places", returns="dict", told="List the places.", body=("return self.state",)),
        ToolPart(
            name=f"place_{thing}",
            params=(place, (thing, "str")),
            told=f"Put one {thing} at a free place.",
            body=(*known, *refuse("self.state[place]", "taken"), f"self.state[place] = {thing}", done),
            writes=True,
            keyed="place",
        ),
        ToolPart(
            name="free_place",
            params=(place,),
            told="Make a place free.",
            body=(*known, 'self.state[place] = ""', done),
            writes=True,
            keyed="place",
        ),
    )


def _slot_goals(draft: Draft) -> dict[str, GoalMaker]:
    thing = draft.thing
    where = ("place", TAKEN)
    here = f"self.state[{TAKEN}]"
    return {
        "who": lambda _: GoalPart(
            kind="replied",
            instruction=f"Which {thing} is at the {{{TAKEN}}}?",
            value=here,
            calls=(CallPart(tool="read_place", arguments=(where,)),),
            reply=here,
            hint="use read_place and reply with the name",
            label="who",
        ),
        "place": lambda key: GoalPart(
            kind="state",
            instruction=f"Put {{{key}}} at the {{{FREE}}}.",
            check=f"state[{FREE}] == {key}",
            calls=(CallPart(tool=f"place_{thing}", arguments=(("place", FREE), (thing, key)), about=FREE),),
            hint=f"use place_{thing}",
            label="place",
        ),
        "replace": lambda key: GoalPart(
            kind="state",
            instruction=f"Put {{{key}}} at the {{{TAKEN}}} in place of the other.",
            check=f"state[{TAKEN}] == {key}",
            calls=(
                CallPart(tool="free_place", arguments=(where,), about=TAKEN),
                CallPart(tool=f"place_{thing}", arguments=(where, (thing, key)), about=TAKEN),
            ),
            hint=f"use free_place first, then place_{thing}",
            label="replace",
        ),
        "free": lambda _: GoalPart(
            kind="state",
            instruction=f"Make the {{{TAKEN}}} free.",
            check=f'state[{TAKEN}] == ""',
            calls=(CallPart(tool="free_place", arguments=(where,), about=TAKEN),),
            hint="use free_place",
            label="free",
        ),
    }
