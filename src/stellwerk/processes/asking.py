"""One question to a process of its own, and one answer. However it ends, no process is left behind."""

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stellwerk.processes.kept import Kept, start_kept

_PIECE = 1 << 16
_PRINTED = 8 * 1024
"""How much of what a worker prints, the end of it, is kept."""

_endings: set["asyncio.Task[None]"] = set()


@dataclass(frozen=True, slots=True)
class Told:
    answer: bytes
    """A part of it, and more bytes than were allowed, if the worker was ended for that."""
    printed: str
    code: int
    """How the worker ended, like a shell says it."""

    def ended_by(self) -> signal.Signals | None:
        number = self.code - 128 if self.code > 128 else -self.code
        return signal.Signals(number) if number in set(signal.Signals) else None

    def ending(self) -> str:
        by = self.ended_by()
        return by.name if by is not None else f"exit code {self.code}"


async def asked(request: Mapping[str, Any], environment: Mapping[str, str], *, largest: int) -> Told:
    """Start a keeper with ``request`` and hear it to its end; an answer of more than ``largest`` bytes ends it.

    Whoever is cancelled while he waits leaves no process behind.
    """
    kept = await start_kept(request, environment, limit=_PIECE)
    try:
        answer, printed, _, code = await asyncio.gather(
            _answer(kept, largest), _tail(kept.stderr), _sent(kept.stdin), kept.ended()
        )
    finally:
        # Not in this task alone: it may be cancelled once more, and the child has to be waited for all the same.
        ending = asyncio.create_task(kept.end())
        _endings.add(ending)
        ending.add_done_callback(_endings.discard)
        await asyncio.shield(ending)
    return Told(answer, printed, code)


async def _sent(pipe: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # a child that dies before it has read everything says so by its exit
        await pipe.drain()


async def _answer(kept: Kept, largest: int) -> bytes:
    found = bytearray()
    while piece := await kept.stdout.read(_PIECE):
        if len(found) <= largest:
            found += piece
        else:
            kept.stdin.close()
    return bytes(found)


async def _tail(pipe: asyncio.StreamReader) -> str:
    last = b""
    while piece := await pipe.read(_PIECE):
        last = (last + piece)[-_PRINTED:]
    return last.decode(errors="replace").strip()
