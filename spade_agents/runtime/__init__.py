"""Where a run's parts run: on this machine, or as processes of a Ray cluster. Ray is loaded when it is used."""

from __future__ import annotations

from spade_agents.runtime.cluster import Cluster, Unreachable, find_cluster, room_faults
from spade_agents.runtime.local import LocalRuntime, Runtime
from spade_agents.runtime.ray_runtime import RayRuntime, open_runtime
from spade_agents.runtime.settings import LocalTable, Part, RayTable, RuntimeTable, parts_of, total

__all__ = [
    "Cluster",
    "LocalRuntime",
    "LocalTable",
    "Part",
    "RayRuntime",
    "RayTable",
    "Runtime",
    "RuntimeTable",
    "Unreachable",
    "find_cluster",
    "open_runtime",
    "parts_of",
    "room_faults",
    "total",
]
