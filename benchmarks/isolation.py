"""Isolation: what a token of a graph costs in processes of its own, against the same graph in the server's process.

The CPU of the server, its workers and their supervisors is added up. Both servers take turns, so that a busy machine
slows both; what counts is the median of the ratios.
"""

import asyncio
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, at_most, seen, share
from benchmarks.processes import Server, cpu_of, executable, serving
from benchmarks.web import Link, Witness

GRAPH = f"speaker={Path(__file__).with_name('speaker.py')}:graph"
TOKENS, PACE, ROUNDS = 300, 0.02, 5
RUNS = (1, 4, 16)
RATIO = 1.2


async def measure(folder: Path) -> list[Figure]:
    command = [executable("stellwerk"), "serve", GRAPH]
    async with (
        serving(command, folder / "here") as here,
        serving([*command, "--isolate"], folder / "isolated") as isolated,
    ):
        figures: list[Figure] = []
        for runs in RUNS:
            await _spent(isolated, runs, tokens=20)  # its workers are started
            await _spent(here, runs, tokens=20)
            turns = [(await _spent(here, runs), await _spent(isolated, runs)) for _ in range(ROUNDS)]
            figures += _figures(runs, turns)
    return figures


def _figures(runs: int, turns: list[tuple["Spent", "Spent"]]) -> list[Figure]:
    note = f"{runs} at once, a token every {PACE * 1000:.0f} ms; medians of {len(turns)} rounds"
    here, isolated = ([turn[side] for turn in turns] for side in (0, 1))
    return [
        seen(f"CPU per token, {runs} in process", median(each[0] for each in here), "µs", note),
        seen(f"CPU per token, {runs} isolated", median(each[0] for each in isolated), "µs"),
        at_most(f"isolated / in process, {runs}", median(b[0] / a[0] for a, b in turns), "×", RATIO, note),
        seen(f"lateness p50, {runs} in process", median(each[1] for each in here), "ms"),
        seen(f"lateness p50, {runs} isolated", median(each[1] for each in isolated), "ms"),
        seen(f"first token, {runs} in process", median(each[2] for each in here), "ms"),
        seen(f"first token, {runs} isolated", median(each[2] for each in isolated), "ms"),
    ]


Spent = tuple[float, float, float]
"""µs of CPU per token; the median lateness of tokens and that of the first ones, in ms."""


async def _spent(server: Server, runs: int, *, tokens: int = TOKENS) -> Spent:
    link = await Link.to(server.port)
    sessions = [await link.begin("speaker") for _ in range(runs)]
    witnesses = [await Witness.to(server.port, session) for session in sessions]
    before = _cpu(server.pid)
    for session in sessions:
        await link.post(f"/sessions/{session}/messages", {"text": f"{tokens} {PACE}"})
    await asyncio.gather(*(witness.ended for witness in witnesses))
    cpu = sum(_cpu(server.pid).values()) - sum(before.values())
    late = [
        [at - each["ts"] for at, each in witness.arrivals() if each["type"] == "llm_token"] for witness in witnesses
    ]
    for witness in witnesses:
        witness.close()
    link.close()
    every = [each for one in late for each in one]
    return cpu / runs / tokens * 1e6, share(every, 0.5) * 1e3, share([one[0] for one in late], 0.5) * 1e3


def _cpu(pid: int) -> dict[int, float]:
    """Seconds of CPU so far, of a process and of those below it."""
    found = {pid: cpu_of(pid)}
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text("ascii").split()):
            found |= _cpu(child)
    return found
