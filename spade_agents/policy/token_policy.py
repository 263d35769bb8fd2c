"""TokenPolicy: a renderer over an engine that continues tokens; what is trained is exactly what the engine sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from spade_agents.errors import ContextExhaustedError, PolicyError
from spade_agents.messages import Conversation
from spade_agents.policy.protocol import PolicyInfo, Sampling
from spade_agents.rendering import Deviation, Renderer, RenderStyle
from spade_agents.trajectory import Completion, Usage

__all__ = ["Generated", "TokenEngine", "TokenPolicy"]


class Generated(NamedTuple):
    """Sampled tokens, the stop token included, their log-probabilities, and whether no stop token ended them."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    truncated: bool


class TokenEngine(Protocol):
    """Continues tokens by tokens."""

    async def generate(
        self,
        prompt_ids: tuple[int, ...],
        sampling: Sampling,
        *,
        stop: frozenset[int],
        seed: int,
        deadline: float | None = None,
        keep: bool = False,
    ) -> Generated:
        """Sample until a stop token, `sampling.max_tokens`, or the end of the context.

        Args:
            prompt_ids: shorter than the context.
            sampling: temperature, top-p, top-k, length.
            stop: tokens that end the message.
            seed: of this request alone.
            deadline: `time.monotonic()` after which an `InfrastructureError` is raised.
            keep: whether a longer prompt that begins with these tokens is likely to come.
        """
        ...


class TokenPolicy:
    """A policy with tokens.

    Args:
        engine: samples.
        renderer: of the tokenizer that the engine's model was trained with.
        name: shown in `info`.
        context_length: of the engine, in tokens.
        deviation: how the renderer departs from the model's own template.
        stop: tokens that end a message; by default the renderer's one.
        backend: shown in `info`.
    """

    def __init__(
        self,
        engine: TokenEngine,
        renderer: Renderer,
        *,
        name: str,
        context_length: int,
        deviation: Deviation = Deviation.NONE,
        stop: Sequence[int] | None = None,
        backend: str = "",
    ) -> None:
        self.info = PolicyInfo(name=name, context_length=context_length, has_tokens=True, backend=backend)
        self.renderer = renderer
        self.deviation = deviation
        self._engine = engine
        self._stop = frozenset([renderer.end_id] if stop is None else stop)

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
        version = self.info.weight_version
        generated = await self._engine.generate(
            prompt, sampling, stop=self._stop, seed=seed, deadline=deadline, keep=bool(conversation.tools)
        )
        if len(generated.logprobs) != len(generated.token_ids):
            raise PolicyError(
                f"the engine of {self.info.name} gave {len(generated.logprobs)} log-probabilities for "
                f"{len(generated.token_ids)} tokens; wanted one each"
            )
        parsed = self.renderer.parse(generated.token_ids, truncated=generated.truncated, tools=conversation.known_tools)
        finish: Literal["stop", "calls"] = "calls" if parsed.calls or parsed.broken else "stop"
        return Completion(
            text=parsed.text,
            thinking=parsed.thinking,
            calls=parsed.calls,
            broken=parsed.broken,
            finish="length" if generated.truncated else finish,
            prompt_ids=prompt,
            token_ids=generated.token_ids,
            logprobs=generated.logprobs,
            temperature=sampling.temperature,
            weight_version=version,
            usage=Usage(prompt_tokens=len(prompt), completion_tokens=len(generated.token_ids)),
        )
