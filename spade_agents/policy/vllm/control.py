"""What changes a vLLM server: weights from a file, caches, versions; its calls block, since nothing is in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Self, TypeVar

import httpx2

from spade_agents.errors import InfrastructureError, PolicyError
from spade_agents.policy.endpoint_client import AnswerError
from spade_agents.policy.vllm.address import Address
from spade_agents.policy.vllm.wire import GENERATE

__all__ = ["DEV_ADVICE", "VllmControl"]

T = TypeVar("T")

DEV_ADVICE: Final = (
    "start it with VLLM_SERVER_DEV_MODE=1, --enable-scale-out, --enable-prompt-tokens-details, --logprobs-mode "
    "processed_logprobs and --worker-extension-cls spade_vllm_worker.SpadeWorker (the folder that "
    "spade_agents.policy.vllm.inside lies in on its PYTHONPATH), or let it be started: leave vllm.url empty"
)


class VllmControl:
    """Calls of a server's development endpoints.

    Args:
        address: of the server.
        seconds: wall-clock limit of one call; loading weights takes as long as reading them.
    """

    def __init__(self, address: Address, *, seconds: float) -> None:
        transport = httpx2.HTTPTransport(uds=address.socket) if address.socket else None
        self._address = address
        self._client = httpx2.Client(timeout=seconds, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def ask(self, body: Mapping[str, Any], read: Callable[[bytes], T]) -> T:
        """What `read` finds in the answer to a request for tokens.

        Raises:
            InfrastructureError: the server refuses the request, or answers something else.
        """
        answer = self._send("POST", GENERATE, body)
        if answer.status_code != 200:
            raise InfrastructureError(f"{self._address} refuses {GENERATE}: {answer.text[:500]}; {DEV_ADVICE}")
        try:
            return read(answer.content)
        except AnswerError as error:
            raise InfrastructureError(f"{self._address} answered {GENERATE} with {error}") from error

    def about(self) -> dict[str, Any]:
        """The worker's `version` and number format, `dtype`."""
        return self._workers("spade_about")[0]

    def load(self, path: str, version: int) -> None:
        """Have every worker load a safetensors file.

        Raises:
            InfrastructureError: a worker could not, in its own words.
        """
        self._workers("spade_load", path=path, version=version)

    def arrival(self) -> dict[str, Any]:
        """What the worker says of its weights: `version`, `dtype` and `sums`."""
        return self._workers("spade_arrival")[0]

    def reset_prefix_cache(self) -> bool:
        """Whether the server says that it has dropped its cached prefixes."""
        return bool(self._post("/reset_prefix_cache", {}).get("success"))

    def name_version(self, label: str) -> None:
        """The label that every token sampled from now on carries."""
        self._post("/update_weight_version", {"new_version": label})

    def version(self) -> str | None:
        """The label of the present weights; `None` where the server is not in development mode."""
        answer = self._send("GET", "/weight_info", None)
        return str(self._fields(answer)["weight_version"]) if answer.status_code == 200 else None

    def build(self) -> str | None:
        """The version of vLLM; `None` where the server does not tell."""
        answer = self._send("GET", "/version", None)
        return str(self._fields(answer)["version"]) if answer.status_code == 200 else None

    def sleep(self) -> None:
        """Have the server give up its device's memory but for the weights, which go to the CPU's."""
        self._post("/sleep?level=1&mode=wait", None)

    def wake(self) -> None:
        """Have it take its device's memory again."""
        self._post("/wake_up", None)

    def context_length(self, model: str) -> int:
        """Of a served model, in tokens.

        Raises:
            PolicyError: another model is served.
        """
        answer = self._send("GET", "/v1/models", None)
        served = {entry["id"]: entry for entry in self._fields(answer).get("data", ())}
        if model not in served:
            raise PolicyError(f"{self._address} serves {', '.join(served) or 'nothing'}; wanted {model}")
        return int(served[model]["max_model_len"])

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _workers(self, method: str, **arguments: Any) -> list[dict[str, Any]]:
        results = self._post("/collective_rpc", {"method": method, "kwargs": arguments}).get("results") or []
        if not results or not all(isinstance(result, dict) for result in results):
            raise InfrastructureError(f"{self._address} answered {method} with {results!r}; {DEV_ADVICE}")
        fault = next((result["error"] for result in results if "error" in result), None)
        if fault:
            raise InfrastructureError(f"a worker of {self._address} refuses {method}: {fault}")
        return list(results)

    def _post(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        answer = self._send("POST", path, body)
        if answer.status_code in (404, 405):
            raise PolicyError(f"{self._address} has no {path}, so its weights cannot be changed; {DEV_ADVICE}")
        return self._fields(answer)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx2.Response:
        try:
            return self._client.request(method, f"{self._address.url}{path}", json=body)
        except httpx2.HTTPError as error:
            raise InfrastructureError(
                f"{self._address}{path}: {type(error).__name__}: {error}; see that the server is up"
            ) from error

    def _fields(self, answer: httpx2.Response) -> dict[str, Any]:
        """The object in an answer."""
        told = answer.text[:500].strip()
        try:
            fields = answer.json() if answer.status_code == 200 else None
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise InfrastructureError(f"{answer.url.path} of {self._address}: status {answer.status_code}: {told!r}")
        return fields
