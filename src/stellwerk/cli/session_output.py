"""Sessions as they are shown in the terminal: one that is followed, and one that was exported."""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import aclosing

import msgspec

from stellwerk.cli.render.screen import Screen
from stellwerk.cli.render.session_view import SessionView
from stellwerk.cli.render.text import one_line
from stellwerk.cli.shared import StandardOutput
from stellwerk.cli.terminal import keep_ticking
from stellwerk.client.client import Client, Event
from stellwerk.errors import InvalidInput
from stellwerk.ids import SystemClock


async def tail(client: Client, session_id: str, *, after: int) -> None:
    view = SessionView(Screen(sys.stdout), SystemClock().now, watching=True)
    ticking = asyncio.create_task(keep_ticking(view.tick))
    away = "the server is away; coming back"
    events = client.follow(session_id, after=after, lost=lambda _: view.note(away))
    try:
        async with aclosing(events):
            async for event in events:
                view.note("")
                _show(view, event)
    finally:
        ticking.cancel()
        _settle(view.screen)


async def replay(lines: Iterable[bytes], *, name: str, speed: float | None) -> None:
    """Show an exported log; with ``speed`` as many times faster than it happened."""
    now = 0.0
    view = SessionView(Screen(sys.stdout), lambda: now, watching=True)
    try:
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
    finally:
        _settle(view.screen)


def _show(view: SessionView, event: Event) -> None:
    try:
        view.feed(event.envelope)
    except msgspec.ValidationError:
        view.note(f"something that is not known here: {one_line(event.type)}")  # the server is newer
    if view.screen.closed:
        raise BrokenPipeError


def _settle(screen: Screen) -> None:
    screen.settle()
    if screen.closed:
        StandardOutput().abandon()
