"""Showing: what the commands that talk to a server print, and the exit codes they end with.

The exit code is 0 if all went well, 2 if the server refuses or does not answer,
or a file is no log, 130 after Ctrl-C, and 141 if nobody reads the output any more.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from stellwerk.client.answers import Event, Session
from stellwerk.client.client import Client
from stellwerk.errors import InvalidInput, StellwerkError
from stellwerk.ids import SystemClock
from stellwerk.terminal.outlet import Outlet, attach
from stellwerk.terminal.overhearing import Overhearing
from stellwerk.terminal.plain import one_line, visible

DONE, REFUSED, INTERRUPTED, PIPE_CLOSED = 0, 2, 130, 141
_TICK = 0.5
_AT_ONCE = 500
_HEADINGS = ("ID", "SYSTEM", "STATUS", "ROUND", "EVENTS", "BEGUN", "ACTIVE", "TITLE")


class _Told:
    """The time of a log that is shown again."""

    def __init__(self) -> None:
        self.ts = 0.0

    def now(self) -> float:
        return self.ts

    def steady(self) -> float:
        return self.ts


def ended(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Do it, and return the exit code."""
    return concluded(lambda: asyncio.run(work()))


def concluded(work: Callable[[], None]) -> int:
    """The same for what waits for nobody: Ctrl-C is felt at once, and not where it would wait next."""
    attach()
    try:
        work()
    except StellwerkError as error:
        sys.stderr.write(f"stellwerk: {visible(error.message)}\n")
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    return DONE


async def listing(client: Client, *, limit: int, as_json: bool) -> None:
    found, out = await client.sessions(limit=limit), Outlet(sys.stdout)
    if as_json:
        out.write("".join(f"{msgspec.json.encode(session).decode()}\n" for session in found))
    elif found:
        out.write("".join(f"{row}\n" for row in aligned([_HEADINGS, *(_row(session) for session in found)])))
    else:
        sys.stderr.write(f"there are no sessions at {client.url}\n")


async def export(client: Client, session_id: str) -> None:
    """The whole log, as it is stored."""
    out, lines = Outlet(sys.stdout), list[str]()
    async for event in client.events(session_id, profile="debug"):
        lines.append(f"{event.line.decode()}\n")
        if len(lines) == _AT_ONCE:
            out.write("".join(lines))
            lines.clear()
    out.write("".join(lines))


async def tail(client: Client, session_id: str, *, after: int, as_json: bool) -> None:
    if as_json:
        out = Outlet(sys.stdout)
        async for event in client.follow(session_id, after=after):
            out.write(f"{event.line.decode()}\n")
        return
    async with _overhearing() as view:
        away = partial(view.note, "the server is away; coming back")
        async for event in client.follow(session_id, after=after, lost=lambda _: away()):
            view.note("")
            _show(view, event)


async def replay(lines: Iterable[bytes], *, name: str, speed: float | None) -> None:
    """A log that was exported, as the terminal shows it; with ``speed`` as many times faster than it happened."""
    clock = _Told()
    view = Overhearing(sys.stdout, clock)
    with _settled(view):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            event, ts = _event(line, f"{name}:{number}")
            if speed and clock.ts:
                await asyncio.sleep(max(ts - clock.ts, 0) / speed)
            clock.ts = ts
            _show(view, event)


def _event(line: bytes, place: str) -> tuple[Event, float]:
    """
    Raises:
        InvalidInput: it is none, or one of a newer server.
    """
    try:
        event = Event(line.strip())
        return event, event.envelope.ts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{place} is no envelope: {error}; `stellwerk export` writes such files") from error


def _show(view: Overhearing, event: Event) -> None:
    try:
        view.feed(event.position, event.envelope)
    except msgspec.ValidationError:
        view.note(f"something that is not known here: {one_line(event.type)}")  # the server is newer
    if view.closed:
        raise BrokenPipeError


@contextmanager
def _settled(view: Overhearing) -> Iterator[None]:
    try:
        yield
    finally:
        view.settle()
        if view.closed:
            Outlet(sys.stdout).abandon()


@asynccontextmanager
async def _overhearing() -> AsyncIterator[Overhearing]:
    view = Overhearing(sys.stdout, SystemClock())

    async def beat() -> None:
        while True:
            await asyncio.sleep(_TICK)
            view.tick()

    beating = asyncio.create_task(beat())
    try:
        with _settled(view):
            yield view
    finally:
        beating.cancel()


def _row(session: Session) -> Sequence[str]:
    status = "asks" if session.awaiting_user_input else session.status
    times = session.created_at, session.last_activity_at or session.created_at
    begun, active = (datetime.fromtimestamp(time).strftime("%Y-%m-%d %H:%M") for time in times)
    counts = str(session.round), str(session.position)
    return session.id, one_line(session.agent_system_id), status, *counts, begun, active, one_line(session.title or "")


def aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
