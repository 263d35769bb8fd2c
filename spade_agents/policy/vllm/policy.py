"""VllmPolicy: a policy whose model a vLLM server runs, and whose weights a trainer replaces, with proof."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Self

import torch
from safetensors.torch import save_file
from torch import Tensor

from spade_agents.errors import PolicyError
from spade_agents.messages import Conversation
from spade_agents.policy.arrival import Arrival, ArrivalError, TensorSum
from spade_agents.policy.endpoint_client import EndpointClient, EndpointSettings
from spade_agents.policy.model_files import FolderRenderer, renderer_of
from spade_agents.policy.protocol import Sampling
from spade_agents.policy.token_policy import TokenPolicy
from spade_agents.policy.vllm.address import Address
from spade_agents.policy.vllm.control import VllmControl
from spade_agents.policy.vllm.engine import VllmEngine, is_biased
from spade_agents.policy.vllm.server import SERVED_NAME, open_server
from spade_agents.policy.vllm.settings import VllmSettings
from spade_agents.policy.vllm.wire import generate_body, read_sampled, read_scores, score_body
from spade_agents.rendering import RenderStyle
from spade_agents.trajectory import Completion

__all__ = ["VllmPolicy"]

_FILE: Final = "weights.safetensors"


class VllmPolicy(TokenPolicy):
    """A policy over a vLLM server; see `open` for how to get one.

    Args:
        client: for completions.
        control: for everything that changes the server; `load_weights`, `arrival` and `score` block.
        found: the renderer of the model's folder.
        context_length: of the server, in tokens.
        exchange: the folder through which weights are handed over.
        processed: whether log-probabilities are those of the distribution that is sampled from, after temperature,
            top-k and top-p.
        colocated: whether the server sleeps while it is `resting`.
        fault: why there is no server any more, or `None`.
    """

    def __init__(
        self,
        client: EndpointClient,
        control: VllmControl,
        found: FolderRenderer,
        *,
        context_length: int,
        exchange: Path,
        processed: bool = True,
        colocated: bool = False,
        fault: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.control, self.processed, self.colocated = control, processed, colocated
        self.engine = VllmEngine(client, context_length=context_length, label=control.version(), fault=fault)
        self._exchange = exchange
        super().__init__(
            self.engine,
            found.renderer,
            name=found.name,
            context_length=context_length,
            deviation=found.deviation,
            backend=f"vllm {control.build() or '(version not told)'}",
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, settings: VllmSettings | None = None, *, style: RenderStyle | None = None
    ) -> AsyncIterator[Self]:
        """A policy of a Hugging Face folder, over a server that lives as long as the block, or over a given one.

        Args:
            folder: weights for a server of our own; tokenizer and chat template in every case.
            settings: `settings.url` is a server that was given, with the model's name there after `#`.
            style: of the tools block, instead of the folder's own.

        Raises:
            CheckpointError: an unreadable folder, or a template that no family renders.
            InfrastructureError: the server does not come up, or does not answer.
        """
        chosen = settings or VllmSettings()
        found = renderer_of(folder, style=style)
        async with AsyncExitStack() as stack:
            exchange = chosen.exchange or stack.enter_context(tempfile.TemporaryDirectory(prefix="spade-weights-"))
            fault: Callable[[], str | None] = lambda: None  # noqa: E731
            if chosen.url:
                url, _, name = chosen.url.partition("#")
                address, model = Address(url=url.rstrip("/").removesuffix("/v1")), name or str(folder)
            else:
                server = await stack.enter_async_context(open_server(folder, chosen))
                address, model, fault = server.address, SERVED_NAME, server.fault
            control = stack.enter_context(VllmControl(address, seconds=chosen.request_seconds))
            client = EndpointClient(
                url=address.url,
                model=model,
                settings=EndpointSettings(concurrency=chosen.concurrency, request_seconds=chosen.request_seconds),
                socket=address.socket,
            )
            stack.push_async_callback(client.aclose)
            length = control.context_length(model)
            policy = cls(
                client,
                control,
                found,
                context_length=length,
                exchange=Path(exchange),
                colocated=chosen.placement == "colocated",
                fault=fault,
            )
            if chosen.url:
                policy.processed = await policy.engine.tells_processed()
            yield policy

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        """See `Policy`; where the server's log-probabilities are not those of what is sampled from, there are none.

        So a completion with top-p from a server without `--logprobs-mode processed_logprobs` can be played and
        evaluated, and no trainer takes it.
        """
        completion = await super().complete(conversation, sampling, seed=seed, deadline=deadline)
        return completion if self.processed or not is_biased(sampling) else replace(completion, logprobs=None)

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Hand over weights by their Hugging Face names and drop what was computed with older ones.

        Raises:
            PolicyError: completions are in flight, or the server does not let its weights be changed.
            ArrivalError: a tensor of size zero, or a prefix cache that was not reset.
            InfrastructureError: the server could not load them.
        """
        if self.engine.in_flight:
            raise PolicyError("weights were loaded while completions are in flight; wait for them first")
        self._cached_tokens()
        dtype = getattr(torch, self.control.about()["dtype"])
        path = self._exchange / _FILE
        try:
            # Copies, because a file of weights refuses tensors that share their memory, as tied ones may.
            save_file({name: tensor.to("cpu", dtype, copy=True).contiguous() for name, tensor in state.items()}, path)
            self.control.load(str(path.absolute()), version)
        finally:
            path.unlink(missing_ok=True)
        if not self.control.reset_prefix_cache():
            raise ArrivalError(f"weights of version {version} arrived, but the server kept its prefix cache")
        self.control.name_version(str(version))
        self.engine.label = str(version)
        self.info = replace(self.info, weight_version=version)

    def arrival(self) -> Arrival:
        """What weights the server samples with, for `check_arrival`; a prompt cached before the sync must not be."""
        told = self.control.arrival()
        return Arrival(
            version=told["version"],
            dtype=getattr(torch, told["dtype"]),
            sums={name: TensorSum(tuple(shape), sha256) for name, (shape, sha256) in told["sums"].items()},
            prefixes=int(self._cached_tokens() > 0),
        )

    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """Log-probability of each token but the first, given those before it, by the server's weights.

        Raises:
            PolicyError: another temperature than 1, at which alone vLLM scores a prompt.
        """
        if temperature != 1.0:
            raise PolicyError(f"vLLM scores given tokens at temperature 1 only; {temperature} was asked for")
        body = score_body(token_ids, model=self.engine.client.model)
        return self.control.ask(body, partial(read_scores, tokens=token_ids))

    @contextmanager
    def resting(self) -> Iterator[None]:
        """For an update on the same device: the server gives up its memory until the block ends; else nothing."""
        if not self.colocated:
            yield
            return
        self.control.sleep()
        try:
            yield
        finally:
            self.control.wake()

    def _cached_tokens(self) -> int:
        """How much of one fixed prompt the server had in its prefix cache; now it has all of it."""
        body = generate_body(
            self.engine.probe, Sampling(temperature=0.0, max_tokens=1), model=self.engine.client.model, stop=(), seed=0
        )
        return self.control.ask(body, read_sampled).cached
