"""Join: a client of each other protocol comes to the end of a session of 500 rounds, over HTTP."""

import time
from pathlib import Path

import httpx2

from benchmarks.figures import Figure, at_most, seen, share
from benchmarks.processes import executable, serving
from benchmarks.state import ROUND, SESSION, fill

ROUNDS, BUDGET = 500, 50.0
_JOINS = 50
_PATHS = {
    "ai-sdk": "/ai-sdk/demo/chat/{session}/stream",
    "openai, responses": "/v1/responses/resp_{run}?stream=true",
    "langgraph": "/langgraph/threads/{session}/runs/{run}/stream?stream_mode=messages-tuple",
    "a2a": "/a2a/demo/tasks/{run}",
}


async def measure(folder: Path) -> list[Figure]:
    await fill(folder / "stellwerk.db", ROUNDS * ROUND)
    async with serving([executable("stellwerk"), "serve"], folder) as server:
        address = f"http://127.0.0.1:{server.port}"
        async with httpx2.AsyncClient(base_url=address, headers={"A2A-Version": "1.0"}, timeout=60) as client:
            sent = (await client.post(f"/sessions/{SESSION}/messages", json={"text": "weather"})).json()
            await client.get(f"/sessions/{SESSION}/stream", params={"until": "run_end", "after": sent["after"]})
            figures = []
            for name, path in _PATHS.items():
                filled = path.format(session=SESSION, run=sent["run_id"])
                times = [await _timed(client, filled) for _ in range(_JOINS)]
                figures.append(seen(f"join, {name}, the first", times[0] * 1e3, "ms"))
                figures.append(at_most(f"join, {name}, p50", share(times, 0.5) * 1e3, "ms", BUDGET, f"{ROUNDS} rounds"))
    return figures


async def _timed(client: httpx2.AsyncClient, path: str) -> float:
    """Until the last byte of the last round."""
    start = time.perf_counter()
    answer = await client.get(path)
    took = time.perf_counter() - start
    assert answer.status_code == 200, answer.text
    assert "sunny" in answer.text and len(answer.content) < 100_000
    return took
