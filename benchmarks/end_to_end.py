"""End to end: a model's token on its way through graph, log and HTTP to a reader, against LangGraph alone.

What counts is a ratio: CPU of the server per token, durable and with checkpoints, to limit A (limit.py), which
does the same work in a bare process. Both take turns, so that a busy machine slows both.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.figures import Figure, at_most, seen, share
from benchmarks.processes import Server, end, serving
from benchmarks.web import Link, Witness
from benchmarks.workload import chunks, register, system_text
from stellwerk.ids import SystemClock

SERVER = [sys.executable, "-m", "benchmarks.server"]
TOKENS, REPEATS, WARM_UP = 2000, 12, 3
PACE, RUNS, PACED_TOKENS, PACED_REPEATS = 0.02, 200, 2000, 1
MESSAGES = 200
RATIO = 1.5


async def measure(folder: Path) -> list[Figure]:
    systems = (
        system_text("unpaced", tokens=TOKENS, pace=0),
        system_text("paced", tokens=PACED_TOKENS, pace=PACE),
        system_text("short", tokens=5, pace=0),
    )
    await register(folder / "durable", *systems)
    await register(folder / "memory", *systems)
    async with serving(SERVER, folder / "durable") as server:
        first = await _first_events(server)
        async with serving([*SERVER, "--memory"], folder / "memory") as in_memory:
            unpaced = await _unpaced(server, in_memory)
        paced = await _paced(server)
    return [*first, *unpaced, *paced]


# One client, as fast as the model speaks.


async def _unpaced(server: Server, in_memory: Server) -> list[Figure]:
    costs: dict[str, list[float]] = {"limit": [], "ours": [], "memory": []}
    async with _limit(TOKENS, 0, 1) as limit:
        for _ in range(WARM_UP + REPEATS):
            costs["limit"].append((await limit())["cpu"])
            costs["ours"].append((await _at_once(server, "unpaced", 1))[0])
            costs["memory"].append((await _at_once(in_memory, "unpaced", 1))[0])
    least = {name: min(values[WARM_UP:]) / TOKENS * 1e6 for name, values in costs.items()}
    note = f"1 client, {TOKENS:,} tokens without pause, checkpoints on"
    return [
        seen("limit A, CPU per token", least["limit"], "µs", "astream in a bare process"),
        seen("server, CPU per token", least["ours"], "µs", note),
        seen("of it: our saver", least["ours"] - least["memory"], "µs", "more than LangGraph's saver in memory"),
        at_most("server / limit A, 1 client", least["ours"] / least["limit"], "×", RATIO, note),
    ]


# Many runs, at the pace of a real model.


async def _paced(server: Server) -> list[Figure]:
    ours, limits, times, late = [], [], [], []
    async with _limit(PACED_TOKENS, PACE, RUNS) as limit, _limit(PACED_TOKENS, PACE, RUNS, "seldom") as seldom:
        calm = (await seldom())["cpu"]
        for _ in range(PACED_REPEATS):
            limits.append(await limit())
            cpu, witnesses = await _at_once(server, "paced", RUNS)
            ours.append(cpu)
            times.append(mean(_run_time(witness) for witness in witnesses))
            late.append([moment for witness in witnesses for moment in _lateness(witness)])
    nominal, tokens = chunks(PACED_TOKENS) * PACE, RUNS * PACED_TOKENS
    alone, least = (min(limit[kind] for limit in limits) for kind in ("wall", "cpu"))
    note = f"{RUNS} runs at once, a token every {PACE * 1000:.0f} ms"
    stretches = f"against the nominal pace {min(times) / nominal:.2f}, limit A {alone / nominal:.2f}"
    return [
        seen("limit A, CPU per token, paced", least / tokens * 1e6, "µs", note),
        seen("server, CPU per token, paced", min(ours) / tokens * 1e6, "µs", note),
        at_most("server / limit A, 200 runs", min(ours) / least, "×", RATIO, note),
        seen("the same, if limit A's garbage is left alone like ours", min(ours) / calm, "×", note),
        at_most("stretch against limit A, 200 runs", min(times) / alone, "×", 1.02, stretches),
        at_most("token lateness, 200 runs, p99", min(share(values, 0.99) for values in late) * 1000, "ms", 75, note),
    ]


async def _at_once(server: Server, system: str, runs: int) -> tuple[float, list[Witness]]:
    """Seconds of the server's CPU, from the first request of readers and messages until everybody has read the end."""
    link = await Link.to(server.port)
    sessions = [await link.begin(system) for _ in range(runs)]
    cpu = server.cpu()
    witnesses = [await Witness.to(server.port, session) for session in sessions]
    for session in sessions:
        await link.send(session)
    await asyncio.gather(*(witness.ended for witness in witnesses))
    spent = server.cpu() - cpu
    for witness in witnesses:
        witness.close()
    link.close()
    return spent, witnesses


def _run_time(witness: Witness) -> float:
    """From the input's time in the log to the arrival of the end."""
    arrivals = witness.arrivals()
    return arrivals[-1][0] - float(arrivals[0][1]["ts"])


def _lateness(witness: Witness) -> list[float]:
    """The time of an envelope is that of the first token in it, which has waited longest."""
    return [moment - envelope["ts"] for moment, envelope in witness.arrivals() if envelope["type"] == "llm_token"]


# The first event, on an idle server.


async def _first_events(server: Server) -> list[Figure]:
    link, clock = await Link.to(server.port), SystemClock()
    starts, tokens = [], []
    for _ in range(MESSAGES):
        session = await link.begin("short")
        witness = await Witness.to(server.port, session)
        posted = clock.now()
        await link.send(session)
        await witness.ended
        arrivals = witness.arrivals()
        starts.append((arrivals[0][0] - posted) * 1000)
        tokens.append(_lateness(witness)[0] * 1000)
        witness.close()
    link.close()
    note = f"{MESSAGES} messages, one at a time"
    return [
        at_most("run_start seen after POST, p50", share(starts, 0.5), "ms", 5, note),
        at_most("run_start seen after POST, p99", share(starts, 0.99), "ms", 20, note),
        at_most("first token seen after the model gave it, p50", share(tokens, 0.5), "ms", 10, note),
    ]


@asynccontextmanager
async def _limit(tokens: int, pace: float, runs: int, *options: str) -> AsyncIterator[Any]:
    """Limit A in a process of its own; call it for one go."""
    command = [sys.executable, "-m", "benchmarks.limit", str(tokens), str(pace), str(runs), *options]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    to, answers = process.stdin, process.stdout
    assert to is not None and answers is not None

    async def go() -> dict[str, float]:
        to.write(b"\n")
        return dict(json.loads(await answers.readline()))

    try:
        yield go
    finally:
        await end(process)
