"""`stellwerk workflow run`: files and a wish go to a server, its documents come back into a folder.

The exit code is 0 if the workflow completed, 1 if it failed, 2 if it could not
be started, 3 if it waits for an answer that nobody gives, 130 if it was stopped.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from stellwerk.client.client import Client
from stellwerk.client.problems import Problem
from stellwerk.client.workflow_view import WorkflowView
from stellwerk.envelope.model import AskUser, RunEnd
from stellwerk.envelope.payloads import RunEnded
from stellwerk.errors import SettingsError, StellwerkError
from stellwerk.terminal.asking import Asker, AtTheKeyboard, Defaults, Given
from stellwerk.terminal.interrupts import BY_SIGNAL, Interrupts
from stellwerk.terminal.keyboard import Keyboard
from stellwerk.terminal.outlet import Outlet, attach
from stellwerk.terminal.plain import one_line, visible
from stellwerk.terminal.prints import diverted
from stellwerk.views.workflow_shapes import FileNamed

COMPLETED, FAILED, MISUSED, AWAITING, STOPPED = 0, 1, 2, 3, 130
_TICK = 0.5

Server = Callable[[], AbstractAsyncContextManager[str]]
"""Opens the server that the workflow runs on, and gives its address."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user typed."""

    text: str
    files: Sequence[Path]
    out: Path
    system: str


def run(wish: Wish, server: Server, key: str | None = None) -> int:
    """Run it, and return the exit code."""
    attach()
    return asyncio.run(_Running(wish, server, key).main())


class _Running:
    def __init__(self, wish: Wish, server: Server, key: str | None) -> None:
        self._wish, self._server, self._key = wish, server, key
        self._out, self._keyboard = Outlet(sys.stdout), Keyboard()
        self._asks = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
        self._view = WorkflowView(sys.stderr)
        self._interrupts = Interrupts(self._stop, self._keyboard.release)
        self._stopping: asyncio.Task[None] | None = None
        self._session: tuple[Client, str] | None = None
        self._is_followed = self._is_asking = False

    async def main(self) -> int:
        self._loop, self._work = asyncio.get_running_loop(), asyncio.create_task(self._do())
        beat = asyncio.create_task(self._beat())
        with self._interrupts.watched(), diverted(lambda line: self._view.say(visible(line), "dim")):
            await asyncio.wait([self._work])
            beat.cancel()
            self._view.settle()
            self._keyboard.release()
        if self._work.cancelled():
            self._view.say("stopped", "warn")
            return BY_SIGNAL + (self._interrupts.caught or 0)
        error = self._work.exception()
        if isinstance(error, StellwerkError):
            self._view.say(f"stellwerk: {visible(error.message)}", "bad")
            return MISUSED
        if self._work.result() == STOPPED:
            self._view.say("stopped", "warn")
        return self._work.result()

    async def _do(self) -> int:
        self._view.note("starting")
        async with self._server() as url, Client(url, self._key) as client, self._stopped_before_leaving():
            ids = [await self._uploaded(client, file) for file in self._wish.files]
            session = await client.begin(self._wish.system, workflow=True)
            self._session = (client, session.id)
            sent = await client.send(session.id, self._wish.text, documents=ids)
            ended, asks = await self._followed(client, session.id, sent.after)
            while ended.status == "awaiting_user":
                given = await self._answers(asks)
                if given is None:
                    return AWAITING
                for ask_id, answer in given.items():
                    about = {"data": answer.data, "ask_id": ask_id, "refused": answer.refused}
                    sent = await client.answer(session.id, answer.text, **about)
                ended, asks = await self._followed(client, session.id, sent.after)
            return await self._over(client, ended)

    async def _uploaded(self, client: Client, file: Path) -> str:
        self._view.note(f"sending {one_line(file.name)}")
        try:
            return await client.upload(file)
        except Problem as problem:
            raise SettingsError(f"{file} was not taken: {problem.detail}") from problem
        except OSError as error:
            raise SettingsError(f"cannot read {file}: {error.strerror}") from error

    async def _answers(self, asks: Sequence[AskUser]) -> Given | None:
        self._is_asking = True
        try:
            return await self._asker().answers(asks)
        finally:
            self._is_asking = False

    def _asker(self) -> Asker:
        view, name = self._view, self._wish.system
        return AtTheKeyboard(view, self._keyboard, name) if self._asks else Defaults(view)

    async def _followed(self, client: Client, session_id: str, after: int) -> tuple[RunEnded, list[AskUser]]:
        """One run, and the questions with which it ended."""
        asks: list[AskUser] = []
        self._is_followed = True
        async for event in client.follow(session_id, after=after, until="run_end"):
            told = event.envelope
            self._view.feed(event.position, told)
            if isinstance(told, AskUser):
                asks.append(told)
            elif isinstance(told, RunEnd):
                self._is_followed = False
                return told.payload, asks
        raise SettingsError("the server ended before the workflow did")

    async def _over(self, client: Client, ended: RunEnded) -> int:
        self._view.settle()
        if ended.status == "stopped":  # by anybody; it is said in the end
            return STOPPED
        if ended.status == "failed":
            if not any(entry.message == ended.reason for entry in self._view.workflow.logs):
                self._view.say(f"stellwerk: {visible(ended.reason or 'the workflow has failed')}", "bad")
            return FAILED
        self._out.write(f"{ended.result or ''}\n")
        for file in self._view.delivered:
            saved = _kept(self._wish.out, file, await client.download(file.document_id))
            self._view.say(f"saved {visible(str(saved))}", "good")
        return COMPLETED

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if not self._is_asking:  # the bar would cover what is being typed
                self._view.tick()

    @asynccontextmanager
    async def _stopped_before_leaving(self) -> AsyncIterator[None]:
        """The stream may tell of the stop before the server has answered it; the answer needs the client."""
        try:
            yield
        finally:
            if self._stopping is not None:
                await asyncio.wait([self._stopping])

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop_now)

    def _stop_now(self) -> None:
        self._view.note("stopping; Ctrl-C again ends at once")
        if self._session is not None and self._is_followed:
            client, session_id = self._session
            self._stopping = asyncio.create_task(self._halt(client, session_id))
        else:
            self._work.cancel()

    async def _halt(self, client: Client, session_id: str) -> None:
        """The stream may not tell it: a server in this process has heard the signal, too, and ends its streams."""
        try:
            await client.stop(session_id, reason="Ctrl-C")
        except StellwerkError as error:
            self._view.say(f"stellwerk: {visible(error.message)}; the workflow may go on there", "bad")
        self._work.cancel()


def _kept(folder: Path, file: FileNamed, data: bytes) -> Path:
    """Write it under its own name; under another one if that stands for something else.

    Raises:
        SettingsError: it cannot be written.
    """
    name = PurePosixPath(file.name.replace("\\", "/")).name or "document"
    ext = f".{file.ext}" if file.ext else ""
    number, place = 1, folder / f"{name}{ext}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while os.path.lexists(place) and not (place.is_file() and place.read_bytes() == data):
            number += 1
            place = folder / f"{name} ({number}){ext}"
        place.write_bytes(data)
    except OSError as error:
        raise SettingsError(f"cannot write {place}: {error.strerror}; choose a folder with --out") from error
    return place
