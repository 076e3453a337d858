"""Worker processes: each runs graphs of one project, and the server drives them over a socket."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import structlog
from langgraph.store.base import BaseStore

import stellwerk
from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.isolated import limits
from stellwerk.agents.isolated.channel import Bell, WorkerChannel
from stellwerk.agents.isolated.store_wire import op_of, packed_result
from stellwerk.agents.isolated.wire import LARGEST, LOG_LINE
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.runtime.loopback import not_answered
from stellwerk.agents.runtime.watchdog import LOOP_BLOCKED
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import Fenced, Forbidden, QuotaExceeded, WorkerLost
from stellwerk.langgraph_env import STRICT_MSGPACK
from stellwerk.processes.supervised_process import SupervisedProcess, start_supervised
from stellwerk.settings import graph_environment
from stellwerk.stream.facts import Fact
from stellwerk.timings import Timings

logger = structlog.get_logger(__name__)

_ENDING = 5.0
"""Seconds in which the supervisor of a worker must have ended it."""
_HANGING_UP = 1.0
"""Seconds that a process which has ended may still hold the socket: its children have it, too."""
_LONGEST_LINE = 4000
_PRINTED = 10
"""Lines that an error repeats of what the worker has printed."""
_BLOCKED = "await an async client, or asyncio.to_thread(…), or make the node or tool a plain def"
_LENT = ("msgspec", "structlog")
"""Packages that the worker needs and that a LangGraph project need not have; they have no dependencies."""
_WORKER = "stellwerk.agents.isolated.environment"
_OF_TENANT = {"store", *(f"checkpoints.{each}" for each in ("read", "list", "history", "put", "put_writes"))}
"""Requests of a worker that name a tenant."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class TenantState:
    checkpoints: object
    """A ``PackedSaver``; its methods are called by name."""
    store_of: Callable[[str], BaseStore]
    """The store as a graph sees it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A request for which a graph works in a worker: where its facts go, and in which context."""

    tenant: str
    context: RunContext
    emit: Callable[[Fact], None] | None = None


