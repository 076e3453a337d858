"""The path of a message and of a token: which of our modules it passes, and how often the database is asked.

A module counts if one of its functions is called with the text or gives it back; the stand-in for a model, where the
text begins or ends, does not. What else happens at the same time does not count either, so the numbers do not depend
on the speed of the machine. They are a ratchet: they may fall, and rise only in a commit of their own that says why.
"""

import asyncio
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx2
import msgspec
import pytest
from pydantic import BaseModel
from starlette.responses import Response

import stellwerk
from stellwerk.database.sqlite import Sqlite
from stellwerk.settings import Settings
from tests.conftest import running_server

pytestmark = pytest.mark.only_sqlite

TO_FIRST_TOKEN = 41
"""Modules that a message passes from the request to the first token at a reader."""
PER_TOKEN = 19
"""Modules that a token passes from the model to a reader."""

SOURCE = f"{Path(stellwerk.__file__).parent}/"
STEPS = {
    Sqlite._read.__code__: "read",
    Sqlite._commit.__code__: "commit",
    Response.__call__.__code__: "answer",
}
STAND_IN = "agents/scripted/"
DEPTH = 6
TRIES = 3
"""A busy machine may take a detour, for example read the log instead of its tail; the path is what each try has."""


def holds(text: str, value: object, depth: int = DEPTH) -> bool:
    """Whether a value is or contains the text."""
    if isinstance(value, str):
        return text in value
    if isinstance(value, bytes | bytearray):
        return text.encode() in value
    if depth == 0:
        return False
    parts: Iterable[object] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple | Set):
        parts = value
    elif isinstance(value, BaseModel):
        parts = value.__dict__.values()
    elif isinstance(value, msgspec.Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    elif hasattr(value, "__dataclass_fields__"):
        parts = [getattr(value, name, None) for name in value.__dataclass_fields__]
    return any(holds(text, part, depth - 1) for part in list(parts))


class Trace:
    """The modules that a text passes while it records, on the event loop and in threads."""

    def __init__(self) -> None:
        self.text = ""
        self.modules: set[str] = set()
        self.steps: list[str] = []

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if not self.text:
            return
        code = frame.f_code
        if event == "call" and code in STEPS:
            self.steps.append(STEPS[code])
        if event not in ("call", "return") or not code.co_filename.startswith(SOURCE):
            return
        module = code.co_filename.removeprefix(SOURCE)
        if module in self.modules or module.startswith(STAND_IN):
            return
        count = code.co_argcount + code.co_kwonlyargcount
        names = (name for name in code.co_varnames[:count] if name != "self")
        passed = [frame.f_locals.get(name) for name in names] if event == "call" else [result]
        if holds(self.text, passed):
            self.modules.add(module)

    def start(self, text: str) -> None:
        self.modules = set()
        self.steps = []
        self.text = text

    def stop(self) -> set[str]:
        self.text = ""
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


async def new_session(client: httpx2.AsyncClient) -> str:
    created = await client.post("/sessions", json={"agent_system_id": "demo"})
    return f"/sessions/{created.json()['id']}"


async def ended(client: httpx2.AsyncClient, session: str) -> None:
    async with client.stream("GET", f"{session}/stream") as stream, asyncio.timeout(60):
        async for line in stream.aiter_lines():
            if '"type":"run_end"' in line:
                break


async def path(client: httpx2.AsyncClient, trace: Trace, text: str, message: str, expected: str) -> set[str]:
    """Return the modules that a text passes between a message and the first token that has what is expected."""
    session = await new_session(client)
    async with client.stream("GET", f"{session}/stream") as stream, asyncio.timeout(60):
        trace.start(text)
        posted = await client.post(f"{session}/messages", json={"text": message})
        assert posted.status_code == 202
        async for line in stream.aiter_lines():
            if '"type":"llm_token"' in line and expected in line:
                break
        passed = trace.stop()
    await client.post(f"{session}/stop")
    return passed


@pytest.mark.timeout(300)
async def test_a_message_and_a_token_pass_no_more_modules_than_they_did(tmp_path: Path) -> None:
    message_paths, token_paths = list[set[str]](), list[set[str]]()
    with tracing() as trace:
        async with (
            running_server(Settings(data=tmp_path / "data", demo=True)) as address,
            httpx2.AsyncClient(base_url=address, timeout=60) as client,
        ):
            await path(client, trace, "Altona", "Altona", "Altona")  # imports what is needed
            for _ in range(TRIES):
                message_paths.append(await path(client, trace, "Bergedorf", "slow, Bergedorf", "This"))
                # The answer repeats the message in quotes, so only the answer has them.
                token_paths.append(await path(client, trace, "“Coburg”", "Coburg", "Coburg"))
    message_path, token_path = set.intersection(*message_paths), set.intersection(*token_paths)
    assert len(message_path) <= TO_FIRST_TOKEN, sorted(message_path)
    assert len(token_path) <= PER_TOKEN, sorted(token_path)
    assert {"api/routes/messages.py", "runs/accept.py", "agents/runtime/runnable.py"} <= message_path
    assert {"agents/runtime/callback_handler.py", "stream/coalescer.py", "api/streams/reader.py"} <= token_path


@pytest.mark.timeout(300)
async def test_a_message_is_accepted_after_one_read_by_one_commit_with_its_audit_entry(tmp_path: Path) -> None:
    seen = list[tuple[int, int]]()
    with tracing() as trace:
        async with (
            running_server(Settings(data=tmp_path / "data", demo=True)) as address,
            httpx2.AsyncClient(base_url=address, timeout=60) as client,
        ):
            for _ in range(TRIES):
                session = await new_session(client)
                trace.start("Altona")
                posted = await client.post(f"{session}/messages", json={"text": "Altona"})
                assert posted.status_code == 202
                trace.stop()
                before_commit = trace.steps[: trace.steps.index("commit")]
                before_answer = trace.steps[: trace.steps.index("answer")]
                seen.append((before_commit.count("read"), before_answer.count("commit")))
                await ended(client, session)
    # The run may commit before the answer leaves, so a try can have more commits, but never fewer.
    assert (1, 1) in seen, f"reads before the first commit, and commits before the answer: {seen}"
