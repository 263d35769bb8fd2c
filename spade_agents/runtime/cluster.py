"""The Ray cluster of a run: whether it can be reached and has room, and joining it for as long as the run lasts."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

from spade_agents.errors import InfrastructureError, UsageError
from spade_agents.runtime.settings import Part, RayTable, total
from spade_agents.training.devices import devices
from spade_environments.wording import counted

__all__ = ["Cluster", "Unreachable", "find_cluster", "joined", "room_faults"]

_LOOK_SECONDS, _DEAF_SECONDS = 60.0, 5.0
_LOOK = """
import json, sys, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
found = ray.cluster_resources()
machines = sum(node["Alive"] for node in ray.nodes())
print(json.dumps({"machines": machines, "cpus": found.get("CPU", 0.0), "gpus": found.get("GPU", 0.0)}))
"""


class Cluster(NamedTuple):
    """What a cluster has in all, whoever uses it now."""

    machines: int
    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{counted(self.machines, 'machine')} with {self.cpus:g} CPU and {self.gpus:g} GPU"


class Unreachable(NamedTuple):
    """Why there is no cluster."""

    why: str


def find_cluster(table: RayTable, parts: Sequence[Part]) -> Cluster | Unreachable:
    """Look at the cluster, from a process of its own: Ray waits minutes for one that does not answer."""
    if find_spec("ray") is None:
        return Unreachable("ray is not installed, which runtime.type asks for: pip install 'spade-agents[ray]'")
    if table.address == "local":
        gpus = len(devices("cuda")) if any(part.gpus for part in parts) else 0
        return Cluster(1, os.cpu_count() or 1, gpus)
    advice = "start one by ray start --head there, or set runtime.address to auto, HOST:PORT or local"
    if (deaf := _deaf(table.address)) is not None:
        return Unreachable(f"nothing answers at {table.address} (runtime.address): {deaf}; {advice}")
    try:
        looked = subprocess.run(
            [sys.executable, "-c", _LOOK, table.address],
            check=False,
            capture_output=True,
            text=True,
            timeout=_LOOK_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Unreachable(f"no Ray cluster answered at {table.address} (runtime.address) within a minute; {advice}")
    if looked.returncode and "InvalidAuthToken" in looked.stderr:
        return Unreachable(
            f"the Ray cluster at {table.address} (runtime.address) asks for its token: set RAY_AUTH_MODE=token, and "
            "RAY_AUTH_TOKEN to what stands in ~/.ray/auth_token where it was started"
        )
    if looked.returncode:
        why = (
            (looked.stderr.strip().splitlines() or ["no reason given"])[-1].rpartition("Error: ")[2].partition(". ")[0]
        )
        return Unreachable(f"no Ray cluster was found at {table.address} (runtime.address): {why[:200]}; {advice}")
    return Cluster(**json.loads(looked.stdout.strip().splitlines()[-1]))


def _deaf(address: str) -> str | None:
    """Why nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or "/" in address or not port.isdigit():
        return None
    try:
        socket.create_connection((host, int(port)), timeout=_DEAF_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return None


def room_faults(parts: Sequence[Part], found: Cluster | Unreachable) -> Iterator[str]:
    """Why the parts cannot be placed, if they cannot."""
    if isinstance(found, Unreachable):
        yield found.why
        return
    cpus, gpus = total(parts)
    if cpus > found.cpus or gpus > found.gpus:
        yield (
            f"runtime asks for {cpus:g} CPU and {gpus:g} GPU ({'; '.join(map(str, parts))}), and the Ray cluster has "
            f"{found.cpus:g} and {found.gpus:g}: add machines, or lower runtime.ranks, engines, workers or their shares"
        )


class Joined(NamedTuple):
    """A joined cluster with the run's placement group in it."""

    group: Any
    first: tuple[int, ...]

    def start(self, part: int, kind: type, share: Part, arguments: Sequence[Any], *, restarts: int) -> list[Any]:
        """Remote objects of a class, one for each copy of a part, in the part's bundles."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        def placed(number: int) -> Any:
            place = PlacementGroupSchedulingStrategy(self.group, self.first[part] + number)
            return remote.options(
                num_cpus=share.cpus, num_gpus=share.gpus, max_restarts=restarts, scheduling_strategy=place
            ).remote(*arguments)

        remote: Any = ray.remote(kind)
        return [placed(number) for number in range(share.copies)]


@contextmanager
def joined(table: RayTable, parts: Sequence[Part]) -> Iterator[Joined]:
    """Join the cluster, or start one, and reserve the parts' places; all that was started ends with the block.

    Raises:
        UsageError: ray is not installed, or no cluster is there.
        InfrastructureError: the cluster has no room in time, or one of our own does not come up.
    """
    if find_spec("ray") is None:
        raise UsageError("ray is not installed, which runtime.type asks for: pip install 'spade-agents[ray]'")
    with tempfile.TemporaryDirectory(prefix="spade-ray-") as room:
        own = _own(room) if table.address == "local" else {}
        import ray

        try:
            _join(table, own)
            yield _placed(table, parts)
        finally:
            ray.shutdown()


def _join(table: RayTable, own: dict[str, Any]) -> None:
    import ray

    try:
        ray.init(address=table.address, log_to_driver=False, logging_level="ERROR", **own)
    except Exception as error:  # Ray raises bare ones, too
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if own:
            told = f"a Ray cluster does not come up here, or not within the 30 s that Ray gives it: {why}"
            raise InfrastructureError(told) from error
        raise UsageError(f"no Ray cluster can be joined at {table.address} (runtime.address): {why}") from error


def _placed(table: RayTable, parts: Sequence[Part]) -> Joined:
    """The parts' places, reserved all together; they are given back when this process leaves the cluster."""
    import ray

    group = ray.util.placement_group([part.bundle for part in parts for _ in range(part.copies)], table.strategy)
    if not group.wait(table.start_seconds):
        raise InfrastructureError(
            f"the Ray cluster had no room within {table.start_seconds:g} s (runtime.start_seconds) for "
            f"{'; '.join(map(str, parts))}; free now: {ray.available_resources()}"
        )
    return Joined(group, tuple(sum(part.copies for part in parts[:number]) for number in range(len(parts))))


def _own(room: str) -> dict[str, Any]:
    """Of a cluster of our own: nothing is told to anybody, nothing is left behind, and nobody else can join it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray listens on all of the machine's addresses. It reads this once, when it is imported: where it has been, whoever
    # did so has decided, and the token is one for the process.
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    # Whatever else uses up this machine's memory, Ray would end our processes for it.
    return {"include_dashboard": False, "_temp_dir": room, "_system_config": {"memory_monitor_refresh_ms": 0}}
