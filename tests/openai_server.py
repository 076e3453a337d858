"""A real HTTP server on a free loopback port that speaks OpenAI's chat completions and plays prepared replies."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_PIECE = 7
"""Characters of arguments that are streamed at a time: not a divisor of anything."""


@dataclass(frozen=True)
class Reply:
    """What the server does with one request."""

    say: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    first_id: int = 0
    """The number in the id of the first call."""
    status: int = 200
    hangs: bool = False
    """It says what it has to say, and then neither goes on nor ends."""

    def call_id(self, index: int) -> str:
        return f"call_served_{self.first_id + index}"


@dataclass
class Received:
    body: dict[str, Any]
    authorization: str


@dataclass
class OpenAiServer:
    address: str
    """What a client takes as its base_url."""
    key: str = "sk-loopback-4711"
    knows_tools: bool = True
    replies: list[Reply] = field(default_factory=list)
    """Played one after another."""
    received: list[Received] = field(default_factory=list)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.received.append(Received(body, request.headers.get("authorization", "")))
        if self.received[-1].authorization != f"Bearer {self.key}":
            return refusal(401, "Incorrect API key provided.")
        if "tools" in body and not self.knows_tools:
            return refusal(400, "this model does not support tools")
        if any(message["role"] == "tool" for message in body["messages"]) and not self.knows_tools:
            return refusal(400, "unknown role: tool")
        if missing := unanswered(body["messages"]):
            return refusal(400, f"tool_use ids were found without tool_result: {', '.join(missing)}")
        reply = self.replies.pop(0)
        if reply.status != 200:
            return refusal(reply.status, "not now")
        if body.get("stream"):
            return StreamingResponse(self._streamed(reply, body), media_type="text/event-stream")
        if reply.hangs:
            await self.closing.wait()
        return JSONResponse(whole(reply, body))

    async def _streamed(self, reply: Reply, body: dict[str, Any]) -> AsyncIterator[str]:
        for piece in pieces(reply, body):
            yield piece
            await asyncio.sleep(0)  # each delta is a packet of its own
        if reply.hangs:
            await self.closing.wait()
        for piece in ending(reply, body):
            yield piece


def unanswered(messages: list[dict[str, Any]]) -> list[str]:
    """Tool calls without a result right behind the message that asked for them: every vendor refuses these."""
    missing: list[str] = []
    wanted: set[str] = set()
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            wanted.discard(message["tool_call_id"])
        else:
            missing += sorted(wanted)
            wanted = {call["id"] for call in message.get("tool_calls") or ()}
    return missing


def pieces(reply: Reply, body: dict[str, Any]) -> Iterator[str]:
    for delta in deltas(reply):
        yield event(body, [{"index": 0, "delta": delta, "finish_reason": None}])


def ending(reply: Reply, body: dict[str, Any]) -> Iterator[str]:
    yield event(body, [{"index": 0, "delta": {}, "finish_reason": reason(reply)}])
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event(body, [], usage=usage(reply, body))
    yield "data: [DONE]\n\n"


def deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for word in words(reply.say):
        yield {"content": word}
    for index, (name, args) in enumerate(reply.calls):
        text = json.dumps(args)
        function = {"name": name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": reply.call_id(index), "type": "function", "function": function}]}
        for piece in pieces_of(text):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def whole(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": reply.call_id(index), "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for index, (name, args) in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.say, "tool_calls": calls or None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason(reply)}],
        "usage": usage(reply, body),
    }


def event(body: dict[str, Any], choices: list[dict[str, Any]], **more: Any) -> str:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    return f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n"


def usage(reply: Reply, body: dict[str, Any]) -> dict[str, int]:
    """Messages in, words out: easy to foretell."""
    read, written = len(body["messages"]), len(words(reply.say))
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def words(text: str) -> list[str]:
    return [word for word in text.replace(" ", " \0").split("\0") if word]


def pieces_of(text: str) -> list[str]:
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def reason(reply: Reply) -> str:
    return "tool_calls" if reply.calls else "stop"


def refusal(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "refused", "code": None}}, status)


@asynccontextmanager
async def serving_openai() -> AsyncIterator[OpenAiServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        played = OpenAiServer(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        app = Starlette(routes=[Route("/v1/chat/completions", played.complete, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield played  # the socket listens already; who comes early waits for the server
        finally:
            played.closing.set()
            server.should_exit = True
            await running


@pytest.fixture
async def openai_server() -> AsyncIterator[OpenAiServer]:
    async with serving_openai() as server:
        yield server