class WorkerProcess:
    """One worker: started, called, and ended with everything that it has started."""

    def __init__(
        self,
        settings: WorkerSettings,
        tenants: Mapping[str, TenantState],
        timings: Timings,
        gone: Callable[[], None],
        *,
        window: float = 0,
        cgroups: limits.Cgroups | None = None,
    ) -> None:
        """``window`` is that of the recorders, in seconds."""
        self.settings = settings
        self._cgroups = cgroups or limits.Cgroups()
        self.channel = WorkerChannel(self, largest=LARGEST, window=window)
        self.load = self.used = 0
        """Requests that it works on, and all that it has worked on."""
        self.works_for: set[str] = set()
        """The tenants of those requests; it gets nothing of others."""
        self.is_over = False
        self.in_trouble: Callable[[], None] = lambda: None
        """Called when it is lost, or its event loop is blocked: runs that share it suffer as well."""
        self._tenants, self._timings, self._gone = tenants, timings, gone
        self._process: SupervisedProcess | None = None
        self._folder = TemporaryDirectory(prefix="stellwerk-worker-")
        self._cgroup: Path | None = None
        self._scopes: dict[int, Scope] = {}
        self._printed: list[str] = []
        self._greeted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._cancelling: set[asyncio.Task[None]] = set()
        self._hung_up = asyncio.Event()
        self._how = "it has ended"
        self.ready = asyncio.create_task(self._start())
        self.ready.add_done_callback(lambda task: task.cancelled() or task.exception())

    # Starting and ending.

    async def _start(self) -> None:
        socket = str(Path(self._folder.name, "socket"))
        ends = iter([self.channel])
        listening = await asyncio.get_running_loop().create_unix_server(lambda: next(ends, Bell(self.channel)), socket)
        is_started = False
        try:
            self._cgroup = self._cgroups.make(next(_numbers))
            request = {
                "module": _WORKER,
                **self._paths(),
                "socket": socket,
                "most_processes": limits.PROCESSES if self._cgroup is None else None,
                "memory": self.settings.memory,
                "cgroup": None if self._cgroup is None else str(self._cgroup),
                "folders": self.settings.folders,
                "apart": self.settings.is_apart,
                "watchdog": self._timings.watchdog,
            }
            self._process = await start_supervised(request, self._environment(), python=self.settings.python)
            self._watching = asyncio.create_task(self._watch(self._process))
            async with asyncio.timeout(self._timings.start_worker):
                version = await self._greeted
            is_started = True
        except TimeoutError as error:
            raise WorkerLost(f"it did not start within {self._timings.start_worker:g} s") from error
        finally:
            listening.close()
            if not is_started:
                self.end()
        if version != stellwerk.__version__:
            self.end()
            remedy = f"install {stellwerk.__version__} there, or remove it: it is not needed there"
            raise WorkerLost(f"its environment has stellwerk {version}; {remedy}")

    def _paths(self) -> dict[str, Any]:
        """The search path of modules; another environment has its own, and is lent what it lacks."""
        if self.settings.python is None:
            return {"path": sys.path}
        folders = {"first": ["stellwerk"], "last": list(_LENT)}
        for folder, packages in folders.items():
            Path(self._folder.name, folder).mkdir()
            for package in packages:
                place = Path(import_module(package).__file__ or "").parent
                Path(self._folder.name, folder, package).symlink_to(place)
        return {folder: [str(Path(self._folder.name, folder))] for folder in folders}

    def _environment(self) -> dict[str, str]:
        return {**dict(self.settings.env), **graph_environment(), STRICT_MSGPACK: "true", "PYTHONUNBUFFERED": "1"}

    async def _watch(self, process: SupervisedProcess) -> None:
        """Log what it prints, until it ends."""
        while line := await _line(process.stderr):
            text = line.decode(errors="replace").rstrip()
            if text.startswith(LOG_LINE):
                if _log_again(text) == LOOP_BLOCKED:
                    self.in_trouble()
            elif text:
                self._printed = [*self._printed, text][-_PRINTED:]
                logger.info("worker_printed", project=self.settings.project, text=text[:_LONGEST_LINE])
        how = _ending_of(await process.ended())
        with suppress(TimeoutError):  # what it sent before its end is still on its way
            async with asyncio.timeout(_HANGING_UP):
                await self._hung_up.wait()
        if self._ending is None:
            logger.warning("worker_ended", project=self.settings.project, how=how, printed=self._printed)
            self.in_trouble()
            self.end(how)

    def end(self, how: str = "it was ended") -> None:
        """End the process; calls that wait for it fail at once."""
        if self.is_over:
            return
        self.is_over = True
        self._how = how
        if not self._greeted.done():
            said = f"; it printed: {' | '.join(self._printed)}" if self._printed else ""
            self._greeted.set_exception(WorkerLost(f"{how}{said}"))
            self._greeted.exception()
        self._gone()
        self.channel.close()
        self._ending = asyncio.create_task(self._ended())

    async def _ended(self) -> None:
        if self._process is not None:
            await self._process.end(_ENDING)
        self._folder.cleanup()
        if self._cgroup is not None:
            limits.remove_cgroup(self._cgroup)

    def end_if_full(self) -> None:
        """End a worker whose runs have left so many processes behind that it can start no more."""
        if limits.is_full(self._cgroup):
            self.in_trouble()
            self.end("it had too many processes")

    async def ended(self) -> None:
        """End the process, and wait until it has."""
        self.end()
        if self._ending is not None:
            await asyncio.shield(self._ending)

    # Calling.

    async def call(self, method: str, *given: Any) -> Any:
        try:
            return await self.channel.call(method, *given)
        except WorkerLost:
            if self._watching is not None:
                await asyncio.wait([self._watching], timeout=_ENDING)
            raise WorkerLost(self._how) from None

    def open_scope(self, scope: Scope) -> int:
        number = next(_numbers)
        self._scopes[number] = scope
        return number

    def close_scope(self, number: int) -> None:
        self._scopes.pop(number, None)

    def abandon(self, number: int) -> None:
        """Cancel a run. A worker whose event loop does not respond is ended: a node blocks it."""

        async def cancel() -> None:
            try:
                async with asyncio.timeout(self._timings.stop_worker):
                    await self.channel.call("cancel", number)
            except TimeoutError:
                logger.warning("worker_blocked", project=self.settings.project, remedy=_BLOCKED)
                self.in_trouble()
                self.end("it was ended: a node blocks its event loop, and its run was stopped")
            except WorkerLost:
                return

        task = asyncio.create_task(cancel())
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)

    # What the worker asks for.

    def fact_sent(self, scope: int, fact: Fact) -> None:
        found = self._scopes.get(scope)
        if found is not None and found.emit is not None:
            found.emit(fact)

    def notified(self, method: str, given: list[Any]) -> None:
        if method == "hello":
            if not self._greeted.done():
                self._greeted.set_result(given[0])
            return
        scope = self._scopes.get(given[0])
        usage = None if scope is None else scope.context.usage
        if usage is None:
            return
        usage.step() if method == "step" else usage.spend(given[1])
        try:
            usage.check()
        except QuotaExceeded as error:
            self.channel.notify("exceeded", given[0], error.message)

    def disconnected(self) -> None:
        """The end of the process says how it ended; one that only hangs up is ended."""
        self._hung_up.set()
        asyncio.get_running_loop().call_later(_HANGING_UP, self.end, "it has hung up")

    async def answer(self, method: str, given: list[Any]) -> Any:
        number, *rest = given
        scope = None if number is None else self._scopes.get(number)
        if number is not None and scope is None:  # the run is over, and a thread of it goes on
            raise Fenced("of a run that is over", 0)
        context = RunContext() if scope is None else scope.context
        if method in _OF_TENANT and rest[0] not in (self.works_for if scope is None else {scope.tenant}):
            raise Forbidden("this worker does not work for that tenant")
        with running_in(context):
            return await self._methods[method](self, context, *rest)

    async def _stored(self, context: RunContext) -> None:
        if context.journal is not None:
            await context.journal.stored()

    async def _keep(self, context: RunContext, given: bytes) -> bytes:
        result, blobs = msgspec.msgpack.decode(given, type=tuple[ToolResult, list[Blob]])
        if context.journal is not None:
            result = await context.journal.keep(result, blobs)
        return msgspec.msgpack.encode(result)

    async def _document_size(self, context: RunContext, document_id: str) -> int | None:
        return None if context.documents is None else await context.documents.size(document_id)

    async def _document(self, context: RunContext, document_id: str) -> bytes | None:
        return None if context.documents is None else await context.documents.original(document_id)

    async def _server(self, context: RunContext, method: str, path: list[str], given: bytes) -> bytes:
        """A call of LangGraph's SDK: JSON, as from a graph in this process, so that nothing else can get in."""
        if context.server is None:
            raise not_answered(method, tuple(path))
        plain = msgspec.json.decode(given, type=dict[str, Any])
        return msgspec.json.encode(await context.server.answer(method, tuple(path), plain))

    async def _store(self, _context: RunContext, tenant: str, graph: str, ops: list[Any]) -> list[Any]:
        found = await self._tenants[tenant].store_of(graph).abatch([op_of(name, fields) for name, fields in ops])
        return [packed_result(each) for each in found]

    async def _checkpoint(self, _context: RunContext, tenant: str, *given: Any, method: str) -> Any:
        place, *rest = given
        if method != "list_packed":
            place = tuple(place)
        return await getattr(self._tenants[tenant].checkpoints, method)(place, *rest)

    _methods: dict[str, Callable[..., Any]] = {
        "stored": _stored,
        "keep": _keep,
        "document_size": _document_size,
        "document": _document,
        "server": _server,
        "store": _store,
        "checkpoints.read": partial(_checkpoint, method="read_packed"),
        "checkpoints.list": partial(_checkpoint, method="list_packed"),
        "checkpoints.history": partial(_checkpoint, method="history_packed"),
        "checkpoints.put": partial(_checkpoint, method="put_packed"),
        "checkpoints.put_writes": partial(_checkpoint, method="put_writes_packed"),
    }


async def _line(pipe: asyncio.StreamReader) -> bytes:
    """The next line; empty at the end. Of a line that is too long, a part."""
    try:
        return await pipe.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await pipe.read(max(error.consumed, 1))


def _log_again(text: str) -> str | None:
    """Write a line of the worker's log to the server's log, and return its event. A project may print such lines."""
    try:
        event = json.loads(text.removeprefix(LOG_LINE))
        name, level = event.pop("event"), event.pop("level")
        if level in ("debug", "info", "warning", "error"):
            getattr(logger, level)(name, **event)
            return str(name)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        pass
    return None


def _ending_of(code: int) -> str:
    number = code - 128 if code > 128 else -code
    if number in set(signal.Signals):
        return f"it was ended by {signal.Signals(number).name}"
    return f"it ended with exit code {code}"
