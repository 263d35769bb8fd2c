"""What every adapter does with a class that knows nothing of the contract: build it, begin it, read what it gives."""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

from ..contract import ContractError, GymStep

__all__ = ["as_text", "begun", "built", "step_of"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def built(cls: Any, max_turns: int) -> Any:
    """An instance, told how many turns it has where it asks for that.

    Raises:
        ContractError: its constructor needs arguments.
    """
    parameters = _parameters(cls)
    needed = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if needed and needed != ["max_turns"]:
        raise ContractError(f"{cls.__name__}() cannot be made without {', '.join(needed)}; give them defaults")
    return cls(max_turns=max_turns) if "max_turns" in parameters else cls()


def begun(env: Any, seed: int) -> str:
    """Begin the instance of `seed`; its first observation."""
    parameters = _parameters(env.reset)
    if "seed" in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        result = env.reset(seed=seed)
    elif any(parameter.kind in _NAMED for parameter in parameters.values()):
        result = env.reset(seed)
    else:
        result = env.reset()
    return as_text(result[0] if isinstance(result, tuple) and len(result) == 2 else result, "reset")


def as_text(value: Any, where: str) -> str:
    """An observation as text: a string as it is, plain values as JSON.

    Raises:
        ContractError: it is neither.
    """
    if isinstance(value, str):
        return str.__str__(value)
    plain = value.tolist() if hasattr(value, "tolist") else value
    try:
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractError(f"{where} gave an observation of type {type(value).__name__}, which is not text") from error


def step_of(result: Any) -> GymStep:
    """The five values of a step, of Gymnasium's five or of the older four; the reward clipped to [0, 1].

    What an environment puts into its `info` is left out: it need not be JSON, and nothing reads it.

    Raises:
        ContractError: not such a tuple, or a reward that is no finite number.
    """
    if not isinstance(result, tuple) or len(result) not in (4, 5):
        raise ContractError("step must return (observation, reward, terminated, truncated, info)")
    observation, reward, *ended = result
    terminated, truncated = (ended[0], False) if len(result) == 4 else ended[:2]
    return as_text(observation, "step"), _clipped(reward), bool(terminated), bool(truncated), {}


def _clipped(reward: Any) -> float:
    try:
        number = float(reward)
    except (TypeError, ValueError) as error:
        raise ContractError(f"reward is {type(reward).__name__}; wanted a number") from error
    if not math.isfinite(number):
        raise ContractError(f"reward is {number}; wanted a finite number")
    return min(1.0, max(0.0, number))


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise ContractError(f"the parameters of {function!r} cannot be read: {error}") from error
