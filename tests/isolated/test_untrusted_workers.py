"""The server takes from a worker only what the worker may send."""

import asyncio
from typing import Any

import msgspec
import pytest
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.isolated import wire
from stellwerk.agents.isolated.channel import WorkerChannel
from stellwerk.agents.isolated.process import Scope, TenantState, WorkerProcess, _log_again
from stellwerk.agents.runtime.context import RunContext
from stellwerk.errors import Fenced, Forbidden, InvalidInput, WorkerLost
from stellwerk.timings import Timings


class Server:
    """The server's end, which keeps what it is sent."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    async def answer(self, method: str, given: list[Any]) -> Any: ...

    def notified(self, method: str, given: list[Any]) -> None:
        self.notes.append((method, given))

    def fact_sent(self, scope: int, fact: Any) -> None: ...

    def disconnected(self) -> None: ...


class Socket(asyncio.Transport):
    is_open = True

    def close(self) -> None:
        self.is_open = False


async def test_a_frame_that_is_too_large_closes_the_connection_before_it_is_held_in_memory() -> None:
    server, socket = Server(), Socket()
    channel = WorkerChannel(server, largest=wire.LARGEST)
    channel.connection_made(socket)
    channel.data_received(wire.frame([wire.pack(["note", "step", [1]])]))
    assert (server.notes, socket.is_open) == ([("step", [1])], True)
    channel.data_received(wire.HEADER.pack(wire.LARGEST + 1) + b"x" * 1000)
    assert not socket.is_open


class NotStarted(WorkerProcess):
    async def _start(self) -> None: ...


async def test_a_worker_gets_only_what_belongs_to_the_tenant_that_it_works_for() -> None:
    store = InMemoryStore()
    await store.aput(("notes",), "one", {"text": "x"})
    tenants = {name: TenantState(None, lambda _graph: store) for name in "abc"}
    worker = NotStarted(WorkerSettings(), tenants, Timings(), lambda: None)
    worker.works_for.update("ab")
    number = worker.open_scope(Scope("a", RunContext()))
    wanted = ("graph", [["GetOp", [["notes"], "one"]]])
    try:
        for scope, tenant in ((number, "a"), (None, "a"), (None, "b")):
            [found] = await worker.answer("store", [scope, tenant, *wanted])
            assert found[0] == "item"
        for scope, tenant in ((number, "b"), (number, "c"), (None, "c")):
            with pytest.raises(Forbidden):
                await worker.answer("store", [scope, tenant, *wanted])
            for method in ("read", "list", "history", "put", "put_writes"):
                with pytest.raises(Forbidden):
                    await worker.answer(f"checkpoints.{method}", [scope, tenant, ("thread", "", None)])
    finally:
        await worker.ended()


class Calls:
    """What the server answers to the graph of one run."""

    async def answer(self, method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
        return [method, path, given]


async def test_a_worker_calls_the_server_only_for_its_own_runs_and_only_with_json() -> None:
    worker = NotStarted(WorkerSettings(), {}, Timings(), lambda: None)
    run = worker.open_scope(Scope("a", RunContext(server=Calls())))
    update = worker.open_scope(Scope("a", RunContext()))
    try:
        given = ["POST", ["runs"], b'{"assistant_id": "x"}']
        assert await worker.answer("server", [run, *given]) == b'["POST",["runs"],{"assistant_id":"x"}]'
        for scope in (None, update):
            with pytest.raises(InvalidInput):
                await worker.answer("server", [scope, *given])
        for wrong in (b'{"after_seconds": NaN}', b"[]", b"\xff", {"assistant_id": b"x"}):
            with pytest.raises((msgspec.DecodeError, TypeError)):
                await worker.answer("server", [run, "POST", ["runs"], wrong])
        worker.close_scope(run)
        for scope in (run, update + 1):
            with pytest.raises(Fenced):
                await worker.answer("server", [scope, *given])
    finally:
        await worker.ended()


async def test_a_worker_that_does_not_start_in_time_is_lost_like_one_that_ends() -> None:
    worker = WorkerProcess(WorkerSettings(), {}, Timings(start_worker=0.01), lambda: None)
    try:
        with pytest.raises(WorkerLost, match=r"did not start within 0\.01 s"):
            await worker.ready
    finally:
        await worker.ended()


@pytest.mark.parametrize(
    "line",
    ["[1]", "1", "{", "{}", "[" * 50_000, '{"event": "x", "level": []}', '{"event": "x", "level": "info", "self": 1}'],
)
def test_a_printed_line_that_only_looks_like_a_line_of_a_log_ends_nothing(line: str) -> None:
    _log_again(wire.LOG_LINE + line)
