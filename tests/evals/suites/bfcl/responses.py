"""Right and wrong responses to BFCL's entries: published answers spelt as calls, and what models make of them."""

from __future__ import annotations

import copy
import json

from spade_evals.suites.bfcl.calls import gold_messages, step_of


def plain(value):
    """One right value of a gold argument, whose inner values may be lists of right ones."""
    if isinstance(value, dict):
        return right_ones(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def right_ones(arguments):
    """The first right value of each argument; one that may be left out is left out."""
    first = {name: values[0] if isinstance(values, list) and values else values for name, values in arguments.items()}
    return {name: plain(value) for name, value in first.items() if value not in ("", [])}


def spelt(value):
    """A value as source text of Java and JavaScript, which is what their tools ask for."""
    return value if isinstance(value, str) else json.dumps(value)


def gold_response(task):
    """What our log holds of a right answer to a single-turn entry."""
    if "irrelevance" in task.column:
        return "No function fits."
    if task.column == "live_relevance":
        return json.dumps({"calls": [{"name": task.tools[0].name, "arguments": {}}]})
    calls = []
    for call in task.data["gold"]:
        for name, arguments in call.items():
            found = right_ones(arguments)
            if "java" in task.column:
                found = {key: spelt(value) for key, value in found.items()}
            calls.append({"name": name.replace(".", "_"), "arguments": found})
    return json.dumps({"text": "", "calls": calls})


def gold_turns(task):
    """A right result of a multi-turn entry: by turn and step what the package's handler gives."""
    turns, now = [], []
    for message in gold_messages(task.data["gold"], (*task.tools, *task.data["later"])):
        now += [step_of("", [call]) for call in message.calls]
        if not message.calls:
            turns.append([*now, ""])
            now = []
    return turns


def _changed(value, source):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return source.choice([value + 1, str(value), float(value)])
    if isinstance(value, str):
        return source.choice([value + "x", value.upper(), "", [value]])
    return source.choice([None, [value], str(value)])


def spoilt_response(task, response, source):
    """A single-turn response changed as models err."""
    try:
        row = json.loads(response)
    except ValueError:
        tool = task.tools[0].name if task.tools else "tool"
        return json.dumps({"text": "", "calls": [{"name": tool, "arguments": {}}]})
    calls = row["calls"]
    way = source.randrange(7)
    if way == 0 or not calls:
        return "I cannot do that."
    call = source.choice(calls)
    if way == 1:
        calls.remove(call)
    elif way == 2:
        calls.append(copy.deepcopy(call))
    elif way == 3:
        call["name"] += source.choice(["_", "x", " "])
    elif way == 4 or not call["arguments"]:
        call["arguments"]["more"] = 1
    else:
        key = source.choice(list(call["arguments"]))
        if way == 5:
            del call["arguments"][key]
        else:
            call["arguments"][key] = _changed(call["arguments"][key], source)
    return json.dumps(row)


def spoilt_turns(turns, source):
    """A multi-turn result changed as models err; some changes leave it right."""
    turns = copy.deepcopy(turns)
    turn = source.choice([one for one in turns if len(one) > 1] or turns)
    steps = [step for step in turn if isinstance(step, list)]
    way = source.randrange(8)
    if way == 0 or not steps:
        turns.pop()
    elif way == 1:
        turn.remove(source.choice(steps))
    elif way == 2:
        turn[:-1] = [[call for step in steps for call in step]]
    elif way == 3:
        turn.insert(
            source.randrange(len(turn)), source.choice([[{"no_such_tool": '{"a": 1}'}], "I will now.", [{"ls": "{}"}]])
        )
    elif way == 4:
        turn.reverse()
    elif way == 5:
        turn.insert(0, [{"cd": "{broken"}])
    else:
        call = source.choice(steps)[0]
        ((name, arguments),) = call.items()
        found = json.loads(arguments)
        if found:
            key = source.choice(list(found))
            found[key] = _changed(found[key], source)
        else:
            found["more"] = 1
        call[name] = json.dumps(found)
    return turns
