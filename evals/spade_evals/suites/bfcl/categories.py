"""BFCL v4's categories: groups, what of them runs offline, and their shares of the official overall accuracy."""

from __future__ import annotations

from collections.abc import Mapping

from spade_agents.errors import UsageError

__all__ = ["MULTI_TURN", "NOT_OFFLINE", "SINGLE_TURN", "chosen_columns", "shares"]

MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")

_GROUPS: Mapping[str, tuple[str, ...]] = {
    "non_live": ("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple"),
    "live": ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    "irrelevance": ("irrelevance", "live_irrelevance", "live_relevance"),
    "multi_turn": MULTI_TURN,
    "agentic": ("memory_kv", "memory_vector", "memory_rec_sum", "web_search_base", "web_search_no_snippet"),
}
_EVERY = tuple(name for names in _GROUPS.values() for name in names)

SINGLE_TURN = (*_GROUPS["non_live"], *_GROUPS["live"], *_GROUPS["irrelevance"])

NOT_OFFLINE = {
    "memory_vector": "needs an embedding model, which the package downloads; it is not run here",
    "web_search_base": "needs a search key and the network; it is not run here",
    "web_search_no_snippet": "needs a search key and the network; it is not run here",
}

_LIVE = {"live_simple": 258, "live_multiple": 1053, "live_parallel": 16, "live_parallel_multiple": 24}
"""Entries: the official mean of the live categories is over entries, all others are over categories."""

_SHARES = {
    **dict.fromkeys(("simple_python", "simple_java", "simple_javascript"), 10 / 4 / 3),
    **dict.fromkeys(("multiple", "parallel", "parallel_multiple"), 10 / 4),
    **{name: 10 * count / sum(_LIVE.values()) for name, count in _LIVE.items()},
    **dict.fromkeys(("irrelevance", "live_irrelevance"), 10 / 2),
    "live_relevance": 0.0,
    **dict.fromkeys(MULTI_TURN, 30 / 4),
    **dict.fromkeys(("memory_kv", "memory_vector", "memory_rec_sum"), 40 / 2 / 3),
    **dict.fromkeys(("web_search_base", "web_search_no_snippet"), 40 / 2 / 2),
}


def chosen_columns(part: str) -> tuple[str, ...]:
    """The categories that a part names: groups and categories, comma-separated; all where it is empty.

    `irrelevance` is a category as well as a group; the group holds the category.

    Raises:
        UsageError: there is no such group or category.
    """
    if not part:
        return _EVERY
    names = [name for given in part.split(",") for name in _GROUPS.get(given, (given,)) if given]
    for name in names:
        if name not in _EVERY:
            raise UsageError(f"bfcl_v4 has no category {name!r}; it has {', '.join(_GROUPS)} and: {', '.join(_EVERY)}")
    return tuple(dict.fromkeys(names))


def shares(columns: tuple[str, ...]) -> dict[str, float]:
    """The weights of columns in their mean: their shares of the official one, in per cent; equal where they have none.

    >>> shares(("irrelevance", "multi_turn_base", "live_relevance"))
    {'irrelevance': 5.0, 'multi_turn_base': 7.5, 'live_relevance': 0.0}
    """
    found = {name: _SHARES[name] for name in columns}
    return found if any(found.values()) else dict.fromkeys(columns, 1.0)
