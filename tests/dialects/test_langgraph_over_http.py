"""The SDK's own client, over real HTTP, with a server that knows no more than the dialect."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from langgraph_sdk import get_client
from langgraph_sdk.stream.subscription import matches_subscription
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stellwerk.api.http.server import listener
from stellwerk.dialects.base import translate
from stellwerk.dialects.langgraph import runs, threads
from stellwerk.envelope.model import Envelope
from tests.dialects.sample_logs import parallel, positions, questions, troubled


def app(log: Sequence[Envelope]) -> Starlette:
    events = list(translate(threads.DIALECT.translator("s1"), positions(log)))

    async def command(request: Request) -> Response:
        asked = await request.json()
        return JSONResponse({"type": "success", "id": asked["id"], "result": {"run_id": "r1"}})

    async def thread(request: Request) -> Response:
        wanted = await request.json()
        told = [
            threads.DIALECT.frame(cursor, event)
            for cursor, event in events
            if event["seq"] > wanted.get("since", 0) and matches_subscription(event, wanted)  # type: ignore[arg-type]
        ]
        return StreamingResponse(iter(told), media_type=threads.DIALECT.media_type)

    async def state(request: Request) -> Response:
        values = [e["params"] for _, e in events if e["method"] == "values" and not e["params"]["namespace"]]
        return JSONResponse({"values": values[-1]["data"], "next": [], "tasks": []})

    async def run(request: Request) -> Response:
        told = (runs.DIALECT.frame(*each) for each in translate(runs.DIALECT.translator("s1"), positions(log)))
        return StreamingResponse(told, media_type=runs.DIALECT.media_type)

    return Starlette(
        routes=[
            Route("/threads/t1/commands", command, methods=["POST"]),
            Route("/threads/t1/stream/events", thread, methods=["POST"]),
            Route("/threads/t1/state", state),
            Route("/threads/t1/runs/stream", run, methods=["POST"]),
        ]
    )


@asynccontextmanager
async def client_of(log: Sequence[Envelope]) -> AsyncIterator[Any]:
    with listener("127.0.0.1", 0) as socket:
        server = uvicorn.Server(uvicorn.Config(app(log), log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[socket]))
        try:
            async with asyncio.timeout(20), get_client(url=f"http://127.0.0.1:{socket.getsockname()[1]}") as client:
                yield client
        finally:
            server.should_exit = True
            await serving


async def test_a_thread_with_sub_agents() -> None:
    async with client_of(parallel().checked()) as client, client.threads.stream("t1", assistant_id="desk") as thread:
        await thread.run.start(input={"messages": []})
        agents = [agent async for agent in thread.subagents]
        inner = [[message async for message in agent.messages] for agent in agents]
        outer = [message async for message in thread.messages]
        assert [agent.trigger_call_id for agent in agents] == ["c1", "c2"]
        assert [[await message.text for message in found] for found in inner] == [["left", "left it is "], ["right"]]
        assert [call["id"] for call in (await outer[0].output).tool_calls] == ["c1", "c2"]
        assert await outer[1].text == "both "
        assert (await thread.output)["messages"][-1]["content"] == "both "


async def test_a_thread_that_fails() -> None:
    async with client_of(troubled().checked()) as client, client.threads.stream("t1", assistant_id="desk") as thread:
        await thread.run.start(input={"messages": []})
        calls = [call async for call in thread.tool_calls]
        assert [str(call.error or call.output.result()["content"]) for call in calls] == [
            "busy",
            "seen",
            "no such place",
        ]
        for call in calls:
            call.output.exception()  # looked at, so that nobody warns of it
        with pytest.raises(RuntimeError, match="Run errored: the model is gone"):
            await thread.output


async def test_a_run_with_questions() -> None:
    async with client_of(questions().checked()) as client:
        parts = [part async for part in client.runs.stream("t1", "desk", input={}, version="v2")]
    asked = [part["interrupts"] for part in parts if part["type"] == "values" and part["interrupts"]]
    assert [[interrupt["id"] for interrupt in each] for each in asked] == [["q1", "q2"]]
    assert {tuple(part["ns"]) for part in parts} == {(), ("tools:c1",)}
    assert [part["data"]["run_id"] for part in parts if part["type"] == "metadata"] == ["r1", "r2"]
