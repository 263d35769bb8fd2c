"""The API of a vLLM server, over a worker in memory, on a free port: what it answers is sampled for real."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from spade_agents.policy.choice import choose
from tests.agents.policy.vllm.worker import MemoryWorker

BLOCK = 16


class StandIn:
    """A server's state; `broken` answers every completion with that body and status instead.

    Attributes:
        processed: whether log-probabilities are of what is sampled from.
        dev: whether weights can be changed.
        sticky: whether the prefix cache says that it was reset and was not; `stuck`, whether it says that it was not.
    """

    def __init__(
        self, worker: MemoryWorker | None = None, *, processed: bool = True, dev: bool = True, context: int = 512
    ) -> None:
        self.worker = worker or MemoryWorker()
        self.context = context
        self.processed, self.dev = processed, dev
        self.label, self.sticky, self.stuck = "default", False, False
        self.cached: set[tuple[int, ...]] = set()
        self.bodies: list[dict[str, Any]] = []
        self.broken: tuple[int, bytes] | None = None
        self.slow = 0.0
        self.slept: list[str] = []
        self.url = ""

    def app(self) -> Starlette:
        routes = [
            Route("/health", self.health),
            Route("/v1/models", self.models),
            Route("/version", self.version),
            Route("/inference/v1/generate", self.generate, methods=["POST"]),
        ]
        if self.dev:
            routes += [
                Route("/weight_info", self.weight_info),
                Route("/update_weight_version", self.update_weight_version, methods=["POST"]),
                Route("/reset_prefix_cache", self.reset_prefix_cache, methods=["POST"]),
                Route("/collective_rpc", self.collective_rpc, methods=["POST"]),
                Route("/sleep", self.sleep, methods=["POST"]),
                Route("/wake_up", self.sleep, methods=["POST"]),
            ]
        return Starlette(routes=routes)

    async def health(self, _request: Request) -> Response:
        return Response()

    async def version(self, _request: Request) -> Response:
        return JSONResponse({"version": "0.32.0"})

    async def models(self, _request: Request) -> Response:
        return JSONResponse({"data": [{"id": "spade", "max_model_len": self.context}]})

    async def weight_info(self, _request: Request) -> Response:
        return JSONResponse({"weight_version": self.label})

    async def update_weight_version(self, request: Request) -> Response:
        self.label = (await request.json())["new_version"]
        return JSONResponse({"success": True})

    async def reset_prefix_cache(self, _request: Request) -> Response:
        if not self.sticky and not self.stuck:
            self.cached.clear()
        return JSONResponse({"success": not self.stuck})

    async def sleep(self, request: Request) -> Response:
        self.slept.append(request.url.path)
        return JSONResponse({"status": "ok"})

    async def collective_rpc(self, request: Request) -> Response:
        body = await request.json()
        method = getattr(self.worker, body["method"])
        return JSONResponse({"results": [method(**body["kwargs"])]})

    async def generate(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        await asyncio.sleep(self.slow)
        if self.broken is not None:
            return Response(self.broken[1], self.broken[0])
        return JSONResponse(self.sampled(body["token_ids"], body["sampling_params"]))

    def sampled(self, prompt: list[int], wanted: dict[str, Any]) -> dict[str, Any]:
        ids, content, source = list(prompt), [], random.Random(wanted["seed"])
        scores = None
        if wanted.get("prompt_logprobs") is not None:
            logprobs = self.worker.logits(prompt).log_softmax(-1)
            scores = [None] + [
                {str(token): {"logprob": float(row[token]), "rank": 1}}
                for row, token in zip(logprobs[:-1], prompt[1:], strict=True)
            ]
        while len(content) < wanted["max_tokens"]:
            logits = self.worker.logits(ids)[-1:]
            chosen = choose(
                logits,
                torch.tensor([source.random()], dtype=torch.float64),
                temperature=torch.tensor([wanted["temperature"]]),
                top_k=torch.tensor([wanted["top_k"]]),
                top_p=torch.tensor([wanted["top_p"]]),
            )
            token = int(chosen.tokens[0])
            logprob = chosen.logprobs[0] if self.processed else logits.log_softmax(-1)[0, token]
            ids.append(token)
            content.append({"token_id": token, "logprob": float(logprob), "rank": 1, "top_logprobs": []})
            if token in wanted["stop_token_ids"]:
                break
        tokens = ids[len(prompt) :]
        stopped = tokens[-1] in wanted["stop_token_ids"]
        choice = {
            "index": 0,
            "token_ids": tokens,
            "logprobs": {"content": content},
            "finish_reason": "stop" if stopped else "length",
            "weight_versions": [{"version": self.label, "start": 0, "end": len(tokens)}],
        }
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": self._cache(prompt)}}
        return {"choices": [choice], "usage": usage, "prompt_logprobs": scores}

    def _cache(self, prompt: list[int]) -> int:
        """How many tokens were cached, whole blocks of all but the last one; now they are."""
        blocks = [tuple(prompt[:end]) for end in range(BLOCK, len(prompt), BLOCK)]
        found = sum(block in self.cached for block in blocks) * BLOCK
        self.cached.update(blocks)
        return found


@contextmanager
def serving(standin: StandIn, socket: str | None = None) -> Iterator[StandIn]:
    """The stand-in, listening in a thread of its own until the block ends."""
    where = {"uds": socket} if socket else {"host": "127.0.0.1", "port": 0}
    server = uvicorn.Server(uvicorn.Config(standin.app(), log_level="error", lifespan="off", **where))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.005)
    if not socket:
        standin.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield standin
    finally:
        server.should_exit = True
        thread.join()
