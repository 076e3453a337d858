"""Fan-out: one run and a thousand readers of it over HTTP; what each delivery and each reader costs the server."""

import asyncio
import sys
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.processes import Server, allow_many_connections, serving
from benchmarks.web import Link, Listener
from benchmarks.workload import register, system_text

READERS = 1000
REPEATS = 2
_TOKENS, _PACE = 250, 0.02
_AT_ONCE = 50


async def measure(folder: Path) -> list[Figure]:
    allow_many_connections()
    await register(folder, system_text("fan", tokens=_TOKENS, pace=_PACE))
    async with serving([sys.executable, "-m", "benchmarks.server"], folder) as server:
        await _fan_out(server, 1)
        before = server.resident()
        cpu, deliveries, after = await _fan_out(server, READERS)
        costs = [cpu / deliveries]
        for _ in range(REPEATS - 1):
            cpu, deliveries, _ = await _fan_out(server, READERS)
            costs.append(cpu / deliveries)
    note = f"1 run, {READERS:,} SSE readers, {deliveries // READERS} events each"
    return [
        at_most("fan-out, CPU per delivered event", min(costs) * 1e6, "µs", 30, note),
        at_most("fan-out, memory per reader", (after - before) / READERS / 1024, "KiB", 40, "growth of VmRSS"),
    ]


async def _fan_out(server: Server, readers: int) -> tuple[float, int, int]:
    """(seconds of the server's CPU, events delivered, bytes of memory with all readers connected)."""
    link = await Link.to(server.port)
    session = await link.begin("fan")
    listeners: list[Listener] = []
    for start in range(0, readers, _AT_ONCE):
        count = min(_AT_ONCE, readers - start)
        listeners += await asyncio.gather(*(Listener.to(server.port, session) for _ in range(count)))
    cpu = server.cpu()
    await link.send(session)
    await asyncio.gather(*(listener.ended for listener in listeners))
    cpu, resident = server.cpu() - cpu, server.resident()
    for listener in listeners:
        listener.close()
    link.close()
    return cpu, sum(listener.events for listener in listeners), resident
