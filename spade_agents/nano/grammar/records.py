"""State shapes of records: every key has several fields."""

from __future__ import annotations

from spade_agents.nano.grammar.draft import Draft, Shape, listed
from spade_agents.nano.grammar.program import CallPart, GoalPart, ToolPart

__all__ = ["find_goal", "records", "set_goal"]


def records(draft: Draft, *, unique: bool) -> Shape:
    """Keys to a number, a flag and, where `unique`, a quality that no two share."""
    words = draft.words
    fields = f'"{words.number}": self.rng.randint(1, self.HIGH), "{words.acts[0]}": False'
    state: tuple[str, ...]
    if unique:
        state = (
            f"kinds = self.rng.sample({listed(words.values)}, self.SIZE)",
            f'self.state = {{k: {{"{words.quality}": v, {fields}}} for k, v in zip(names, kinds)}}',
        )
    else:
        state = (f"self.state = {{k: {{{fields}}} for k in names}}",)
    goals = {
        "look": lambda key: _look_goal(draft, key),
        "number": lambda key: _number_goal(draft, key),
        "top": lambda _: _top_goal(draft),
        "set": lambda key: set_goal(draft, key),
        "mark": lambda key: _mark_goal(draft, key),
        "clear": lambda key: _clear_goal(draft, key),
    }
    if unique:
        goals["find"] = lambda key: find_goal(draft, key)
    return Shape(
        name="found records" if unique else "records",
        setup=state,
        tools=_tools(draft, unique=unique),
        goals=goals,
        after_write=frozenset({"top"}),
        constants=(("HIGH", draft.high),),
    )


def _tools(draft: Draft, *, unique: bool) -> tuple[ToolPart, ...]:
    words, thing, done = draft.words, draft.thing, draft.finish()
    check, at = draft.at()
    number = words.number
    tools = [
        draft.keyed(f"get_{thing}", f"Read one {thing}.", *check, f"return {at}", returns="dict"),
        draft.keyed(f"{number}_of", f"Tell the {number}.", *check, f'return {at}["{number}"]', returns="int"),
        ToolPart(
            name=f"list_{thing}", returns="list", told=f"List every {thing}.", body=("return sorted(self.state)",)
        ),
        ToolPart(
            name=f"top_{number}",
            told=f"Name the highest {number}.",
            body=(f'return max(self.state, key=lambda k: self.state[k]["{number}"])',),
        ),
        draft.keyed(
            f"set_{number}",
            f"Change the {number}.",
            *check,
            f'{at}["{number}"] = {number}',
            done,
            more=((number, "int"),),
            writes=True,
        ),
        draft.keyed(
            f"{words.acts[0]}_{thing}",
            f"{words.acts[0].capitalize()} one {thing}.",
            *check,
            f'{at}["{words.acts[0]}"] = True',
            done,
            writes=True,
        ),
        draft.keyed(f"clear_{thing}", f"Set the {number} to zero.", *check, f'{at}["{number}"] = 0', done, writes=True),
    ]
    if unique:
        quality = words.quality
        tools.append(
            ToolPart(
                name=f"find_{quality}",
                params=((quality, "str"),),
                returns="list",
                told=f"Find by {quality}.",
                body=(f'return [k for k in self.state if self.state[k]["{quality}"] == {quality}]',),
            )
        )
    return tuple(tools)


def _look_goal(draft: Draft, key: str) -> GoalPart:
    tool = f"get_{draft.thing}"
    check = f'any(c.name == "{tool}" and c.arguments["{draft.thing}"] == {key} for c in calls)'
    return GoalPart(
        kind="called",
        instruction=f"Look at {draft.thing} {{{key}}}.",
        check=check,
        calls=(draft.call(tool, key),),
        hint=f"to look at one use {tool}",
        label="look",
    )


def _number_goal(draft: Draft, key: str) -> GoalPart:
    number = draft.words.number
    tool = draft.rng.choice((f"get_{draft.thing}", f"{number}_of"))
    return draft.number_asked(key, tool, f'self.state[{key}]["{number}"]', label="number")


def _top_goal(draft: Draft) -> GoalPart:
    number, tool = draft.words.number, f"top_{draft.words.number}"
    line = f'self.top = max(names, key=lambda k: self.state[k]["{number}"])'
    return GoalPart(
        kind="replied",
        instruction=f"Which {draft.thing} has the highest {number}?",
        value="self.top",
        calls=(CallPart(tool=tool),),
        reply="self.top",
        setup=(line,),
        hint=f"use {tool} and reply with the name it gives",
        label="top",
    )


def find_goal(draft: Draft, key: str) -> GoalPart:
    """Reply with the only key of a quality."""
    quality, tool = draft.words.quality, f"find_{draft.words.quality}"
    wanted = f'self.state[{key}]["{quality}"]'
    return GoalPart(
        kind="replied",
        instruction=f"Which {draft.thing} has {quality} {{{wanted}}}?".replace('"', "'"),
        value=key,
        calls=(CallPart(tool=tool, arguments=((quality, wanted),)),),
        reply=key,
        hint=f"use {tool} and reply with the name it gives",
        label="find",
    )


def set_goal(draft: Draft, key: str) -> GoalPart:
    """Change the number of one key."""
    number, tool = draft.words.number, f"set_{draft.words.number}"
    return GoalPart(
        kind="state",
        instruction=f"Set the {number} of {{{key}}} to {{self.n}}.",
        check=f'state[{key}]["{number}"] == self.n',
        calls=(draft.call(tool, key, (number, "self.n"), writes=True),),
        setup=("self.n = self.rng.randint(self.HIGH + 1, 99)",),
        hint=f"use {tool} to change it",
        label="set",
    )


def _mark_goal(draft: Draft, key: str) -> GoalPart:
    act = draft.words.acts[0]
    only = draft.rng.random() < 0.5
    check = f'[k for k in state if state[k]["{act}"]] == [{key}]' if only else f'state[{key}]["{act}"]'
    return GoalPart(
        kind="state",
        instruction=f"Please {act} {{{key}}}.",
        check=check,
        calls=(draft.call(f"{act}_{draft.thing}", key, writes=True),),
        hint=f"use {act}_{draft.thing}" + (" on that one alone" if only else ""),
        label="mark",
    )


def _clear_goal(draft: Draft, key: str) -> GoalPart:
    tool, number = f"clear_{draft.thing}", draft.words.number
    return GoalPart(
        kind="state",
        instruction=f"Set {{{key}}} back to zero.",
        check=f'state[{key}]["{number}"] == 0',
        calls=(draft.call(tool, key, writes=True),),
        hint=f"use {tool}",
        label="clear",
    )
