"""What an agent remembers is what its transcript shows, at whatever commit it was stopped or its server crashed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stellwerk import app
from stellwerk.api.services import Services
from stellwerk.database.sqlite import Sqlite
from stellwerk.envelope.model import Envelope
from stellwerk.log.notify import WakeUps
from stellwerk.runs.accept import stop_many
from stellwerk.runs.commands import Accepted
from stellwerk.settings import Settings
from stellwerk.tenants.audit import AuditedDatabase
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.testing.order import order_problems
from stellwerk.views.transcript import Hidden, entry, fold
from tests import stores

pytestmark = pytest.mark.only_sqlite

HERE = Path(__file__).parent
SYSTEMS = {"remembering": str(HERE / "remembering.yaml"), "graph": f"{HERE / 'memory_graph.py'}:graph"}
SOON = 60
"""Seconds that a busy machine gets."""


class SteppedDisk:
    """Makes a database stand still behind the commit that is named, until it is told to go on."""

    def __init__(self, database: Sqlite) -> None:
        self._commit, self._submit = database._commit, database.submit
        vars(database).update(_commit=self._commit_and_stand, submit=self._submit_and_look)
        self._loop = asyncio.get_running_loop()
        self._countdown = 0
        self.reached, self.stopping = asyncio.Event(), asyncio.Event()
        self._go_on = threading.Event()

    def stand_behind(self, commit: int) -> None:
        self._countdown = commit
        self.reached.clear()
        self.stopping.clear()
        self._go_on.clear()

    def go_on(self) -> None:
        self._countdown = 0
        self._go_on.set()

    def _submit_and_look(self, operation: Any, item: Any, *, urgent: bool = False) -> "asyncio.Future[Any]":
        if operation is stop_many:
            self.stopping.set()
        return self._submit(operation, item, urgent=urgent)

    def _commit_and_stand(self, batch: list[Any]) -> list[Any]:
        outcomes = self._commit(batch)
        self._countdown -= 1
        if self._countdown == 0:
            self._loop.call_soon_threadsafe(self.reached.set)
            assert self._go_on.wait(SOON), "nothing made the disk go on"
        return outcomes


class Memory:
    """A server without its sockets, on a disk that can be made to stand still."""

    def __init__(self, services: Services, wakes: WakeUps) -> None:
        self.services, self.wakes = services, wakes
        self.sessions, self.log = services.sessions, services.log
        assert isinstance(services.database, AuditedDatabase)
        stored = services.database._database
        assert isinstance(stored, Sqlite)
        self.disk = SteppedDisk(stored)

    async def begin(self, system: str) -> str:
        return (await self.sessions.begin(LOCAL_TENANT, system, None)).id

    async def say(self, sid: str, text: str) -> Accepted:
        return await self.sessions.send(LOCAL_TENANT, sid, text)

    async def regenerate(self, sid: str) -> Accepted:
        return await self.sessions.regenerate(LOCAL_TENANT, sid)

    async def is_over(self, sid: str) -> None:
        async with asyncio.timeout(SOON):
            with self.wakes.watch(sid) as channel:
                while True:
                    found = await self.sessions.find(LOCAL_TENANT, sid)
                    if found.status in ("completed", "stopped", "failed"):
                        return
                    await channel.beyond(found.position)

    async def told(self, sid: str) -> list[Envelope]:
        return await self.log.envelopes(LOCAL_TENANT, sid)

    async def shown(self, sid: str) -> list[tuple[str, str]]:
        """The messages of the transcript."""
        told, hidden = await self.told(sid), Hidden()
        for envelope in told:
            hidden = fold(hidden, envelope)
        entries = [entry(hidden, n, envelope) for n, envelope in enumerate(told, 1)]
        return [(one.role, one.text) for one in entries if one is not None and one.kind == "message"]

    async def remembered(self, sid: str, system: str) -> list[tuple[str, str]]:
        """The messages in the state of the agent."""
        agent = await self.services.systems.agent(LOCAL_TENANT, system, 1)
        state = await agent.graph.aget_state({"configurable": {"thread_id": sid}})
        roles = {"human": "user", "ai": "assistant"}
        said = [(roles.get(m.type, m.type), str(m.text)) for m in state.values["messages"]]
        return [(role, text) for role, text in said if role in ("user", "assistant") and text]

    async def agrees(self, sid: str, system: str, where: object) -> None:
        """After the next round the agent knows what the transcript shows, and nothing else."""
        await self.say(sid, "and now?")
        await self.is_over(sid)
        assert await self.remembered(sid, system) == await self.shown(sid), where
        assert order_problems(await self.told(sid)) == [], where


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Memory]:
    wakes = WakeUps()
    async with app._services(Settings(data=folder), wakes, SYSTEMS) as services:
        yield Memory(services, wakes)


async def stopped_behind(memory: Memory, sid: str, commit: int, act: Callable[[], Awaitable[Accepted]]) -> bool:
    """Stop a round right behind one of its commits; False if it has fewer."""
    memory.disk.stand_behind(commit)
    acting = asyncio.ensure_future(act())
    over = asyncio.ensure_future(_acted_and_over(memory, sid, acting))
    reached = asyncio.ensure_future(memory.disk.reached.wait())
    await asyncio.wait([over, reached], return_when=asyncio.FIRST_COMPLETED, timeout=SOON)
    is_reached = reached.done()
    if is_reached:
        stopping = asyncio.ensure_future(memory.sessions.stop(LOCAL_TENANT, sid))
        async with asyncio.timeout(SOON):
            await memory.disk.stopping.wait()
        memory.disk.go_on()
        await stopping
    memory.disk.go_on()
    reached.cancel()
    await over
    return is_reached


async def _acted_and_over(memory: Memory, sid: str, acting: "asyncio.Future[Accepted]") -> None:
    await acting
    await memory.is_over(sid)


@pytest.mark.parametrize(
    "system, text", [("remembering", "hello"), ("remembering", "count"), ("graph", "hello")],
    ids=["an agent", "an agent with a tool", "a graph"],
)  # fmt: skip
async def test_an_agent_that_was_stopped_behind_any_commit_knows_what_its_transcript_shows(
    tmp_path: Path, system: str, text: str
) -> None:
    async with served(tmp_path) as memory:
        stopped = 0
        for commit in range(1, 60):
            sid = await memory.begin(system)
            if not await stopped_behind(memory, sid, commit, partial(memory.say, sid, text)):
                break
            stopped += 1
            await memory.agrees(sid, system, commit)
    assert 3 < stopped < 59, "no round was stopped, or all were"


@pytest.mark.parametrize("system", ["remembering", "graph"])
async def test_an_agent_whose_second_answer_was_stopped_behind_any_commit_knows_what_its_transcript_shows(
    tmp_path: Path, system: str
) -> None:
    async with served(tmp_path) as memory:
        stopped = 0
        for commit in range(1, 60):
            sid = await memory.begin(system)
            await memory.say(sid, "hello")
            await memory.is_over(sid)
            if not await stopped_behind(memory, sid, commit, partial(memory.regenerate, sid)):
                break
            stopped += 1
            fork = await memory.sessions.fork(LOCAL_TENANT, sid, None)
            await memory.agrees(fork.id, system, ("fork", commit))
            await memory.agrees(sid, system, commit)
    assert 3 < stopped < 59, "no round was stopped, or all were"


@pytest.mark.parametrize("system, text", [("remembering", "count"), ("graph", "hello")], ids=["an agent", "a graph"])
async def test_an_agent_whose_server_crashed_behind_any_commit_knows_what_its_transcript_shows(
    tmp_path: Path, system: str, text: str
) -> None:
    left: list[tuple[str, Path]] = []
    async with served(tmp_path / "data") as memory:
        for commit in range(1, 60):
            sid, copy = await memory.begin(system), tmp_path / f"{commit}"
            memory.disk.stand_behind(commit)
            over = asyncio.ensure_future(_acted_and_over(memory, sid, asyncio.ensure_future(memory.say(sid, text))))
            reached = asyncio.ensure_future(memory.disk.reached.wait())
            await asyncio.wait([over, reached], return_when=asyncio.FIRST_COMPLETED, timeout=SOON)
            if not reached.done():
                reached.cancel()
                break
            copy_database(tmp_path / "data", copy)
            left.append((sid, copy))
            memory.disk.go_on()
            await over
    assert 3 < len(left) < 59, "no server crashed, or all did"
    for sid, copy in left:
        async with served(copy) as memory:
            await memory.is_over(sid)
            await memory.agrees(sid, system, copy.name)


def copy_database(folder: Path, left: Path) -> None:
    """What is committed at this moment, and nothing else."""
    left.mkdir()
    stores.copy(folder, left)
