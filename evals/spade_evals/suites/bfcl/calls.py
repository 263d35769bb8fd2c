"""Calls as bfcl-eval has them: a completion as its handler's result, and published answers as messages.

The package evaluates `NAME(KEY=VALUE)` as Python. The values are spelt by `repr` and are data; the name and the keys
are the model's own text. So a call whose name or keys are no identifiers, or whose name means something to Python or to
the package, never reaches it: a name that nothing has stands in its place, which the package answers with the same kind
of error as any unknown function.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from spade_agents.messages import Message
from spade_environments import ToolCall, ToolSpec

__all__ = ["Step", "gold_messages", "step_of", "without_programs"]

Step = list[dict[str, str]] | str
"""What one completion was: calls, each by name with its arguments as JSON; or text."""

_PACKAGE = frozenset(
    {
        "execute_multi_turn_func_call", "is_empty_execute_response", "_process_method_calls", "copy", "importlib",
        "inspect", "json", "re", "class_", "class_instance", "class_name", "method", "module", "func_call",
        "execution_results", "involved_instances", "class_method_name_mapping", "initial_config", "involved_classes",
    }
)  # fmt: skip
_TAKEN = frozenset(dir(builtins)) | _PACKAGE


def step_of(text: str, calls: Sequence[ToolCall]) -> Step:
    """A completion in the form of the package's handler for chat completions.

    >>> step_of("", [ToolCall(name="cd", arguments={"folder": "a"})])
    [{'cd': '{"folder": "a"}'}]
    """
    return [{call.name: json.dumps(dict(call.arguments))} for call in calls] if calls else text


def without_programs(step: Step, known: frozenset[str]) -> Step:
    """A step that can be evaluated: only plain calls, by name and keyword, stay as they are.

    Args:
        step: of a model.
        known: tools of the entry, which may be named like a builtin function.

    >>> without_programs([{"cd": "{}"}, {"__import__('os').system": "{}"}], frozenset({"cd"}))
    [{'cd': '{}'}, {'__import___os___system_': '{}'}]
    """
    if isinstance(step, str):
        return step
    return [dict(_plain(name, arguments, known) for name, arguments in call.items()) for call in step]


def _plain(name: str, arguments: str, known: frozenset[str]) -> tuple[str, str]:
    try:
        keys = json.loads(arguments)
    except (ValueError, RecursionError):
        return name, arguments  # the package cannot decode it either, and takes the message for text
    if not isinstance(keys, Mapping):
        return name, arguments
    # Python reads an identifier in this form, in which a letter of another alphabet may be a plain one.
    spelt = unicodedata.normalize("NFKC", name)
    if name in known or (name.isidentifier() and spelt not in _TAKEN):
        return (name, arguments) if all(key.isidentifier() for key in keys) else (f"{name}_", "{}")
    return re.sub(r"\W", "_", name)[:100] + "_", "{}"


def gold_messages(turns: Sequence[Sequence[str]], tools: Sequence[ToolSpec]) -> list[Message]:
    """What carries out a multi-turn entry's published answer: a message with all calls of a turn, and an empty one.

    One call a message would not do: the package ends a turn after some twenty messages, and answers have longer ones.

    Args:
        turns: the answer, whose calls are spelt as Python, with literal arguments.
        tools: of the entry, those that it offers later too.
    """
    names = {tool.name: list(tool.parameters["properties"]) for tool in tools}
    messages: list[Message] = []
    for turn in turns:
        if turn:
            calls = tuple(_call(source, names) for source in turn)
            messages.append(Message(role="assistant", content="", calls=calls))
        messages.append(Message(role="assistant", content=""))
    return messages


def _call(source: str, names: Mapping[str, Sequence[str]]) -> ToolCall:
    node = ast.parse(source, mode="eval").body
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        raise ValueError(f"the published answer {source!r} is no call")
    arguments: dict[str, Any] = {}
    if node.args:
        arguments |= dict(zip(names[node.func.id], map(ast.literal_eval, node.args), strict=False))
    arguments |= {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    return ToolCall(name=node.func.id, arguments=arguments)
