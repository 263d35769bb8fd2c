"""TorchPolicy: a model in this process; concurrent requests are sampled together in one worker thread."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from spade_agents.errors import CheckpointError, ContextExhaustedError, InfrastructureError, PolicyError
from spade_agents.messages import Conversation
from spade_agents.policy.llama import Llama, LlamaShape, read_state
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.policy.sampler import Sampled, Sampler, SampleRequest, SamplerLimits
from spade_agents.policy.scoring import score_tokens
from spade_agents.policy.tokenizer import PlainTokenizer, load_tokenizer
from spade_agents.rendering import HermesRenderer, RenderStyle
from spade_agents.trajectory import Completion, Usage

__all__ = ["TorchPolicy"]

_GATHER_SECONDS = 0.001
"""How long an idle worker waits for requests that come together, so that equal prompts are prefilled once."""


@dataclass(slots=True, kw_only=True)
class _Ticket:
    """A request on its way: filled by the worker, awaited by `complete`."""

    request: SampleRequest
    deadline: float | None
    future: Future[Sampled]


class TorchPolicy:
    """A Llama model behind the Policy Protocol.

    Args:
        model: sampling weights.
        renderer: of the tokenizer that the model was trained with.
        name: shown in `info`.
        limits: rows and memory of the sampler.
        one_call: whether a message ends with its first call; without it, it ends with the template's stop token only.
    """

    def __init__(
        self,
        model: Llama,
        renderer: HermesRenderer,
        *,
        name: str = "torch",
        limits: SamplerLimits | None = None,
        one_call: bool = False,
    ) -> None:
        if one_call and renderer.call_end_id is None:
            raise PolicyError("the tokenizer spells </tool_call>, so a message cannot end with it; use one_call=False")
        self.info = PolicyInfo(name=name, context_length=model.shape.context_length, has_tokens=True)
        self.renderer = renderer
        ends = (renderer.end_id, renderer.call_end_id if one_call else None)
        self._stop = frozenset(token for token in ends if token is not None)
        self.sampler = Sampler(model, limits)
        self._inbox: list[_Ticket] = []
        self._lock = threading.Lock()
        self._is_working = False
        self._unanswered: set[Future[Sampled]] = set()
        self._shift: Future[None] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="torch-policy")

    @classmethod
    def from_folder(
        cls,
        folder: Path,
        *,
        dtype: torch.dtype = torch.float32,
        style: RenderStyle | None = None,
        limits: SamplerLimits | None = None,
    ) -> Self:
        """A policy from a Hugging Face Llama folder; `spade.json` in it may name the template's family and style.

        Its weights are version 0, whatever step of whatever run wrote them.

        Raises:
            CheckpointError: a missing or unreadable file, another architecture or template family.
        """
        config = _read_json(folder / "config.json")
        about = _read_json(folder / "spade.json") if (folder / "spade.json").is_file() else {}
        family = about.get("template_family", HermesRenderer.family)
        if family != HermesRenderer.family:
            raise CheckpointError(f"{folder} uses the template family {family!r}; known: {HermesRenderer.family}")
        chosen = style or about.get("style", "full")
        if chosen not in get_args(RenderStyle):
            raise CheckpointError(f"{folder} uses the style {chosen!r}; known: {', '.join(get_args(RenderStyle))}")
        model = Llama(LlamaShape.from_config(config), read_state(folder), dtype=dtype)
        renderer = HermesRenderer(load_tokenizer(folder), style=chosen)
        return cls(model, renderer, name=str(about.get("name", folder.name)), limits=limits)

    @classmethod
    def from_model(
        cls,
        model: Any,
        tokenizer: PlainTokenizer,
        *,
        style: RenderStyle = "full",
        name: str = "torch",
        dtype: torch.dtype = torch.float32,
        limits: SamplerLimits | None = None,
        one_call: bool = False,
    ) -> Self:
        """A policy that copies the weights of a transformers LlamaForCausalLM."""
        llama = Llama(LlamaShape.from_config(model.config.to_dict()), model.state_dict(), dtype=dtype)
        return cls(llama, HermesRenderer(tokenizer, style=style), name=name, limits=limits, one_call=one_call)

    @property
    def style(self) -> RenderStyle:
        """Of the renderer, and so of the prompts that fit this model."""
        return self.renderer.style

    async def complete(
        self, conversation: Conversation, sampling: Sampling, *, seed: int, deadline: float | None = None
    ) -> Completion:
        prompt = tuple(self.renderer.render_prompt(conversation))
        if len(prompt) >= self.info.context_length:
            raise ContextExhaustedError(
                f"the prompt has {len(prompt)} tokens; the context of {self.info.name} is {self.info.context_length}"
            )
        request = SampleRequest(
            prompt=prompt,
            max_tokens=sampling.max_tokens,
            seed=seed,
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            stop=self._stop,
            keep=bool(conversation.tools),
        )
        version = self.info.weight_version
        sampled = await asyncio.wrap_future(self._submit(request, deadline))
        return self._completion(prompt, sampled, sampling, version)

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Take over weights by their Hugging Face names; kept prefixes are dropped.

        Raises:
            PolicyError: completions are in flight.
            CheckpointError: a tensor is missing or misshapen; the old weights stay.
        """
        if self._unanswered:
            raise PolicyError("weights were loaded while completions are in flight; wait for them first")
        if self._shift is not None:
            # All are answered, but the worker may still be dropping cancelled rows.
            self._shift.result()
        self.sampler.load(state)
        self.info = replace(self.info, weight_version=version)

    def score(self, token_ids: Sequence[int], *, temperature: float = 1.0) -> list[float]:
        """Log-probability of each token but the first, given those before it, by the sampling weights.

        Compare with the trainer's own numbers to prove that weights arrived.
        """
        return score_tokens(self.sampler.model, token_ids, temperature=temperature)

    def close(self) -> None:
        """End the worker thread; requests in flight are finished first."""
        self._worker.shutdown(wait=True)

    def _completion(self, prompt: tuple[int, ...], sampled: Sampled, sampling: Sampling, version: int) -> Completion:
        parsed = self.renderer.parse(sampled.token_ids, truncated=sampled.truncated)
        finish: Literal["stop", "calls", "length"] = "calls" if parsed.calls or parsed.broken else "stop"
        return Completion(
            text=parsed.text,
            thinking=parsed.thinking,
            calls=parsed.calls,
            broken=parsed.broken,
            finish="length" if sampled.truncated else finish,
            prompt_ids=prompt,
            token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            temperature=sampling.temperature,
            weight_version=version,
            usage=Usage(prompt_tokens=len(prompt), completion_tokens=len(sampled.token_ids)),
        )

    def _submit(self, request: SampleRequest, deadline: float | None) -> Future[Sampled]:
        ticket = _Ticket(request=request, deadline=deadline, future=Future())
        self._unanswered.add(ticket.future)
        ticket.future.add_done_callback(self._unanswered.discard)
        with self._lock:
            self._inbox.append(ticket)
            if not self._is_working:
                self._is_working = True
                self._shift = self._worker.submit(self._work)
        return ticket.future

    def _work(self) -> None:
        """Sample until nothing is left; runs in the worker thread, which is the only one to touch the sampler."""
        live: dict[int, _Ticket] = {}
        time.sleep(_GATHER_SECONDS)
        while self._take(live):
            try:
                self._drop_overdue(live)
                done = self.sampler.step()
            except Exception as error:  # the thread's boundary: every waiting completion is told
                self.sampler.clear()
                _fail(list(live.values()), error)
                live.clear()
                continue
            for key, sampled in done:
                _give(live.pop(key).future, sampled)

    def _take(self, live: dict[int, _Ticket]) -> bool:
        """Move new requests to the sampler; False, and no longer working, when there is nothing to do."""
        with self._lock:
            arrived, self._inbox = self._inbox, []
            if not arrived and not live:
                self._is_working = False
                return False
        for ticket in arrived:
            try:
                live[self.sampler.submit(ticket.request)] = ticket
            except PolicyError as error:
                _fail([ticket], error)
        return True

    def _drop_overdue(self, live: dict[int, _Ticket]) -> None:
        now = time.monotonic()
        for key, ticket in list(live.items()):
            overdue = ticket.deadline is not None and now > ticket.deadline
            if overdue or ticket.future.cancelled():
                self.sampler.cancel(key)
                del live[key]
            if overdue:
                _fail([ticket], InfrastructureError("the deadline passed before the completion was sampled"))


def _give(future: Future[Sampled], sampled: Sampled) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(sampled)


def _fail(tickets: Sequence[_Ticket], error: Exception) -> None:
    for ticket in tickets:
        if ticket.future.set_running_or_notify_cancel():
            ticket.future.set_exception(error)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}; wanted a Hugging Face folder") from error
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return fields
