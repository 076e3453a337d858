"""Growth: what one more event costs, and what reading the newest ones costs, in a short session and in a long one."""

import time
from pathlib import Path

from benchmarks.figures import Figure, at_most, seen
from benchmarks.replay import fill
from benchmarks.store import EVENT, Store, Writer, opened
from stellwerk.tenants.principals import LOCAL_TENANT

SHORT, LONG = 10, 100_000
REPEATS = 5
FLAT = 1.25
"""A tree of 100,000 rows is a level or two deeper than one of 10; more than that is growth."""
_APPENDS, _BATCH = 150, 10
_READS, _LAST = 300, 10


async def measure(folder: Path) -> list[Figure]:
    async with opened(folder) as store:
        long = await store.begin()
        await fill(long, LONG)
        costs: dict[str, list[float]] = {"append short": [], "append long": [], "read short": [], "read long": []}
        for _ in range(REPEATS):
            short = await store.begin()
            await fill(short, SHORT)
            costs["read short"].append(await _read(store, short, SHORT))
            costs["append short"].append(await _append(short))
            at = (await store.log.head(LOCAL_TENANT, long.session_id)).position
            costs["read long"].append(await _read(store, long, at))
            costs["append long"].append(await _append(long))
    least = {name: min(values) * 1e6 for name, values in costs.items()}
    return [*_figures("append", least), *_figures("read", least)]


def _figures(kind: str, least: dict[str, float]) -> list[Figure]:
    short, long = least[f"{kind} short"], least[f"{kind} long"]
    return [
        seen(f"growth, {kind} in a session of {SHORT}", short, "µs CPU/event"),
        seen(f"growth, {kind} in a session of {LONG:,}", long, "µs CPU/event"),
        at_most(f"growth, {kind}, long / short", long / short, "×", FLAT),
    ]


async def _append(writer: Writer) -> float:
    cpu = time.process_time()
    for _ in range(_APPENDS):
        await writer.append([EVENT] * _BATCH)
    return (time.process_time() - cpu) / (_APPENDS * _BATCH)


async def _read(store: Store, writer: Writer, head: int) -> float:
    cpu = time.process_time()
    for _ in range(_READS):
        page = await store.log.read(LOCAL_TENANT, writer.session_id, after=head - _LAST, limit=_LAST)
        assert len(page) == _LAST
    return (time.process_time() - cpu) / (_READS * _LAST)
