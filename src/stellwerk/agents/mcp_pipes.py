"""The pipes: an MCP server as a child of ours that speaks one JSON message per line.

The library's own pipes would do, but they lend the child a part of our
environment, take a line of any length, leave standard error to the caller and,
if we are killed, the child to itself.
"""

import asyncio
import errno
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from stellwerk.logs import get_logger
from stellwerk.processes.kept import Kept, start_kept
from stellwerk.spec.operator import McpServer

LONGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message; a server that sends more has its session ended. To read one holds everybody up."""
MOST_PARTS = 60_000
"""Lists and objects in one message: it is they that take the time."""
LOGGED_LINES = 200
"""Lines of one server that reach our log within a minute, be they said on the side or garbage."""

_LOGGED_CHARACTERS = 500
_LAST_LINES = 5
_LAST_CHARACTERS = 200
"""Of what a server wrote to stderr, its last lines are in the error if it fails to start."""
_PIECE = 8192
_LAST_WORDS = 0.5
"""Seconds in which what a dead server has said must have been read: its children may hold the pipe for ever."""

STDERR = "mcp_stderr"

logger = get_logger(__name__)

Arriving = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class Overheard:
    """What a server says that is no message, for the operator's log: lines cut, and only so many in a minute."""

    def __init__(self, server: str, redact: Callable[[str], str]) -> None:
        self._server, self._redact = server, redact
        self._since, self._told = time.monotonic(), 0
        self._last = deque[str](maxlen=_LAST_LINES)
        self.heard = anyio.Event()
        """All that it wrote to stderr was read."""

    def tell(self, event: str, said: bytes) -> None:
        lines = [self._redact(line) for line in said[:_PIECE].decode(errors="replace").splitlines()]
        if event == STDERR:
            self._last.extend(line for line in lines if line.strip())
        if time.monotonic() - self._since > 60:
            self._since, self._told = time.monotonic(), 0
        if self._told > LOGGED_LINES:
            return
        for line in lines:
            self._told += 1
            if self._told <= LOGGED_LINES:
                logger.info(event, server=self._server, line=line[:_LOGGED_CHARACTERS])
            elif self._told == LOGGED_LINES + 1:
                logger.warning("mcp_lines_dropped", server=self._server, limit=LOGGED_LINES)

    def too_long(self) -> None:
        logger.warning("mcp_message_too_long", server=self._server, limit=LONGEST_MESSAGE, parts=MOST_PARTS)

    def last_words(self) -> str:
        """The end of its stderr in one line, or nothing."""
        printable = ("".join(c if c.isprintable() else " " for c in line).strip() for line in self._last)
        return " | ".join(line[:_LAST_CHARACTERS] for line in printable)


def pipes(server: McpServer, ended: Callable[[], None], overheard: Overheard) -> Transport:
    """Start the server; afterwards none of its processes is left. ``ended`` is called when it says no more."""
    return _pipes(server, ended, overheard)


@asynccontextmanager
async def _pipes(
    server: McpServer, ended: Callable[[], None], overheard: Overheard
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    child = await start_kept(_request(server), {}, limit=LONGEST_MESSAGE)
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
                await child.end()
                with anyio.move_on_after(_LAST_WORDS):
                    await overheard.heard.wait()
            tasks.cancel_scope.cancel()


def _request(server: McpServer) -> dict[str, object]:
    """What the keeper shall start.

    Raises:
        OSError: there is no such command, or no such folder. Said here, because what a keeper says only we can read.
    """
    # Beside our own Python are the programs of our environment, whether or not somebody activated it.
    folders = (os.path.dirname(sys.executable), *os.get_exec_path())
    environment = {"PATH": os.pathsep.join(folders)} | server.env
    program, *rest = server.command or [""]
    if os.sep in program:
        program = os.path.join(server.cwd or "", program)
    found = shutil.which(program, path=environment["PATH"])
    if found is None or not os.path.isdir(server.cwd or os.curdir):
        raise FileNotFoundError(errno.ENOENT, "there is no such command, or no such cwd")
    return {"command": [os.path.abspath(found), *rest], "env": environment, "cwd": server.cwd}


async def _read(child: Kept, arriving: Arriving, overheard: Overheard, ended: Callable[[], None]) -> None:
    try:
        async with arriving:
            while line := await child.stdout.readline():
                if parts_of(line) > MOST_PARTS:
                    raise ValueError("too many parts")
                message = _message(line)
                if message is not None:
                    await arriving.send(message)
                elif line.strip():
                    overheard.tell("mcp_garbage", line)
    except anyio.BrokenResourceError:
        pass  # the session is closing and wants no more
    except ValueError:  # more than the reader holds, or than we are willing to read
        overheard.too_long()
    finally:
        ended()


def parts_of(text: bytes) -> int:
    """About how many lists and objects there are in it; brackets in its texts count, too."""
    return text.count(b"[") + text.count(b"{")


def _message(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _listen(child: Kept, overheard: Overheard) -> None:
    rest = b""
    while piece := await child.stderr.read(_PIECE):
        *lines, rest = (rest + piece).split(b"\n")  # whole lines: half a secret would not be found
        if len(rest) > _PIECE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            overheard.tell(STDERR, line)
    overheard.tell(STDERR, rest)
    overheard.heard.set()


async def _write(child: Kept, outgoing: Outgoing) -> None:
    async with outgoing:
        async for sent in outgoing:
            child.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            with suppress(ConnectionError):  # the reader is about to see the end, too
                await child.stdin.drain()


async def _mourn(child: Kept, ended: Callable[[], None]) -> None:
    await child.ended()
    await asyncio.sleep(_LAST_WORDS)
    ended()
