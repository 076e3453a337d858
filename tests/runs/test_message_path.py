"""The path of a message and of a token through our modules: how many are executed, and how often the database is asked.

The numbers are a ratchet: they may fall, and are never raised.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import pytest
from starlette.responses import Response

import stellwerk
from stellwerk.database.sqlite import Sqlite
from stellwerk.settings import Settings
from tests.conftest import running_server

TO_FIRST_TOKEN = 80
"""Modules that are executed from the request to the first token at a reader."""
PER_TOKEN = 35
"""Modules that are executed for each further token."""

SOURCE = f"{Path(stellwerk.__file__).parent}/"
STEPS = {
    Sqlite._read.__code__: "read",
    Sqlite._commit.__code__: "commit",
    Response.__call__.__code__: "answer",
}
TRIES = 3
"""Now and then something else happens at the same time; what is on the path is there each time."""


class Trace:
    """What is called while it records, on the event loop and in threads."""

    def __init__(self) -> None:
        self.is_on = False
        self.modules: set[str] = set()
        self.steps: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.is_on and event == "call":
            if frame.f_code.co_filename.startswith(SOURCE):
                self.modules.add(frame.f_code.co_filename.removeprefix(SOURCE))
            if frame.f_code in STEPS:
                self.steps.append(STEPS[frame.f_code])

    def start(self) -> None:
        self.modules = set()
        self.steps = []
        self.is_on = True

    def stop(self) -> set[str]:
        self.is_on = False
        return self.modules


@contextmanager
def tracing() -> Iterator[Trace]:
    trace = Trace()
    before = sys.getprofile()
    threading.setprofile(trace)  # for threads that start from now on: those of the database
    sys.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


async def tokens(stream: httpx2.Response) -> AsyncIterator[str]:
    """The lines of a stream that are tokens."""
    async for line in stream.aiter_lines():
        if '"type":"llm_token"' in line:
            yield line


async def begin(client: httpx2.AsyncClient) -> str:
    return str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])


@pytest.mark.timeout(300)
async def test_a_message_and_a_token_pass_no_more_modules_than_they_did(tmp_path: Path) -> None:
    firsts, others, steps = list[set[str]](), list[set[str]](), list[list[str]]()
    with tracing() as trace:
        async with (
            running_server(Settings(data=tmp_path / "data", demo=True)) as address,
            httpx2.AsyncClient(base_url=address, timeout=60) as client,
        ):
            for attempt in range(TRIES + 1):  # the first one imports what is needed
                sid = await begin(client)
                async with client.stream("GET", f"/sessions/{sid}/stream") as stream, asyncio.timeout(60):
                    trace.start()
                    posted = await client.post(f"/sessions/{sid}/messages", json={"text": "slow"})
                    assert posted.status_code == 202
                    reading = tokens(stream)
                    await anext(reading)
                    path = trace.stop()
                    if attempt:
                        firsts.append(path)
                        steps.append(trace.steps)
                    for _ in range(TRIES):
                        trace.start()
                        await anext(reading)
                        others.append(trace.stop())
                await client.post(f"/sessions/{sid}/stop")
    first, other = set.intersection(*firsts), set.intersection(*others)
    assert len(first) <= TO_FIRST_TOKEN, sorted(first)
    assert len(other) <= PER_TOKEN, sorted(other)
    before_commit = min(each.index("commit") for each in steps)
    assert before_commit == 1, f"a message is accepted after one read and not after {steps}"
    before_answer = min(each[: each.index("answer")].count("commit") for each in steps)
    assert before_answer == 1, f"the audit is in the transaction of the message: {steps}"
