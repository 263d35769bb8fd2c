"""The worker extension with a fault, for a server of the checks: what goes wrong in the next syncs is told to it."""

from __future__ import annotations

from spade_vllm_worker import SpadeWorker

QUERY, KEY = "model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"


class FaultyWorker(SpadeWorker):
    """Sound until `spade_inject` names a fault."""

    spade_fault: str = ""

    def spade_inject(self, fault: str):
        self.spade_fault = fault
        return {"fault": fault}

    def spade_stream(self, tensors):
        for name, tensor in tensors:
            match self.spade_fault:
                case "dropped" if name == QUERY:
                    continue
                case "stale":
                    continue
                case "swapped" if name in (QUERY, KEY):
                    yield ({QUERY: KEY, KEY: QUERY}[name], tensor)
                case _:
                    yield name, tensor

    def spade_load(self, path: str, version: int):
        return {"tensors": 0} if self.spade_fault == "nothing" else super().spade_load(path, version)

    def spade_mend(self) -> None:
        if self.spade_fault != "stale packed head":
            super().spade_mend()
