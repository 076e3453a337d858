"""Pools of workers: one for each project.

A few runs share a worker before the next one is started, because most of what a token costs is that a
process wakes up for it. Once a worker was lost or blocked, each run has one of its own for a while, as
long as there are enough. A worker is kept for the next run: to import a project takes seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.isolated.limits import Cgroups
from stellwerk.agents.isolated.process import TenantState, WorkerProcess
from stellwerk.timings import Timings

_IDLE = 60.0
"""Seconds after which a worker that has nothing to do is ended, if it is not the only one."""


_ALONE = 600.0
"""Seconds after trouble in which no run is added to another one."""


class WorkerPool:
    """The workers of one project."""

    def __init__(
        self,
        settings: WorkerSettings,
        tenants: dict[str, TenantState],
        timings: Timings,
        window: float,
        cgroups: Cgroups,
    ) -> None:
        self._settings, self._tenants, self._timings, self._cgroups = settings, tenants, timings, cgroups
        self.window = window
        """That of the recorders, in seconds."""
        self._workers: list[WorkerProcess] = []
        self._alone_until = 0.0
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def worker(self, tenant: str) -> AsyncIterator[WorkerProcess]:
        """A worker that is ready to work for a tenant; inside the block it counts as busy."""
        chosen = self._chosen()
        chosen.works_for.add(tenant)
        with self._busy(chosen):
            await asyncio.shield(chosen.ready)
            yield chosen

    def _chosen(self) -> WorkerProcess:
        is_alone = asyncio.get_running_loop().time() < self._alone_until
        most = 1 if is_alone else self._settings.runs
        if with_room := [each for each in self._workers if each.load < most]:
            return max(with_room, key=lambda each: each.load)
        if len(self._workers) >= self._settings.processes:
            return min(self._workers, key=lambda each: each.load)
        given = (self._settings, self._tenants, self._timings)
        made = WorkerProcess(*given, lambda: self._forget(made), window=self.window, cgroups=self._cgroups)
        made.in_trouble = self._part_runs
        self._workers.append(made)
        return made

    def _part_runs(self) -> None:
        self._alone_until = asyncio.get_running_loop().time() + _ALONE

    def _forget(self, worker: WorkerProcess) -> None:
        """The worker has ended, or is about to: it gets no more work."""
        self._workers.remove(worker)
        ending = asyncio.create_task(worker.ended())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    @contextmanager
    def _busy(self, worker: WorkerProcess) -> Iterator[None]:
        worker.load += 1
        worker.used += 1
        try:
            yield
        finally:
            worker.load -= 1
            if not worker.load:
                worker.end_if_full()
            asyncio.get_running_loop().call_later(_IDLE, self._end_idle, worker, worker.used)

    def _end_idle(self, worker: WorkerProcess, used: int) -> None:
        if not worker.load and worker.used == used and len(self._workers) > 1:
            worker.end("it was idle")

    async def close(self) -> None:
        for worker in list(self._workers):
            worker.end()
        await asyncio.gather(*self._ending)


class Workers:
    """The pools of all projects of a server."""

    def __init__(self, timings: Timings, *, window: float = 0) -> None:
        """``window`` is that of the recorders, in seconds."""
        self._timings, self._window, self._cgroups = timings, window, Cgroups()
        self._pools: dict[WorkerSettings, WorkerPool] = {}
        self._tenants: dict[str, TenantState] = {}

    def add_tenant(self, tenant: str, state: TenantState) -> None:
        self._tenants[tenant] = state

    def pool(self, settings: WorkerSettings) -> WorkerPool:
        if settings not in self._pools:
            given = (self._tenants, self._timings, self._window, self._cgroups)
            self._pools[settings] = WorkerPool(settings, *given)
        return self._pools[settings]

    async def close(self) -> None:
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
