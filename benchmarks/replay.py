"""Replay: stored events read and framed, page by page, and on the very path that serves a stream.

The stored bodies are no JSON: code that parsed one on the way out would fail.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.figures import Figure, at_least, seen
from benchmarks.store import Store, Writer, opened
from stellwerk.api.http.auth import Credentials
from stellwerk.api.streams.reader import SSE, Reader, StreamSource
from stellwerk.envelope import frames
from stellwerk.ids import SystemClock
from stellwerk.log.durable import PAGE
from stellwerk.log.log import LogEntry
from stellwerk.tenants.keys import ApiKeys
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT
from stellwerk.tenants.tenants import Tenants
from stellwerk.tenants.tickets import Tickets

EVENTS = 120_000
REPEATS = 5
BUDGET = 200_000
_BATCH = 1000
_OPAQUE = LogEntry("llm_token", 1.0, b'{"type":"llm_token",' + b"not JSON " * 20)
_END = LogEntry("run_end", 1.0, b'{"type":"run_end",')


async def measure(folder: Path) -> list[Figure]:
    async with opened(folder) as store:
        writer = await store.begin()
        await fill(writer, EVENTS - 1)
        await writer.append([_END])
        note = f"{EVENTS:,} events of 200 bytes"
        pages, cpu = await _best(lambda: _read_pages(store, writer.session_id))
        stream, _ = await _best(lambda: _read_stream(store, writer.session_id))
    return [
        at_least("replay, pages read and framed", pages, "events/s", BUDGET, note),
        seen("replay, CPU per event", cpu * 1e6, "µs", "of reading and framing"),
        at_least("replay, as a stream reads it", stream, "events/s", BUDGET, note),
    ]


async def fill(writer: Writer, count: int) -> None:
    for start in range(0, count, _BATCH):
        await writer.append([_OPAQUE] * min(_BATCH, count - start))


async def _best(read: Callable[[], Awaitable[int]]) -> tuple[float, float]:
    """(events per second, seconds of CPU per event), each the best of several readings."""
    rates, costs = [], []
    for _ in range(REPEATS):
        start, cpu = time.perf_counter(), time.process_time()
        count = await read()
        rates.append(count / (time.perf_counter() - start))
        costs.append((time.process_time() - cpu) / count)
    return max(rates), min(costs)


async def _read_pages(store: Store, session_id: str) -> int:
    after = 0
    while page := await store.log.read(LOCAL_TENANT, session_id, after=after, limit=PAGE):
        framed = b"".join([frames.sse(session_id, stored, "replay") for stored in page])
        assert framed.endswith(b"\n\n")
        after = page[-1].position
    return after


async def _read_stream(store: Store, session_id: str) -> int:
    clock = SystemClock()
    credentials = Credentials(ApiKeys(store.database, clock), Tenants(store.database, clock), Tickets(clock))
    source = StreamSource(store.database, store.log, store.wakes, credentials)
    reader = Reader(source, LOCAL, session_id, "user", SSE)
    count = 0
    async for chunk in reader.stream(after=0, head=EVENTS, until_run_end=True):
        count += chunk.count(b"\n\n")
    return count
