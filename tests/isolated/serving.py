"""Servers with isolated graphs, and what their clients do."""

import json
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.app import Parts
from stellwerk.envelope.model import Envelope, decode
from stellwerk.settings import Settings
from tests.conftest import running_server

GRAPHS = Path(__file__).parent / "graphs.py"
WORKER_PYTHON = os.environ.get("WORKER_PYTHON")  # noqa: TID251 - of `make floors`, no setting of the server
"""The environment of all workers, if it is not that of the tests: `make floors`."""


def target(name: str) -> str:
    return f"{name}={GRAPHS}:{name}"


@asynccontextmanager
async def server(
    data: Path, *targets: str, isolate: bool = True, config: Path | None = None, parts: Parts = Parts()
) -> AsyncIterator[httpx2.AsyncClient]:
    own = systems_of(targets, isolate=isolate)
    if isolate and config is None and WORKER_PYTHON:
        config = data.with_name(f"{data.name}.yaml")
        config.write_text(f"isolate: {{all: {{python: {WORKER_PYTHON}}}}}")
    settings = Settings(data=data, isolate=isolate, config=config)
    async with running_server(settings, own=own, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=120) as client:
            yield client


async def begin(client: httpx2.AsyncClient, system: str, text: str) -> str:
    session = (await client.post("/sessions", json={"agent_system_id": system})).json()["id"]
    accepted = await client.post(f"/sessions/{session}/messages", json={"text": text})
    assert accepted.status_code == 202, accepted.text
    return str(session)


async def events(client: httpx2.AsyncClient, session: str, *, ends: int = 1) -> list[dict[str, Any]]:
    """All events up to the end of so many runs."""
    found: list[dict[str, Any]] = []
    for _ in range(ends):
        after = found[-1]["position"] if found else 0
        path = f"/sessions/{session}/stream?until=run_end&profile=debug&after={after}"
        whole = await client.get(path, headers={"accept": "application/x-ndjson"})
        assert whole.status_code == 200, whole.text
        found += [json.loads(line) for line in whole.text.splitlines()]
    return found


def envelopes(events: Sequence[Mapping[str, Any]]) -> list[Envelope]:
    outside = ("position", "origin", "session_id")
    return [decode(json.dumps({k: v for k, v in each.items() if k not in outside}).encode()) for each in events]


async def said(client: httpx2.AsyncClient, system: str, text: str) -> dict[str, Any]:
    """The end of the round of a new session."""
    end: dict[str, Any] = (await events(client, await begin(client, system, text)))[-1]["payload"]
    return end


def descendants(pid: int) -> set[int]:
    """The processes below one."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text("ascii").split()):
            found |= {child, *descendants(child)}
    return found


def alive(pids: Collection[int]) -> set[int]:
    """Those that have not ended; a zombie has."""
    return {pid for pid in pids if Path(f"/proc/{pid}/exe").is_symlink() and _state(pid) not in "ZX"}


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except OSError:
        return "X"
