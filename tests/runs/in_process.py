"""The whole server without its sockets, tools that end when they are told to, and a crash that leaves the disk."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.tools import ToolRuntime

from stellwerk import app
from stellwerk.agents.tools.spec import tool
from stellwerk.api.services import Services
from stellwerk.envelope.model import Envelope
from stellwerk.errors import StellwerkError
from stellwerk.log.notify import WakeUps
from stellwerk.runs.sessions import Session
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.timings import Timings
from stellwerk.workflows.service import Workflows
from tests import stores
from tests.samples import SetClock

SYSTEM = Path(__file__).with_suffix(".yaml")
SOON = 30
"""Seconds; a busy machine gets them, and whoever waits in vain loses them once."""


@dataclass
class Gates:
    """Where the calls of tools wait, by what they are called for."""

    passed: "Counter[str]" = field(default_factory=Counter)
    _open: dict[str, asyncio.Event] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait(self, what: str) -> None:
        """Until this very call is told to go on; an earlier one, of a server that is gone, never is."""
        self.passed[what] += 1
        gate = self._open[what] = asyncio.Event()
        async with self._news:
            self._news.notify_all()
        await gate.wait()

    def open(self, what: str) -> None:
        self._open[what].set()

    async def reached(self, what: str, times: int) -> None:
        async with asyncio.timeout(SOON), self._news:
            await self._news.wait_for(lambda: self.passed[what] >= times)


gates = Gates()


def _heard(runtime: ToolRuntime[Any, Any]) -> str:
    return ", ".join(str(message.content) for message in runtime.state["messages"] if message.type == "human")


@tool(idempotent=True)
async def work(what: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Work until told that it is done; that may be done again."""
    await gates.wait(what)
    return _heard(runtime)


@tool(effects="write")
async def risk(what: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Do something that must not be done twice, until told that it is done."""
    await gates.wait(what)
    return _heard(runtime)


@tool(effects="write")
async def hear(runtime: ToolRuntime[Any, Any]) -> str:
    """Say what was heard so far."""
    return _heard(runtime)


tools = [work, risk, hear]


class InProcessServer:
    """One server after the other, each on what the one before left."""

    def __init__(self, folder: Path, timings: Timings = Timings()) -> None:
        self._folder, self._number = folder, 0
        self.clock = SetClock()
        self._parts = app.Parts(clock=self.clock, timings=timings)
        self.config = folder / "operator.yaml"
        self.config.write_text(f"tools: ['{__name__}:tools']\n")

    @property
    def _data(self) -> Path:
        return self._folder / str(self._number)

    async def up(self) -> None:
        self.wakes = WakeUps()
        settings = stores.settings(Settings(data=self._data, config=self.config))
        # Everything but the routes: what they would call is called here.
        self._opened: AbstractAsyncContextManager[Services] = app._services(
            settings, self.wakes, {"backend": str(SYSTEM)}, parts=self._parts
        )
        self.services = await self._opened.__aenter__()
        self.sessions, self.workflows = self.services.sessions, Workflows(self.services)

    async def down(self) -> None:
        await self._opened.__aexit__(None, None, None)

    async def crash(self) -> None:
        """The next server finds what is committed at this moment and nothing else, whatever this one still does."""
        left = self._folder / str(self._number + 1)
        left.mkdir()
        stores.copy(self._data, left)
        await self.down()
        shutil.rmtree(self._data)
        self._number += 1

    async def begin(self) -> str:
        return (await self.sessions.begin(LOCAL_TENANT, "backend", None)).id

    async def settled(self, sid: str, expected: dict[str, Any]) -> Session:
        """The session, as soon as it stands as expected."""
        found = None
        try:
            async with asyncio.timeout(SOON):
                with self.wakes.watch(sid) as channel:
                    while found is None or not expected.items() <= _shown(found).items():
                        if found is not None:
                            await channel.beyond(found.position)
                        found = await self.sessions.find(LOCAL_TENANT, sid)
                    return found
        except TimeoutError:
            raise AssertionError(f"{expected} is expected, and {found} is there") from None

    async def log(self, sid: str) -> list[Envelope]:
        return await self.services.log.envelopes(LOCAL_TENANT, sid)


def _shown(session: Session) -> dict[str, Any]:
    shown = {name: getattr(session, name) for name in ("status", "round", "awaiting_user_input")}
    return {**shown, "is_over": session.status in ("completed", "failed", "stopped")}


async def refusal(work: Awaitable[Any]) -> str | None:
    """The code with which it is refused, if it is."""
    try:
        await work
    except StellwerkError as error:
        return error.code
    return None
