"""Several server processes on one port: nodes that share a socket, and a supervisor that starts and ends them.

The supervisor listens and serves nothing. It starts a process again that has ended, and ends all of
them when it is asked to; when it is killed, they end by themselves.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import structlog

from stellwerk.api.http.server import listener
from stellwerk.errors import SettingsError, StellwerkError
from stellwerk.logs import configure
from stellwerk.ops.serve import serve
from stellwerk.settings import Settings

logger = structlog.get_logger(__name__)

_ENDING = 20.0
"""Seconds that the processes have to hand over their runs."""
_AGAIN = (1.0, 5.0, 30.0)
"""Seconds until a process that has ended is started again, the first time and later."""
_SETTLED = 60.0
"""Seconds after which a process counts as one that runs."""
_PROCESSES = multiprocessing.get_context("spawn")
_FAILED = "failed: "


def serve_in_processes(settings: Settings, say: Callable[[str], None], *, targets: Sequence[str] = ()) -> None:
    """Run ``settings.workers`` servers until a signal ends them.

    Raises:
        SettingsError: they have no database that they could share, or the first one could not start.
    """
    if settings.database is None:
        raise SettingsError(
            f"{settings.workers} workers need a PostgreSQL database, which they share; name it with --database"
        )
    configure(settings.logs)
    with listener(settings.host, settings.port) as listening:
        port = listening.getsockname()[1]
        each = settings.model_copy(update={"port": port, "workers": 1})
        _Supervisor(each, [*targets], listening, say, settings.workers).run()


@dataclass
class _Worker:
    process: SpawnProcess
    said: Connection
    since: float = field(default_factory=time.monotonic)
    is_ready: bool = False


class _Supervisor:
    def __init__(
        self, settings: Settings, targets: list[str], listening: socket.socket, say: Callable[[str], None], count: int
    ) -> None:
        self._settings, self._targets, self._listening, self._say = settings, targets, listening, say
        self._count = count
        self._workers: list[_Worker] = []
        self._due: list[float] = []
        """When processes are to be started again."""
        self._failures = 0
        self._greeted = False
        self._ends = False

    def run(self) -> None:
        with self._signals() as woken:
            try:
                self._workers = [self._started() for _ in range(self._count)]
                while not self._ends:
                    self._wait(woken)
                    self._start_due()
            finally:
                self._end()

    def _started(self) -> _Worker:
        said, tell = _PROCESSES.Pipe(duplex=False)
        arguments = (self._settings, self._targets, self._listening, tell)
        process = _PROCESSES.Process(target=_serve, args=arguments, name="stellwerk worker")
        process.start()
        tell.close()
        return _Worker(process, said)

    def _wait(self, woken: socket.socket) -> None:
        """Until something happens."""
        timeout = None if not self._due else max(0.0, min(self._due) - time.monotonic())
        sentinels = {worker.process.sentinel: worker for worker in self._workers}
        links = {worker.said: worker for worker in self._workers if not worker.said.closed}
        for ready in wait([woken, *links, *sentinels], timeout):
            if ready is woken:
                woken.recv(64)
            elif isinstance(ready, Connection):
                self._hear(links[ready])
        for worker in [worker for worker in self._workers if not worker.process.is_alive()]:
            self._ended(worker)

    def _hear(self, worker: _Worker) -> None:
        try:
            text = worker.said.recv()
        except EOFError:
            worker.said.close()
            return
        if text.startswith(_FAILED):
            if not self._greeted:
                raise SettingsError(text.removeprefix(_FAILED))
            logger.error("worker_failed", error=text.removeprefix(_FAILED))
            return
        worker.is_ready = True
        if not self._greeted and all(each.is_ready for each in self._workers):
            self._greeted = True
            one = f"(process {worker.process.pid})"
            self._say(text.replace(one, f"({self._count} workers, process {os.getpid()})", 1))

    def _ended(self, worker: _Worker) -> None:
        while not worker.said.closed:
            self._hear(worker)
        self._workers.remove(worker)
        if self._ends:
            return
        self._failures = 0 if time.monotonic() - worker.since > _SETTLED else self._failures + 1
        pause = _AGAIN[min(self._failures, len(_AGAIN)) - 1] if self._failures else 0.0
        logger.warning("worker_ended", process=worker.process.pid, code=worker.process.exitcode, again_in=pause)
        self._due.append(time.monotonic() + pause)

    def _start_due(self) -> None:
        now = time.monotonic()
        due = [moment for moment in self._due if moment <= now]
        self._due = [moment for moment in self._due if moment > now]
        self._workers += [self._started() for _ in due if not self._ends]

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        end = time.monotonic() + _ENDING
        for worker in self._workers:
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.is_alive():
                logger.error("worker_killed", process=worker.process.pid, seconds=_ENDING)
                worker.process.kill()
                worker.process.join()

    @contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """SIGINT and SIGTERM end the processes; the socket can be read when one came."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        before = {signum: signal.signal(signum, self._asked) for signum in (signal.SIGINT, signal.SIGTERM)}
        woken_before = signal.set_wakeup_fd(wakes.fileno())
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(woken_before)
            for signum, handler in before.items():
                signal.signal(signum, handler)
            woken.close()
            wakes.close()

    def _asked(self, _signum: int, _frame: object) -> None:
        self._ends = True


def _serve(settings: Settings, targets: Sequence[str], listening: socket.socket, tell: Connection) -> None:
    """In a process and a group of its own: Ctrl-C reaches the supervisor alone, which passes it on."""
    os.setpgrp()
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None
    try:
        serve(settings, tell.send, targets=targets, listening=listening, ends_with=supervisor.sentinel)
    except StellwerkError as error:
        tell.send(f"{_FAILED}{error.message}")
        sys.exit(2)
