"""`stellwerk workflow run`: upload files, run a workflow, save its documents to a folder."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath

from stellwerk.cli.questions import Questions
from stellwerk.cli.render.screen import Screen, Style
from stellwerk.cli.render.text import one_line
from stellwerk.cli.terminal import AWAITING, COMPLETED, FAILED, MISUSED, TerminalRun
from stellwerk.client.client import Client, Problem
from stellwerk.envelope.model import AskUser, Envelope, Error, RunEnd
from stellwerk.envelope.payloads import RunEnded
from stellwerk.errors import SettingsError, StellwerkError
from stellwerk.workflows.views.workflow import FileReference, Workflow

_BAR = 24
_STYLES: dict[str, Style] = {"info": "dim", "warning": "warn", "error": "bad"}
_TURN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class ProgressView:
    """A bar with the progress of a workflow, below what its agents say."""

    def __init__(self, screen: Screen) -> None:
        self.workflow = Workflow("")
        self.screen = screen
        self.is_running = True
        """Otherwise the bar would cover the input."""
        self._logs = self._messages = self._turns = 0
        self._progress, self._doing, self._note = 0, "", ""

    @property
    def delivered(self) -> tuple[FileReference, ...]:
        """The documents of the answer, without those of the user."""
        last = self.workflow.messages[-1:]
        return last[0].documents if last and last[0].role == "assistant" else ()

    def feed(self, envelope: Envelope) -> None:
        self.workflow.feed(envelope)
        # Questions are asked at the prompt; failed calls are reported by their agent.
        is_failed_call = isinstance(envelope, Error) and not envelope.payload.fatal
        if not is_failed_call and not isinstance(envelope, AskUser):
            self._show()
        self._logs, self._messages = len(self.workflow.logs), len(self.workflow.messages)
        self.tick()

    def _show(self) -> None:
        for entry in self.workflow.logs[self._logs :]:
            self._progress = self._progress if entry.progress is None else entry.progress
            self._doing, self._note = one_line(entry.message), ""
            if entry.type != "info" or not self.screen.live:
                percent = "     " if entry.progress is None else f"{entry.progress:3} %"
                self.screen.say(f"{percent} {self._doing}", _STYLES[entry.type])
        for message in self.workflow.messages[self._messages :]:
            if message.role == "assistant" and message.status == "step":
                self.screen.say(f"{one_line(message.agent_name)}: {message.content}")

    def tick(self) -> None:
        if self.is_running:
            self._turns += 1
            full = _BAR * self._progress // 100
            bar = f"{_TURN[self._turns % len(_TURN)]} {'█' * full}{'░' * (_BAR - full)} {self._progress:3} %"
            self.screen.status(f"{bar}  {self._note or self._doing}")

    def note(self, text: str) -> None:
        """A note beside the progress bar, until the next log entry."""
        self._note = text
        self.tick()


class WorkflowRun(TerminalRun):
    """``server`` opens the server that the workflow runs on, and yields its address."""

    def __init__(
        self, server: Callable[[], AbstractAsyncContextManager[str]], key: str | None, system: str, out: Path
    ) -> None:
        super().__init__(Screen(sys.stderr))
        self._server, self._key = server, key
        self._system, self._out = system, out
        self._view = ProgressView(self.screen)
        has_user = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
        self._questions = Questions(self.screen, self.keyboard, system, has_user=has_user)
        self._stopping: asyncio.Task[None] | None = None
        self._session: tuple[Client, str] | None = None

    async def main(self, text: str, files: Sequence[Path]) -> int:
        """Run it, and return the exit code."""
        work = await self.finished(self._do(text, files), self._view.tick)
        if work.cancelled() or (work.exception() is None and work.result() == self.stopped):
            self.screen.say("stopped", "warn")
            return self.stopped
        if isinstance(error := work.exception(), StellwerkError):
            self.screen.say(f"stellwerk: {error.message}", "bad")
            return MISUSED
        return work.result()

    async def _do(self, text: str, files: Sequence[Path]) -> int:
        self._view.note("starting")
        async with self._server() as url, Client(url, self._key) as client:
            try:
                return await self._work(client, text, files)
            finally:
                if self._stopping is not None:  # the stream may end before the response to a stop
                    await asyncio.wait([self._stopping])

    async def _work(self, client: Client, text: str, files: Sequence[Path]) -> int:
        ids = [await self._uploaded(client, file) for file in files]
        session = await client.begin(self._system, workflow=True)
        sent = await client.send(session.id, text, documents=ids)
        self._session = (client, session.id)
        ended, asks = await self._followed(client, session.id, sent.after)
        while ended.status == "awaiting_user":
            given = await self._questions.answers(asks)
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

    async def _followed(self, client: Client, session_id: str, after: int) -> tuple[RunEnded, list[AskUser]]:
        """Follow one run; return its end and its open questions."""
        asks: list[AskUser] = []
        self._view.is_running = True
        async for event in client.follow(session_id, after=after, until="run_end"):
            envelope = event.envelope
            self._view.feed(envelope)
            if isinstance(envelope, AskUser):
                asks.append(envelope)
            elif isinstance(envelope, RunEnd):
                self._view.is_running = False
                return envelope.payload, asks
        raise SettingsError("the server ended before the workflow did")

    async def _over(self, client: Client, ended: RunEnded) -> int:
        self.screen.settle()
        if ended.status == "stopped":  # reported by main
            return self.stopped
        if ended.status == "failed":
            if not any(entry.message == ended.reason for entry in self._view.workflow.logs):
                self.screen.say(f"stellwerk: {ended.reason or 'the workflow has failed'}", "bad")
            return FAILED
        self.output.write(f"{ended.result or ''}\n")
        for file in self._view.delivered:
            saved = _save(self._out, file, await client.download(file.document_id))
            self.screen.say(f"saved {saved}", "good")
        return COMPLETED

    def stop(self) -> None:
        self._view.note("stopping; Ctrl-C again ends at once")
        if self._session is not None and self._view.is_running:
            client, session_id = self._session
            self._stopping = asyncio.create_task(self._halt(client, session_id))
        else:
            self.work.cancel()

    async def _halt(self, client: Client, session_id: str) -> None:
        """Cancel the work as well: a server in this process gets the signal and ends its streams."""
        try:
            await client.stop(session_id, reason="Ctrl-C")
        except StellwerkError as error:
            self.screen.say(f"stellwerk: {error.message}; the workflow may go on there", "bad")
        self.work.cancel()


def _save(folder: Path, file: FileReference, data: bytes) -> Path:
    """Save a document under its own name, or with a number if another file has that name.

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
