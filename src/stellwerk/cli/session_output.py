"""Output of the session commands: the list, the log, and the view in the terminal."""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import msgspec

from stellwerk.cli.render.screen import Screen
from stellwerk.cli.render.session_view import SessionView
from stellwerk.cli.render.text import one_line
from stellwerk.cli.shared import print_rows
from stellwerk.cli.terminal import StandardOutput, keep_ticking
from stellwerk.client.client import Client
from stellwerk.client.responses import Event, Session
from stellwerk.errors import InvalidInput
from stellwerk.ids import SystemClock

_HEADINGS = ("ID", "SYSTEM", "STATUS", "ROUND", "EVENTS", "BEGUN", "ACTIVE", "TITLE")


async def list_sessions(client: Client, *, limit: int, as_json: bool) -> None:
    found = await client.sessions(limit=limit)
    if found or as_json:
        print_rows(found, _HEADINGS, _row, as_json=as_json)
    else:
        sys.stderr.write(f"there are no sessions at {client.url}\n")


async def export(client: Client, session_id: str) -> None:
    """Print the whole log as it is stored."""
    out = StandardOutput()
    async for event in client.events(session_id, profile="debug"):
        out.write(f"{event.line.decode()}\n")


async def tail(client: Client, session_id: str, *, after: int, as_json: bool) -> None:
    if as_json:
        out = StandardOutput()
        async for event in client.follow(session_id, after=after):
            out.write(f"{event.line.decode()}\n")
        return
    view = SessionView(Screen(sys.stdout), SystemClock().now, watching=True)
    ticking = asyncio.create_task(keep_ticking(view.tick))
    try:
        with _settled(view.screen):
            away = "the server is away; coming back"
            async for event in client.follow(session_id, after=after, lost=lambda _: view.note(away)):
                view.note("")
                _show(view, event)
    finally:
        ticking.cancel()


async def replay(lines: Iterable[bytes], *, name: str, speed: float | None) -> None:
    """Show an exported log; with ``speed`` as many times faster than it happened.

    Raises:
        InvalidInput: a line is no envelope, or one of a newer server.
    """
    now = 0.0
    view = SessionView(Screen(sys.stdout), lambda: now, watching=True)
    with _settled(view.screen):
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                event = Event(line.strip())
                ts = event.envelope.ts
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                remedy = "`stellwerk export` writes such files"
                raise InvalidInput(f"{name}:{number} is no envelope: {error}; {remedy}") from error
            if speed and now:
                await asyncio.sleep(max(ts - now, 0) / speed)
            now = ts
            _show(view, event)


def _show(view: SessionView, event: Event) -> None:
    try:
        view.feed(event.position, event.envelope)
    except msgspec.ValidationError:
        view.note(f"something that is not known here: {one_line(event.type)}")  # the server is newer
    if view.screen.closed:
        raise BrokenPipeError


@contextmanager
def _settled(screen: Screen) -> Iterator[None]:
    try:
        yield
    finally:
        screen.settle()
        if screen.closed:
            StandardOutput().abandon()


def _row(session: Session) -> Sequence[str]:
    status = "asks" if session.awaiting_user_input else session.status
    times = (session.created_at, session.last_activity_at or session.created_at)
    begun, active = (f"{datetime.fromtimestamp(time):%Y-%m-%d %H:%M}" for time in times)
    counts = (str(session.round), str(session.position))
    return session.id, session.agent_system_id, status, *counts, begun, active, session.title or ""
