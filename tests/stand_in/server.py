"""The stand-in as a server: every vendor on one port. `python -m tests.stand_in.server 8499` runs it alone."""

import asyncio
import math
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.openai_server import Reply, unanswered
from tests.stand_in import anthropic, gemini, ollama, openai
from tests.stand_in.replies import Prompt, embedding, reply_to

Json = dict[str, Any]


@dataclass(frozen=True)
class Wire:
    """How a vendor's requests are read, and how a reply is written: whole, or in pieces."""

    read: Callable[[Json], Prompt]
    whole: Callable[[Reply, Json], Json]
    pieces: Callable[[Reply, Json], Iterator[str]]
    strict: bool = True
    """Calls without a result are rejected."""
    media_type: str = "text/event-stream"


WIRES = {
    "/v1/chat/completions": Wire(openai.read_chat, openai.whole_chat, openai.chat_pieces),
    "/v1/responses": Wire(openai.read_response, openai.whole_response, openai.response_pieces),
    "/v1/messages": Wire(anthropic.read, anthropic.whole, anthropic.pieces),
    "/v1beta/models/{model}:{verb}": Wire(gemini.read, gemini.whole, gemini.pieces),
    "/api/chat": Wire(ollama.read, ollama.whole, ollama.pieces, strict=False, media_type="application/x-ndjson"),
}


@dataclass
class StandIn:
    address: str
    prompts: list[Prompt] = field(default_factory=list)
    """What models were asked, in the order of arrival."""
    refused: list[str] = field(default_factory=list)
    """Requests that a vendor would reject, by reason."""
    held: int = 0
    """Replies that have begun and wait to be released."""
    _hold_from: float = math.inf
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def hold(self, after: int = 0) -> None:
        """From now on replies stop in their midst; the first ones, as many as `after`, do not."""
        self._hold_from = len(self.prompts) + after

    def release(self) -> None:
        self._hold_from, self.held = math.inf, 0
        self._released.set()
        self._released = asyncio.Event()

    def app(self) -> Starlette:
        routes = [Route(path, self._answering(wire), methods=["POST"]) for path, wire in WIRES.items()]
        return Starlette(
            routes=[
                Route("/v1/embeddings", embed, methods=["POST"]),
                Route("/search", search, methods=["POST"]),
                Route("/stand-in", self.control, methods=["GET", "POST"]),
                *routes,
            ]
        )

    def _answering(self, wire: Wire) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            body = await request.json()
            prompt = wire.read(body)
            self.prompts.append(prompt)
            if wire.strict and (missing := unanswered(openai.merged(prompt.messages))):
                self.refused.append(f"tool calls without a result: {', '.join(missing)}")
                return JSONResponse({"type": "error", "error": {"message": self.refused[-1], "code": 400}}, 400)
            released = self._released if len(self.prompts) > self._hold_from else None
            reply = reply_to(prompt)
            if prompt.stream or request.path_params.get("verb") == "streamGenerateContent":
                return StreamingResponse(self._streamed(wire, reply, body, released), media_type=wire.media_type)
            await self._wait(released)
            return JSONResponse(wire.whole(reply, body))

        return answer

    async def _streamed(
        self, wire: Wire, reply: Reply, body: Json, released: asyncio.Event | None
    ) -> AsyncIterator[str]:
        pieces = list(wire.pieces(reply, body))
        for number, piece in enumerate(pieces):
            if number == len(pieces) // 2:
                await self._wait(released)
            yield piece
            await asyncio.sleep(0)  # each piece is a packet of its own

    async def _wait(self, released: asyncio.Event | None) -> None:
        if released is not None:
            self.held += 1
            await released.wait()

    async def control(self, request: Request) -> Response:
        """Of a stand-in in another process: `{"hold": 2}` holds, `{}` releases, and a GET says what it was asked."""
        if request.method == "POST":
            told = await request.json()
            self.hold(told["hold"]) if "hold" in told else self.release()
        return JSONResponse({"held": self.held, "prompts": len(self.prompts), "refused": self.refused})


async def embed(request: Request) -> Response:
    body = await request.json()
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [embedding(str(text), body.get("dimensions") or 1536) for text in texts]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return JSONResponse({"object": "list", "data": data, "model": body["model"], "usage": usage})


async def search(request: Request) -> Response:
    """Tavily's wire."""
    query = (await request.json())["query"]
    pages = [
        {
            "title": f"Page {number} on {query}",
            "url": f"https://example.org/{number}",
            "content": f"What page {number} says about {query}.",
            "raw_content": f"All that page {number} says about {query}.",
            "score": 1 / number,
        }
        for number in (1, 2)
    ]
    return JSONResponse({"query": query, "results": pages, "images": [], "answer": None, "response_time": 0.1})


@asynccontextmanager
async def standing_in(port: int = 0) -> AsyncIterator[StandIn]:
    with socket.create_server(("127.0.0.1", port)) as listening:
        stand_in = StandIn(f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = uvicorn.Config(stand_in.app(), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield stand_in
        finally:
            stand_in.release()
            server.should_exit = True
            await running


async def _alone(port: int) -> None:
    async with standing_in(port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_alone(int(sys.argv[1])))
