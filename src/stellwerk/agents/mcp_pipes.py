"""The pipes: an MCP server as a child of ours that speaks one JSON message per line.

The library's own pipes would do, but they lend the child a part of our
environment, take a line of any length, and leave standard error to the caller.
"""

import asyncio
import os
import signal
import time
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from stellwerk.spec.operator import McpServer

LONGEST_MESSAGE = 32 * 1024 * 1024
"""Bytes of one message; a server that sends more has its session ended."""
LOGGED_LINES = 200
"""Lines of one server that reach our log within a minute, be they said on the side or garbage."""

_LOGGED_CHARACTERS = 500
_PIECE = 8192
_ENDING = ((None, 0.5), (signal.SIGTERM, 2.0), (signal.SIGKILL, 0.5))
"""Signals to the group and the seconds given for each; at first its standard input just closes."""
_LAST_WORDS = 0.5
"""Seconds in which what a dead server has said must have been read: its children may hold the pipe for ever."""
_POLL = 0.01

logger = structlog.get_logger(__name__)

Arriving = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


def pipes(name: str, server: McpServer, ended: Callable[[], None]) -> Transport:
    """Start the server; afterwards no process of its group is left. ``ended`` is called when it says no more."""
    return _pipes(name, server, ended)


@asynccontextmanager
async def _pipes(
    name: str, server: McpServer, ended: Callable[[], None]
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    child, overheard = await _started(server), _Overheard(name)
    arriving, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
    sending, outgoing = anyio.create_memory_object_stream[SessionMessage]()
    async with arriving, messages, sending, outgoing, anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(_read, child, arriving, overheard, ended)
            tasks.start_soon(_write, child, outgoing)
            tasks.start_soon(_listen, child, overheard)
            tasks.start_soon(_mourn, child, ended)
            yield messages, sending
        finally:
            with anyio.CancelScope(shield=True):
                await _end(child)
            tasks.cancel_scope.cancel()


class _Child(SubprocessStreamProtocol):
    """The streams of a process, and the moment of its death, which asyncio's own process keeps to itself."""

    transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        super().__init__(limit=LONGEST_MESSAGE, loop=asyncio.get_running_loop())
        self.dead = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.dead.set()


async def _started(server: McpServer) -> _Child:
    transport, child = await asyncio.get_running_loop().subprocess_exec(
        _Child,
        *(server.command or ()),
        env={"PATH": os.pathsep.join(os.get_exec_path())} | server.env,
        cwd=server.cwd,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    child.transport = transport
    return child


class _Overheard:
    """What a server says that is no message, for the operator's log: lines cut, and only so many in a minute."""

    def __init__(self, server: str) -> None:
        self._server, self._since, self._told = server, time.monotonic(), 0

    def tell(self, event: str, said: bytes) -> None:
        if time.monotonic() - self._since > 60:
            self._since, self._told = time.monotonic(), 0
        for line in said.decode(errors="replace").splitlines():
            self._told += 1
            if self._told <= LOGGED_LINES:
                logger.info(event, server=self._server, line=line[:_LOGGED_CHARACTERS])
            elif self._told == LOGGED_LINES + 1:
                logger.warning("mcp_lines_dropped", server=self._server, limit=LOGGED_LINES)

    def too_long(self) -> None:
        logger.warning("mcp_message_too_long", server=self._server, limit=LONGEST_MESSAGE)


async def _read(child: _Child, arriving: Arriving, overheard: _Overheard, ended: Callable[[], None]) -> None:
    assert child.stdout is not None
    try:
        async with arriving:
            while line := await child.stdout.readline():
                message = _message(line)
                if message is not None:
                    await arriving.send(message)
                elif line.strip():
                    overheard.tell("mcp_garbage", line)
    except anyio.BrokenResourceError:
        pass  # the session is closing and wants no more
    except ValueError:
        overheard.too_long()
    finally:
        ended()


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _listen(child: _Child, overheard: _Overheard) -> None:
    assert child.stderr is not None
    while piece := await child.stderr.read(_PIECE):
        overheard.tell("mcp_stderr", piece)


async def _write(child: _Child, outgoing: Outgoing) -> None:
    assert child.stdin is not None
    async with outgoing:
        async for sent in outgoing:
            child.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            with suppress(ConnectionError):  # the reader is about to see the end, too
                await child.stdin.drain()


async def _mourn(child: _Child, ended: Callable[[], None]) -> None:
    await child.dead.wait()
    await asyncio.sleep(_LAST_WORDS)
    ended()


async def _end(child: _Child) -> None:
    assert child.stdin is not None
    child.stdin.close()
    group = child.transport.get_pid()
    for sign, patience in _ENDING:
        if sign is not None:
            with suppress(ProcessLookupError):
                os.killpg(group, sign)
        if await _gone(group, patience):
            break
    child.transport.close()  # a child that left the group may still hold the pipes


async def _gone(group: int, patience: float) -> bool:
    """Whether nothing of the group is left. It has its leader's id, also when the leader has died."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(_POLL)
    return False
