"""State: ``GET /state`` of a session of 100,000 events, over HTTP; at once after the start, and later."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.figures import Figure, at_most, seen, share
from benchmarks.processes import executable, serving
from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken, RunEnd, RunStart
from stellwerk.envelope.payloads import ModelCalled, ModelEnded, RunEnded, RunStarted, Token, Usage
from stellwerk.ids import SystemClock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession, Lease
from stellwerk.log.notify import WakeUps
from stellwerk.log.transactions import entry
from stellwerk.tenants.principals import LOCAL_TENANT

EVENTS = 100_000
BUDGET = 5.0
SESSION = "benchmark"
ROUND = 50
"""Events of one round: most are tokens, as in a real log."""
_BATCH = 1000
_READS = 300


async def measure(folder: Path) -> list[Figure]:
    await fill(folder / "stellwerk.db", EVENTS)
    path = f"/sessions/{SESSION}/state"
    async with serving([executable("stellwerk"), "serve"], folder) as server:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            first = await _timed(client, path)
            await _kept(client, path, within=BUDGET)
            times = [await _timed(client, path) for _ in range(_READS)]
    return [
        seen("state, the first answer", first * 1e3, "ms", f"{EVENTS:,} events of which nothing is kept yet"),
        at_most("state, p50", share(times, 0.5) * 1e3, "ms", BUDGET, f"{EVENTS:,} events"),
        seen("state, p99", share(times, 0.99) * 1e3, "ms"),
    ]


async def _timed(client: httpx2.AsyncClient, path: str) -> float:
    start = time.perf_counter()
    answer = await client.get(path)
    took = time.perf_counter() - start
    assert answer.json()["round"] == EVENTS // ROUND, answer.text
    return took


async def _kept(client: httpx2.AsyncClient, path: str, *, within: float) -> None:
    """The server keeps overviews beside its other work; a fast answer says that it has."""
    end = time.perf_counter() + within
    while time.perf_counter() < end and await _timed(client, path) * 1e3 > BUDGET:
        pass


async def fill(path: Path, events: int) -> None:
    clock = SystemClock()
    database = Sqlite(path)
    await database.open()
    log = DurableLog(database, WakeUps())
    await log.create(CreateSession(LOCAL_TENANT, SESSION, "demo", clock.now()))
    lease = Lease(LOCAL_TENANT, SESSION, "run", 0)
    story, number = _story(events), 0
    while batch := list(islice(story, _BATCH)):
        number += 1
        await log.append(lease, number, [entry(envelope) for envelope in batch])
    await database.close()


def _story(events: int) -> Iterator[Envelope]:
    for n in range(1, events // ROUND + 1):
        run, call = f"run{n}", f"call{n}"
        root: dict[str, Any] = {"ts": float(n), "trace_id": run, "run_id": run, "parent_id": None, "call_id": run}
        inner = {**root, "parent_id": run, "call_id": call}
        started = RunStarted(round=n, trigger="message", system="demo", system_version=1)
        yield RunStart(**root, seq=1, payload=started)
        yield LlmStart(**inner, seq=1, payload=ModelCalled(model="scripted", message_id=call))
        for seq in range(2, ROUND - 2):
            yield LlmToken(**inner, seq=seq, payload=Token(text="some words of an answer "))
        used = Usage(model="scripted", input_tokens=10, output_tokens=40)
        yield LlmEnd(**inner, seq=ROUND - 2, payload=ModelEnded(message_id=call, status="ok", usage=used))
        yield RunEnd(**root, seq=2, payload=RunEnded(status="completed"))
