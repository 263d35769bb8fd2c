"""Settings of vLLM as a policy; importing them loads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["VllmSettings"]

Number = Literal["bfloat16", "float16", "float32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmSettings:
    """How vLLM serves a model.

    Attributes:
        url: of a server that is up already, such as `http://localhost:8000`; empty for one that is started here and
            stopped at the end.
        python: the interpreter that has vLLM, which may be in an environment of its own; empty for this one.
        placement: `separate` leaves the server its device all the time; `colocated` shares it with the trainer, and the
            server sleeps during each update.
        devices: that the server sees, as in CUDA_VISIBLE_DEVICES; empty for all.
        memory_share: of a GPU's memory that the server takes.
        cache_gib: keys and values on a CPU; vLLM reads whole numbers only.
        dtype: of weights and activations.
        context_length: in tokens; 0 for the model's own.
        eager: start in seconds instead of minutes, and sample a little slower.
        threads: of a CPU; 0 leaves it to vLLM.
        concurrency: requests in flight at once.
        start_seconds: until the server must answer.
        request_seconds: wall-clock limit of one request.
        exchange: a folder that trainer and server both see, for the weights of a sync; empty for a temporary one.
        arguments: more of the server's command line.
        tolerance: mean difference between the trainer's log-probabilities of a canary and the server's that its number
            format explains.
    """

    type: Literal["vllm"] = "vllm"
    url: str = ""
    python: str = ""
    placement: Literal["separate", "colocated"] = "separate"
    devices: str = ""
    memory_share: float = 0.85
    cache_gib: float = 2.0
    dtype: Number = "bfloat16"
    context_length: int = 0
    eager: bool = False
    threads: int = 0
    concurrency: int = 256
    start_seconds: float = 600.0
    request_seconds: float = 600.0
    exchange: str = ""
    arguments: tuple[str, ...] = ()
    tolerance: float = 0.12

    def __post_init__(self) -> None:
        if not 0.0 < self.memory_share <= 1.0:
            raise ValueError(f"found memory_share = {self.memory_share}; wanted more than 0 and at most 1")
        if not float(self.cache_gib).is_integer():
            raise ValueError(f"found cache_gib = {self.cache_gib}; wanted a whole number: vLLM reads no other")
        for name in ("cache_gib", "concurrency", "start_seconds", "request_seconds", "tolerance"):
            if getattr(self, name) <= 0:
                raise ValueError(f"found {name} = {getattr(self, name)}; wanted more than 0")
