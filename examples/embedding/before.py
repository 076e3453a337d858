"""A hand-written streaming endpoint for a graph, before anyone asks "and after a reload?".

python -m uvicorn --app-dir examples/embedding before:app
"""

import asyncio
import json
from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

from assistant import builder
from auth import current_user
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from langchain_core.messages import AIMessageChunk
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

app = FastAPI(dependencies=[Depends(current_user)])
graph = builder.compile(checkpointer=InMemorySaver())  # gone with the process
running: dict[str, asyncio.Task[None]] = {}


class Text(BaseModel):
    text: str


@app.get("/hello")
async def hello() -> str:
    return "hello"


@app.post("/chats", status_code=201)
async def begin() -> dict[str, str]:
    return {"id": token_hex(8)}


@app.post("/chats/{chat}/messages")
async def say(chat: str, said: Text) -> StreamingResponse:
    return stream(chat, {"messages": [("user", said.text)]})


@app.post("/chats/{chat}/answers")
async def answer(chat: str, said: Text) -> StreamingResponse:
    return stream(chat, Command(resume=said.text))


@app.post("/chats/{chat}/stop")
async def stop(chat: str) -> None:
    if chat in running:
        running[chat].cancel()


def stream(chat: str, given: Any) -> StreamingResponse:
    if chat in running:
        raise HTTPException(409, "busy")
    queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    running[chat] = asyncio.create_task(run(chat, given, queue))
    return StreamingResponse(lines(queue), media_type="text/event-stream")


async def run(chat: str, given: Any, queue: "asyncio.Queue[dict[str, Any] | None]") -> None:
    config: Any = {"configurable": {"thread_id": chat}}
    try:
        async for mode, part in graph.astream(given, config, stream_mode=["messages", "updates"]):
            if mode == "messages" and isinstance(part[0], AIMessageChunk) and part[0].content:
                queue.put_nowait({"type": "token", "text": part[0].content})
            elif mode == "updates" and "__interrupt__" in part:
                queue.put_nowait({"type": "question", "text": part["__interrupt__"][0].value})
            elif mode == "updates":
                messages = [m.content for update in part.values() for m in update["messages"]]
                queue.put_nowait({"type": "answer", "text": "".join(messages)})
    except (ValueError, RuntimeError) as error:
        queue.put_nowait({"type": "error", "text": str(error)})
    finally:
        del running[chat]
        queue.put_nowait(None)


async def lines(queue: "asyncio.Queue[dict[str, Any] | None]") -> AsyncIterator[str]:
    while (event := await queue.get()) is not None:
        yield f"data: {json.dumps(event)}\n\n"  # a disconnected reader never gets it
