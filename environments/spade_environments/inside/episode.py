"""One episode of one designed environment, as plain values: load, reset, step, solution."""

from __future__ import annotations

import inspect
import random
import sys
import types
from typing import Any

from . import adapters, contract, plain_json, schema

__all__ = ["Episode"]

Reply = dict[str, Any]

# Bound early: a class, or an instance, that puts others in their place does not decide by itself what it pays.
_BASE = {name: getattr(contract.ToolEnv, name) for name in ("reset", "step", "available_tools", "_begin_goal", "_run")}
_TEXT_REPLY_ERROR = "Use the tool {name}: a plain message does nothing here."


class Episode:
    """The environment's class, loaded from source, and its live instance.

    Every method returns JSON-able values and lets the designed code's exceptions pass: the worker names them.
    """

    def __init__(self, source: str, class_name: str | None = None) -> None:
        module = load_module(source)
        self.cls: Any = find_class(module, class_name)
        self.is_text = issubclass(self.cls, contract.TextEnv)
        self.tools = _text_tools(self.cls) if self.is_text else _tool_specs(self.cls)
        _check_class(self.cls)
        self.env: Any = None

    def describe(self) -> Reply:
        """What the class declares: base, tools, limits, observability."""
        return {
            "base": "text" if self.is_text else "tool",
            "class_name": self.cls.__name__,
            "tools": self.tools,
            "max_turns": self.cls.max_turns,
            "observability": self.cls.observability,
            "hidden": list(self.cls.hidden),
        }

    def reset(self, seed: int) -> Reply:
        """A fresh instance; `tools` names those that are not locked."""
        random.seed(seed)
        self.env = self.cls()
        self.env.rng = random.Random(seed)
        result = self.env.reset(seed) if self.is_text else _BASE["reset"](self.env, seed)
        if not isinstance(result, tuple) or len(result) != 2:
            raise contract.ContractError("reset must return (observation, info)")
        names = [spec["name"] for spec in self.tools] if self.is_text else list(_BASE["available_tools"](self.env))
        return {"observation": _text(result[0], "reset"), "info": _info(result[1]), "tools": names}

    def step(self, name: str | None, arguments: dict[str, Any] | None, text: str | None) -> Reply:
        """One ToolCall (`name`, `arguments`) or one Reply (`text`)."""
        if self.is_text:
            return self._step_text(arguments, text)
        action = text if name is None else self._call(name, arguments or {})
        reply = _step_reply(_BASE["step"](self.env, action), "tool" if name is not None else "user")
        reply["unlocked"] = list(self.env._unlocked_now)
        return reply

    def solution(self) -> list[Any]:
        """The gold actions of the instance just reset, one a message: `{"name", "arguments"}` or `{"text"}`."""
        actions = self.env.solution()
        if self.is_text:
            return [_text_action(self.cls, action) for action in _listed(actions, "solution()")]
        return [step for part in _listed(actions, "solution()") for step in _goal_actions(part)]

    def hidden_values(self) -> dict[str, str]:
        """What `hidden` names (dotted paths), as text."""
        return {path: str(_follow(self.env, path)) for path in self.cls.hidden}

    def _step_text(self, arguments: dict[str, Any] | None, text: str | None) -> Reply:
        if text is not None:
            error = _TEXT_REPLY_ERROR.format(name=self.cls.tool_name)
            return {"observation": error, "role": "user", "reward": 0.0, "terminated": False, "truncated": False,
                    "info": {"error": "reply"}, "unlocked": []}  # fmt: skip
        reply = _step_reply(self.env.step((arguments or {})[_argument(self.cls)]), "tool")
        reply["unlocked"] = []
        return reply

    def _call(self, name: str, arguments: dict[str, Any]) -> contract.Call:
        return contract.Call(name, **schema.bind_arguments(getattr(self.cls, name), arguments))


def load_module(source: str) -> types.ModuleType:
    """Run designed source as a real module; in a child, the contract is what it imports as `spade_environments`."""
    sys.modules.setdefault("spade_environments", contract)
    adapters.install()
    module = types.ModuleType("designed_environment")
    sys.modules[module.__name__] = module
    exec(compile(source, "environment.py", "exec"), module.__dict__)  # noqa: S102 (this is the sandboxed child)
    return module


def find_class(module: types.ModuleType, class_name: str | None = None) -> type:
    """The one public class of `module` that derives from a base of the contract."""
    classes = {
        value: None  # a second name for a class makes no second class
        for name, value in vars(module).items()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and issubclass(value, contract.TextEnv | contract.ToolEnv)
        and not name.startswith("_")
        and class_name in (None, name)
    }
    found = list(classes)
    if len(found) != 1:
        names = ", ".join(cls.__name__ for cls in found) or "none"
        raise contract.ContractError(f"found {names}; wanted exactly one public class deriving from TextEnv or ToolEnv")
    return found[0]


