"""States of threads, read from the log: no more of it than they need."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from stellwerk.api.services import Services
from stellwerk.database.port import Transaction
from stellwerk.dialects.langgraph.history import HISTORY_RECALLS, Checkpoint, ThreadHistory
from stellwerk.envelope.model import SubgraphCheckpoint, decode
from stellwerk.errors import NotFound
from stellwerk.log.durable import PAGE
from stellwerk.log.log import PAGE_BYTES
from stellwerk.protocols.langgraph.shapes import Json
from stellwerk.runs.sessions import Session
from stellwerk.spec.model import CompleteAgent
from stellwerk.views.values import TASK, Values

_TYPES = msgspec.json.encode(HISTORY_RECALLS).decode()
_MESSAGES = msgspec.json.encode(["message"]).decode()
_KEPT = 1000
_TITLE = 3
"""Messages that a list of threads shows of each: interfaces take the title from them."""


class About(NamedTuple):
    """What a system's agents say of themselves."""

    agents: frozenset[str] = frozenset()
    """The sub-agents that are called by their own names."""
    is_graph: bool = False
    """It is a graph of the operator, with input of its own."""


class ThreadStates:
    """The states of sessions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._systems = dict[tuple[str, str, int], About]()

    async def about(self, tenant: str, system: str) -> About:
        """Of the newest version; of a system that was withdrawn, nothing is known."""
        try:
            version = await self._services.systems.newest(tenant, system)
        except NotFound:
            return About()
        key = (tenant, system, version)
        if key not in self._systems:
            root = (await self._services.systems.describe(tenant, system, version)).resolved.root
            self._systems[key] = About(frozenset(_names(root)) - {TASK}, root.kind == "graph")
            if len(self._systems) > _KEPT:
                del self._systems[next(iter(self._systems))]
        return self._systems[key]

    async def head(self, tenant: str, session: Session) -> ThreadHistory:
        """The history with the latest trace, and the values as they are now."""
        return await self._history(tenant, session, traces=1)

    async def at(self, tenant: str, session: Session, checkpoint_id: str) -> Checkpoint:
        """
        Raises:
            NotFound: the session has no such checkpoint.
        """
        traces = 1
        while True:
            history = await self._history(tenant, session, traces=traces)
            for each in history.checkpoints:
                if each.checkpoint_id == checkpoint_id:
                    return each
            if history.is_whole:
                raise NotFound("checkpoint", checkpoint_id, remedy="POST …/history lists those that there are")
            traces *= 4

    async def checkpoints(self, tenant: str, session: Session, *, before: str | None, limit: int) -> list[Checkpoint]:
        """The newest first; with ``before`` those behind that one. Each trace has two at least."""
        traces = limit // 2 + 1
        while True:
            history = await self._history(tenant, session, traces=traces)
            found = [*reversed(history.checkpoints)]
            ids = [each.checkpoint_id for each in found]
            is_found = before is None or before in ids
            if before in ids:
                found = found[ids.index(before) + 1 :]
            if (is_found and len(found) >= limit) or history.is_whole:
                return found[:limit] if is_found else []
            traces *= 4

    async def _history(self, tenant: str, session: Session, *, traces: int) -> ThreadHistory:
        services = self._services
        agents = (await self.about(tenant, session.agent_system_id)).agents
        row = await services.database.read(lambda tx: tx.row("trace_starts", session.id, tenant, traces - 1))
        start = 0 if row is None else int(row[0]) - 1
        history = ThreadHistory(agents, is_whole=start == 0)
        recalled = 0
        while recalled < start:
            page = partial(_page, wanted=(session.id, recalled, _TYPES, tenant, PAGE))
            rows = await services.database.read(page)
            history.recall(decode(body) for position, body in rows if position <= start)
            recalled = rows[-1][0] if rows else start
        after = start
        while batch := await services.log.read(tenant, session.id, after=after, limit=PAGE):
            for stored in batch:
                history.feed(decode(stored.body))
            after = batch[-1].position
        return history


def _names(agent: CompleteAgent) -> set[str]:
    found = set[str]()
    for use in agent.agents_as_tools:
        found |= {use.name or use.agent.name} | _names(use.agent)
    return found


def _page(tx: Transaction, wanted: tuple[object, ...]) -> list[tuple[int, bytes]]:
    return tx.rows_within(PAGE_BYTES, "events_of_types", *wanted)


async def first_messages(services: Services, tenant: str, sessions: Sequence[Session]) -> list[Json]:
    """The values of each session with its first messages."""

    def read(tx: Transaction) -> list[list[tuple[int, bytes]]]:
        return [tx.rows("events_of_types", each.id, 0, _MESSAGES, tenant, _TITLE) for each in sessions]

    found = []
    for rows in await services.database.read(read):
        values = Values()
        for _, body in rows:
            values.feed(decode(body))
        found.append(values.snapshot())
    return found


async def checkpoint_places(services: Services, tenant: str, session_id: str) -> list[tuple[int, SubgraphCheckpoint]]:
    """All checkpoints of the outermost graph with their positions, the newest first."""
    rows = await services.database.read(lambda tx: tx.rows("checkpoint_events", session_id, 0, sys.maxsize, tenant))
    found = [(position, decode(bytes(body))) for position, body in rows]
    return [(at, each) for at, each in found if isinstance(each, SubgraphCheckpoint) and each.parent_id is None]
