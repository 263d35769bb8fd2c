"""Adapters: environments of other shapes, played as if they were the contract's own.

Imported source finds this package as `spade_environments.adapters`; see `ALIASES`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from . import gymnasium, math_verify, spaces
from .release import ToolUseBaseEnv
from .text import text_env
from .tools import tool_env

__all__ = ["ALIASES", "ToolUseBaseEnv", "install", "text_env", "tool_env"]

_ROOT = "spade_environments.adapters"

ALIASES: dict[str, ModuleType] = {
    _ROOT: sys.modules[__name__],
    f"{_ROOT}.gymnasium": gymnasium,
    f"{_ROOT}.gymnasium.spaces": spaces,
    f"{_ROOT}.gymnasium.utils": gymnasium.utils,
    f"{_ROOT}.gymnasium.utils.seeding": gymnasium.seeding,
    f"{_ROOT}.math_verify": math_verify,
}
"""What imported source may import, by the name under which it does."""


def install() -> None:
    """Let imported source find the adapters."""
    for name, module in ALIASES.items():
        sys.modules.setdefault(name, module)