def _check_class(cls: Any) -> None:
    if type(cls.max_turns) is not int or not 1 <= cls.max_turns <= contract.MAX_TURNS_LIMIT:
        raise contract.ContractError(f"max_turns is {cls.max_turns!r}; wanted 1 to {contract.MAX_TURNS_LIMIT}")
    if cls.observability not in ("full", "partial"):
        raise contract.ContractError(f"observability is {cls.observability!r}; wanted 'full' or 'partial'")
    if not isinstance(cls.hidden, tuple) or not all(isinstance(path, str) for path in cls.hidden):
        raise contract.ContractError("hidden must be a tuple of dotted paths, such as ('state.pin',)")


def _check_base(cls: type) -> None:
    """The base's methods alone decide whether a goal is met, however a class may come by others (a mixin, say)."""
    for name, method in _BASE.items():
        if getattr(cls, name) is not method:
            raise contract.ContractError(f"{cls.__name__} has a {name} of its own, which ToolEnv provides: remove it")


def _argument(cls: Any) -> str:
    return "answer" if cls.tool_name == "answer" else "action"


def _text_tools(cls: Any) -> list[dict[str, Any]]:
    name = cls.tool_name
    if (
        not isinstance(name, str)
        or not (name.isidentifier() and name.isascii())
        or name in contract.RESERVED_TOOL_NAMES
    ):
        raise contract.ContractError(f"tool_name is {name!r}; wanted a name such as 'act', and no reserved one")
    argument = _argument(cls)
    parameters = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument],
                  "additionalProperties": False}  # fmt: skip
    told = "Give the answer." if argument == "answer" else "Take one action."
    return [{"name": name, "description": told, "parameters": parameters}]


def _tool_specs(cls: type) -> list[dict[str, Any]]:
    names = contract.tool_names(cls)
    if not names:
        raise contract.ContractError("a ToolEnv needs at least one @tool method")
    _check_base(cls)
    reserved = sorted(set(names) & set(contract.RESERVED_TOOL_NAMES))
    if reserved:
        raise contract.ContractError(f"the tool name {reserved[0]!r} is reserved; rename it")
    return [_tool_spec(cls, name) for name in names]


def _tool_spec(cls: type, name: str) -> dict[str, Any]:
    method: Any = getattr(cls, name)
    if not callable(method) or isinstance(inspect.getattr_static(cls, name), staticmethod | classmethod):
        raise contract.ContractError(f"tool {name} must be a plain method, def {name}(self, ...)")
    if not name.isascii() or len(name) > contract.TOOL_NAME_LIMIT:
        raise contract.ContractError(f"tool {name[:80]} needs a name of at most 64 letters from a to z, digits and _")
    description = " ".join((method.__doc__ or "").split())
    if not 0 < len(description) <= contract.DESCRIPTION_LIMIT:
        found = f"one of {len(description)} characters" if description else "none"
        raise contract.ContractError(
            f"tool {name} needs a docstring that tells what it does, of at most 2000 characters; found {found}"
        )
    return {"name": name, "description": description, "parameters": schema.tool_schema(method)}


def _step_reply(result: Any, role: str) -> Reply:
    if not isinstance(result, tuple) or len(result) != 5:
        raise contract.ContractError("step must return (observation, reward, terminated, truncated, info)")
    observation, reward, terminated, truncated, info = result
    if type(reward) not in (int, float):
        raise contract.ContractError(f"reward is {type(reward).__name__}; wanted a float in [0, 1]")
    if type(terminated) is not bool or type(truncated) is not bool:
        raise contract.ContractError("terminated and truncated must be bool")
    return {"observation": _text(observation, "step"), "role": role, "reward": float(reward),
            "terminated": terminated, "truncated": truncated, "info": _info(info)}  # fmt: skip


def _text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise contract.ContractError(f"{where} returned an observation of type {type(value).__name__}; wanted str")
    return value


def _info(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise contract.ContractError(f"info is {type(value).__name__}; wanted dict")
    try:
        text = plain_json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise contract.ContractError(f"info must be JSON-able: {error}") from error
    if len(text) > 4096:
        raise contract.ContractError(f"info is {len(text)} bytes; at most 4096")
    return value


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise contract.ContractError(f"{where} must be a list, not {type(value).__name__}")
    return value


def _text_action(cls: Any, action: Any) -> dict[str, Any]:
    if not isinstance(action, str):
        raise contract.ContractError("solution() of a TextEnv is a list of str")
    return {"name": cls.tool_name, "arguments": {_argument(cls): action}}


def _goal_actions(part: Any) -> list[dict[str, Any]]:
    steps = _listed(part, "each entry of solution()")
    reply = steps[-1] if steps and isinstance(steps[-1], str) else ""
    calls = steps[:-1] if steps and isinstance(steps[-1], str) else steps
    if not all(isinstance(call, contract.Call) for call in calls):
        raise contract.ContractError("each entry of solution() is a list of Call, with at most one str, at its end")
    return [{"name": call.name, "arguments": call.arguments} for call in calls] + [{"text": reply}]


def _follow(root: Any, path: str) -> Any:
    value = root
    for part in path.split("."):
        try:
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        except (KeyError, AttributeError) as error:
            raise contract.ContractError(f"hidden names {path!r}, and there is no {part!r} after reset") from error
    return value
