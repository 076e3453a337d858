"""From append to reader: how long an event takes, through the disk, to a follower of its session."""

import asyncio
import random
import time
from contextlib import aclosing
from pathlib import Path

from benchmarks.figures import Figure, seen, share
from benchmarks.store import EVENT, Store, Writer, opened
from stellwerk.tenants.principals import LOCAL_TENANT

SESSIONS = 200
RATE = 30
SECONDS = 6
_EVENTS = RATE * SECONDS


async def measure(folder: Path) -> list[Figure]:
    async with opened(folder) as store:
        waits = [wait for waits in await _all_waits(store) for wait in waits]
    note = f"{SESSIONS} sessions at {RATE} events/s, one follower each"
    return [
        seen("append to reader, p50", share(waits, 0.5) * 1000, "ms", note),
        seen("append to reader, p99", share(waits, 0.99) * 1000, "ms", note),
    ]


async def _all_waits(store: Store) -> list[list[float]]:
    chance = random.Random(1)
    writers = [await store.begin() for _ in range(SESSIONS)]
    return await asyncio.gather(*(_waits(store, writer, chance.random() / RATE) for writer in writers))


async def _waits(store: Store, writer: Writer, phase: float) -> list[float]:
    sent: list[float] = []
    writing = asyncio.create_task(_write(writer, phase, sent))
    waits: list[float] = []
    batches = store.log.follow(LOCAL_TENANT, writer.session_id, after=0)
    async with aclosing(batches):
        async for batch in batches:
            now = time.perf_counter()
            waits += [now - sent[stored.position - 1] for stored in batch]
            if len(waits) == _EVENTS:
                break
    await writing
    return waits


async def _write(writer: Writer, phase: float, sent: list[float]) -> None:
    begin = time.perf_counter() + phase
    for n in range(_EVENTS):
        await asyncio.sleep(begin + n / RATE - time.perf_counter())
        sent.append(time.perf_counter())
        await writer.append([EVENT])
