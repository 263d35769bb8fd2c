"""ACEBench's end states: what the scenario classes must hold at the end of a dialogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["check_states"]

State = Mapping[str, Any]
"""`{class: {attribute: value}}`, of one class."""


def check_states(states: Sequence[State], gold: Any) -> str:
    """What differs from the gold states; empty where nothing does.

    As the protocol has it: an attribute that is a mapping may hold more than the gold one, and a gold class whose name
    no state bears (some are misspelt) is judged as the one before it, the first of all as right.
    """
    wanted: Sequence[State] = gold if isinstance(gold, list) else [gold]
    if len(wanted) != len(states):
        return f"{len(states)} classes; wanted {len(wanted)}"
    faults, fault = [], ""
    for expected in wanted:
        found = next((state for state in states if set(state) == set(expected)), None)
        if found is not None:
            fault = "; ".join(_differences(found, expected))
        faults.append(fault)
    return next((fault for fault in faults if fault), "")


def _differences(state: State, gold: State) -> Iterator[str]:
    name, wanted = next(iter(gold.items()))
    for attribute, value in next(iter(state.values())).items():
        if attribute not in wanted:
            yield f"{name}.{attribute} is not in the answer"
        elif isinstance(wanted[attribute], Mapping):
            for key, expected in wanted[attribute].items():
                if key not in value or value[key] != expected:
                    yield f"{name}.{attribute}[{key}] differs"
        elif wanted[attribute] != value:
            yield f"{name}.{attribute} differs"
