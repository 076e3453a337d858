"""How long the runs of a node that fails are without one: what the table of runs says, looked at again and again."""

import asyncio
import time
from contextlib import suppress

import psycopg

from tests.cluster.replicated import DATABASE, ReplicatedPostgres

_LOOK_AGAIN = 0.05
_PATIENCE = 30
"""Seconds after the fault was mended in which a run may still find a node."""


class Takeovers:
    def __init__(self, postgres: ReplicatedPostgres, pid: int) -> None:
        self._postgres, self._names = postgres, f"%-{pid}-%"
        self._began = 0.0
        self._left: dict[str, int] = {}
        """Runs that the node was driving when it failed, and their epochs."""
        self._times: list[float] = []
        self._looking: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """The fault comes now."""
        self._left = dict(await asyncio.to_thread(self._running))
        self._began = time.monotonic()
        self._looking = asyncio.create_task(self._look())

    async def end(self) -> list[float]:
        """When all of them have another node, or have ended."""
        if self._looking is None:
            return []
        with suppress(TimeoutError):
            await asyncio.wait_for(self._looking, _PATIENCE)
        return [*self._times, *(float("inf") for _ in self._left)]

    async def _look(self) -> None:
        while self._left:
            await asyncio.sleep(_LOOK_AGAIN)
            for run_id, is_running, is_other in await asyncio.to_thread(self._now):
                if is_other and is_running:
                    self._times.append(time.monotonic() - self._began)
                if is_other or not is_running:  # ended, by its node or by a stop
                    del self._left[run_id]

    def _running(self) -> list[tuple[str, int]]:
        statement = "SELECT id, epoch FROM run WHERE state = 'running' AND node LIKE %s"
        return [(run_id, epoch) for run_id, epoch in self._postgres.rows(statement, self._names, database=DATABASE)]

    def _now(self) -> list[tuple[str, bool, bool]]:
        statement = "SELECT id, state = 'running', coalesce(node NOT LIKE %s, true) FROM run WHERE id = ANY(%s)"
        try:
            found = self._postgres.rows(statement, self._names, [*self._left], database=DATABASE)
        except psycopg.OperationalError:
            return []
        return [(run_id, is_running, is_other) for run_id, is_running, is_other in found]
