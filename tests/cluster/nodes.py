"""Several servers on one PostgreSQL database, each a process of its own, and what a client sees of them."""

import asyncio
import re
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from stellwerk.envelope.model import Envelope, RunEnd, decode
from tests import stores
from tests.crash import process, served, wire
from tests.crash.process import ServerProcess
from tests.crash.waiting import eventually
from tests.crash.wire import NDJSON

LEASE = 3
WITHIN = 90
"""Seconds that a test waits for something that takes none, on a machine that is busy with other things."""
_SYSTEM = Path(__file__).parent / "system"


class Node:
    """One server, and a client of it."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.client = served.client(server)

    async def begin(self) -> str:
        answer = await self.client.post("/sessions", json={"agent_system_id": "patient"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def send(self, session_id: str, text: str, **more: str) -> dict[str, Any]:
        answer = await self.client.post(f"/sessions/{session_id}/messages", json={"text": text, **more})
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def stop(self, session_id: str) -> dict[str, Any]:
        answer = await self.client.post(f"/sessions/{session_id}/stop")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def log(self, session_id: str) -> list[Envelope]:
        """What is stored; also of a session at work, unlike ``served.read_log``."""
        found: list[Envelope] = []
        while True:
            query: dict[str, str | int] = {"after": len(found), "limit": 1000, "profile": "debug"}
            answer = await self.client.get(f"/sessions/{session_id}/events", params=query)
            events = msgspec.json.decode(answer.content, type=_Page).events
            if not events:
                return found
            found += [decode(wire.frame(bytes(event)).body(session_id)) for event in events]

    @asynccontextmanager
    async def stream(self, session_id: str) -> AsyncIterator["Stream"]:
        path = f"/sessions/{session_id}/stream?profile=debug&after=0"
        async with self.client.stream("GET", path, headers={"Accept": NDJSON}) as answer:
            assert answer.status_code == 200
            yield Stream(answer)

    async def ended(self, session_id: str) -> RunEnd:
        """The end of the last run, as soon as it is there."""

        async def end() -> RunEnd | None:
            log = await self.log(session_id)
            return log[-1] if log and isinstance(log[-1], RunEnd) else None

        await eventually(lambda: _holds(end()), within=WITHIN, what=f"{session_id} does not end")
        found = await end()
        assert found is not None
        return found

    async def counted(self, metric: str) -> float:
        """A number of this node's metrics."""
        text = (await self.client.get("/metrics")).text
        return sum(float(value) for value in re.findall(rf"^{metric}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    async def counts(self, metric: str, least: float = 1) -> None:
        """Wait until it does."""

        async def does() -> bool:
            return await self.counted(metric) >= least

        await eventually(does, within=WITHIN, what=f"{metric} is less than {least}")

    def kill(self) -> None:
        self.server.kill()

    def send_signal(self, signum: signal.Signals) -> None:
        self.server.process.send_signal(signum)


class _Page(msgspec.Struct):
    events: list[msgspec.Raw]


class Stream:
    """The envelopes of an NDJSON stream, one line each."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.aiter_lines()
        self.lines: list[str] = []

    async def until(self, kind: str) -> str:
        """Read on to the first envelope of this type."""
        async with asyncio.timeout(WITHIN):
            async for line in self._lines:
                if not line.startswith('{"position"'):
                    continue
                self.lines.append(line)
                if f'"type":"{kind}"' in line:
                    return line
        raise AssertionError(f"the stream ended without {kind}")


class Nodes:
    """``folder`` becomes the data folder of all nodes, and has their system and what they say."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._data, self._system = folder / "data", folder / "system"
        self._errors = folder / "stderr.txt"
        self._settings: dict[str, Any] = {"lease": LEASE, **settings}
        self._nodes: list[Node] = []
        shutil.copytree(_SYSTEM, self._system, dirs_exist_ok=True)
        (self._system / "operator.yaml").write_text("tools: [tools.py:tools]\n")

    async def start(self, **settings: Any) -> Node:
        server = await asyncio.to_thread(self._started, settings)
        self._nodes.append(Node(server))
        return self._nodes[-1]

    def ids(self) -> list[str]:
        """The nodes that have not left, by the database."""
        with stores.beside(self._data) as tables:
            return [name for (name,) in tables.rows("SELECT id FROM node")]

    def _started(self, settings: dict[str, Any]) -> ServerProcess:
        return process.start(
            self._data,
            errors=self._errors,
            serves=[str(self._system / "system.yaml")],
            config=self._system / "operator.yaml",
            **{**self._settings, **settings},  # "inside" is a command that it is run by
        )

    def empty_database(self) -> None:
        """As a new one would be; no node has been started."""
        with stores.beside(self._data) as tables:
            tables.change("DROP OWNED BY CURRENT_USER")

    async def began(self, what: str, times: int = 1) -> None:
        """Wait until a tool was called so often for this message."""
        await eventually(lambda: self.calls(what) >= times, within=WITHIN, what=f"{what} does not begin")

    def calls(self, what: str) -> int:
        """How often a tool was called for this message."""
        began = self._system / f"{what} began"
        return len(began.read_text().splitlines()) if began.exists() else 0

    def finish(self, what: str) -> None:
        """The tool that works on this message is done."""
        (self._system / f"{what} done").touch()

    async def end(self) -> None:
        for path in self._system.glob("* began"):
            self.finish(path.name.removesuffix(" began"))
        for node in self._nodes:
            await node.client.aclose()
            node.send_signal(signal.SIGCONT)
            node.kill()


async def _holds(found: Any) -> bool:
    return await found is not None


@asynccontextmanager
async def nodes_in(folder: Path, **settings: object) -> AsyncIterator[Nodes]:
    nodes = Nodes(folder, **settings)
    try:
        yield nodes
    finally:
        await nodes.end()
