"""Polling: clients that ask for status, logs and messages again and again, and whether the workflows notice."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import perf_counter

from benchmarks.figures import Figure, at_least, at_most, seen, share
from benchmarks.processes import Server, allow_many_connections, serving
from benchmarks.web import Link
from benchmarks.workload import register, system_text

CLIENTS, WORKFLOWS, EVERY = 200, 50, 0.5
UNCHANGED, LINKS = 6000, 8
REPEATS = 2
_TOKENS, _PACE = 500, 0.02
_PATH = "/api/workflows"


async def measure(folder: Path) -> list[Figure]:
    allow_many_connections()
    await register(folder, system_text("steady", tokens=_TOKENS, pace=_PACE))
    async with serving([sys.executable, "-m", "benchmarks.server"], folder) as server:
        await _workflows(server, clients=0)  # warm
        alone = [await _workflows(server, clients=0) for _ in range(REPEATS)]
        polled = [await _workflows(server, clients=CLIENTS) for _ in range(REPEATS)]
        unchanged = await _unchanged(server)
    before, after = min(each.seconds for each in alone), min(each.seconds for each in polled)
    waits = [wait * 1000 for each in polled for wait in each.waits]
    more = min(each.cpu for each in polled) - min(each.cpu for each in alone)
    polls = min(len(each.waits) for each in polled)
    note = f"{CLIENTS} clients, three questions every {EVERY} s, {WORKFLOWS} workflows at work"
    return [
        seen("polling, a workflow's run alone", before, "s", f"{_TOKENS} tokens at {_PACE * 1000:.0f} ms"),
        at_most("polling, stretch of the workflows", after / before, "×", 1.02, note),
        at_most("polling, CPU per question", more / polls * 1e6, "µs", 500, f"{polls:,} questions, workflows at work"),
        seen("polling, answer after, p99", share(waits, 0.99), "ms", note),
        at_least("polling, unchanged answers per second of CPU", unchanged, "/s", 2000, "304 for /status"),
    ]


@dataclass
class _Went:
    """What it took to run the workflows."""

    seconds: float = 0.0
    cpu: float = 0.0
    waits: list[float] = field(default_factory=list)


async def _workflows(server: Server, *, clients: int) -> _Went:
    link, went = await Link.to(server.port), _Went()
    cpu = server.cpu()
    ids = [str((await link.post(f"{_PATH}/start", _wish()))["id"]) for _ in range(WORKFLOWS)]
    pollers = [asyncio.create_task(_poll(server, ids[n % len(ids)], n, went)) for n in range(clients)]
    times = [await _time(link, each) for each in ids]
    await asyncio.gather(*pollers)
    went.seconds, went.cpu = mean(times), server.cpu() - cpu
    link.close()
    return went


def _wish() -> dict[str, str]:
    return {"prompt": "go", "agentSystemId": "steady"}


async def _time(link: Link, workflow_id: str) -> float:
    """How long a workflow was at work, as it says itself."""
    while True:
        found = (await link.get(f"{_PATH}/{workflow_id}"))[1]
        assert isinstance(found, dict)
        if found["status"] != "running":
            return float(found["dataStats"]["processingTime"])
        await asyncio.sleep(1)


async def _poll(server: Server, workflow_id: str, number: int, went: _Went) -> None:
    """As a front end does: what is known is named, and not sent again."""
    await asyncio.sleep(EVERY * number / CLIENTS)
    link, tags, last = await Link.to(server.port), dict[str, str](), dict[str, str]()
    status = "running"
    while status == "running":
        for what in ("status", "logs", "messages"):
            begun = perf_counter()
            query = f"?id={last[what]}" if what in last else ""
            tag, content = await link.get(f"{_PATH}/{workflow_id}/{what}{query}", tags.get(what + query))
            went.waits.append(perf_counter() - begun)
            tags[what + query] = tag
            if isinstance(content, dict):
                status = str(content["status"])
            elif content:
                last[what] = content[-1]["id"]
        await asyncio.sleep(EVERY)
    link.close()


async def _unchanged(server: Server) -> float:
    """Answers for each second of the server's CPU, from clients that have the last one already."""
    link = await Link.to(server.port)
    (found, *_) = await _listed(link)
    place = f"{_PATH}/{found}/status"
    tag = (await link.get(place))[0]
    links = [await Link.to(server.port) for _ in range(LINKS)]

    async def ask(each: Link) -> None:
        for _ in range(UNCHANGED // LINKS):
            await each.get(place, tag)

    cpu = server.cpu()
    await asyncio.gather(*(ask(each) for each in links))
    spent = server.cpu() - cpu
    for each in (link, *links):
        each.close()
    return UNCHANGED / spent


async def _listed(link: Link) -> Sequence[str]:
    found = (await link.get(_PATH))[1]
    assert isinstance(found, list)
    return [each["id"] for each in found]
