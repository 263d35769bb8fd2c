"""The tools of an environment as its host keeps them: built once for all episodes that declare the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from spade_environments import wire
from spade_environments.inside.contract import RESERVED_TOOL_NAMES
from spade_environments.types import ToolSpec
from spade_environments.validation import ArgumentValidator, clean_text

__all__ = ["Toolbox", "toolbox_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Tools in order of definition, by name, and the validator of their arguments."""

    tools: tuple[ToolSpec, ...]
    by_name: Mapping[str, ToolSpec]
    validator: ArgumentValidator


def toolbox_of(declared: list[wire.ToolReply]) -> Toolbox:
    """What a child has declared; the same words give the same object.

    Raises:
        WireError: a schema that no tool signature gives, a name that is reserved, or two tools of one name. The child
            refuses these as well, but what it runs may have changed what it goes by.
    """
    return _shared(tuple((tool.name, tool.description, bytes(tool.parameters)) for tool in declared))


@lru_cache(maxsize=256)
def _shared(declared: tuple[tuple[str, str, bytes], ...]) -> Toolbox:
    names = [name for name, _, _ in declared]
    unfit = [name for name in names if name in RESERVED_TOOL_NAMES or names.count(name) > 1]
    if unfit:
        raise wire.WireError(f"the tool name {unfit[0]!r} is reserved, or declared twice")
    tools = tuple(
        ToolSpec(name=name, description=clean_text(description), parameters=wire.checked_schema(parameters, name))
        for name, description, parameters in declared
    )
    return Toolbox(tools=tools, by_name={tool.name: tool for tool in tools}, validator=ArgumentValidator(tools))
