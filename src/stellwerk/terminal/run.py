"""`stellwerk run`: an agent system, or somebody's own graph, run in the terminal.

The exit code is 0 if the run completed, 1 if it failed, 2 if it could not be
started, 3 if it waits for an answer that nobody gives, 130 if it was stopped.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.errors import SettingsError, StellwerkError
from stellwerk.ids import SortableIds, SystemClock
from stellwerk.spec.operator import Operator
from stellwerk.terminal.asking import AtTheKeyboard, Defaults
from stellwerk.terminal.blame import what_happened
from stellwerk.terminal.interrupts import BY_SIGNAL, Interrupts
from stellwerk.terminal.keyboard import Keyboard
from stellwerk.terminal.opening import find, opened
from stellwerk.terminal.outlet import Outlet, attach
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.plain import one_line, visible
from stellwerk.terminal.prints import diverted
from stellwerk.terminal.screen import Screen
from stellwerk.terminal.talk import Talk
from stellwerk.terminal.views import Answers, Lines, Silence, View, Watching

COMPLETED, FAILED, MISUSED, AWAITING, PIPE_CLOSED = 0, 1, 2, 3, 141
_TICK = 0.5
_LEAVING = 3.0
"""Seconds in which what was stopped may clean up behind itself."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user typed."""

    target: str
    words: Sequence[str]
    """The text; without any, standard input has it, or it becomes a conversation."""
    operator: Operator
    as_json: bool = False
    quiet: bool = False
    debug: bool = False


def run(wish: Wish) -> int:
    """Run it, and return the exit code; does not return if something of it was stopped."""
    attach()
    runner = asyncio.Runner()
    session = _Session(wish)
    try:
        code = runner.run(session.main())
    except SystemExit as left:  # somebody's own code ends the process, and every loop lets it
        runner.get_loop().set_exception_handler(lambda loop, context: None)  # it is told below, in one line
        runner.close()
        return session.left(left)
    if code >= BY_SIGNAL:
        # A function on a thread cannot be stopped, and Python would wait for it.
        session.flush()
        os._exit(code)
    runner.close()
    return code


class _Session:
    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._clock = SystemClock()
        self._id = SortableIds(self._clock).new()
        self._keyboard = Keyboard()
        self._out = Outlet(sys.stdout)
        self._seen = sys.stdout.isatty() and sys.stderr.isatty() and not wish.as_json
        self._asks = self._seen and sys.stdin.isatty()
        self._view = self._viewed(Screen(Pen(sys.stdout if self._seen else sys.stderr)))
        self._talk: Talk | None = None
        self._interrupts = Interrupts(self._stop, self._keyboard.release)

    async def main(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.create_task(self._do())
        beat = asyncio.create_task(self._beat())
        shown = diverted(lambda line: self._view.say(visible(line), "dim"), debug=self._wish.debug)
        with self._interrupts.watched(), shown:
            await asyncio.wait([self._work])
            beat.cancel()
            self._view.note("")
            self._keyboard.release()
            code = self._code(self._work, of_an_error=MISUSED)
            if code >= BY_SIGNAL and (others := asyncio.all_tasks() - {asyncio.current_task()}):
                await asyncio.wait(others, timeout=_LEAVING)
        await asyncio.sleep(0)  # what was printed last is shown
        return code

    def left(self, by: SystemExit) -> int:
        """The code that is run has called ``sys.exit``, whatever for."""
        why = f": {one_line(str(by.code))}" if isinstance(by.code, str) else ""
        self._view.say(f"stellwerk: {self._wish.target} ended by sys.exit{why}", "bad")
        return FAILED if self._talk else MISUSED

    def flush(self) -> None:
        self._out.flush()
        sys.stderr.flush()

    def _viewed(self, screen: Screen) -> View:
        if self._wish.as_json:
            return Lines(self._out, self._id, beside=Silence(screen))
        watching = Silence(screen) if self._wish.quiet else Watching(screen, self._clock, answer=self._seen)
        return watching if self._seen and not self._wish.quiet else Answers(self._out, beside=watching)

    async def _do(self) -> int:
        target, text = find(self._wish.target), self._text()
        self._view.note("starting")
        self._view.tick()  # at once: what follows may keep the loop busy
        async with opened(target, self._wish.operator, lambda line: self._view.say(f"! {line}", "warn")) as agent:
            self._view.note("")
            asker = AtTheKeyboard(self._view, self._keyboard, agent.name) if self._asks else Defaults(self._view)
            self._talk = Talk(agent, self._id, self._view, asker, self._clock)
            if text is not None:
                return await self._turn(self._talk, text)
            self._view.say(f"{agent.name} listens. Ctrl-C stops an answer, Ctrl-D ends the conversation.", "dim")
            return await self._converse(self._talk)

    def _text(self) -> str | None:
        if text := " ".join(self._wish.words).strip():
            return text
        if self._asks and not self._wish.words:
            return None
        if not self._wish.words and not sys.stdin.isatty() and (piped := sys.stdin.read()).strip():
            return piped
        raise SettingsError('there is nothing to run it with; say something: stellwerk run … "text"')

    async def _converse(self, talk: Talk) -> int:
        while True:
            try:
                text = await self._keyboard.line("> ")
            except EOFError:
                return COMPLETED
            if text.strip() and await self._turn(talk, text) == AWAITING:
                return AWAITING
            self._interrupts.forget()

    async def _turn(self, talk: Talk, text: str) -> int:
        turn = asyncio.create_task(self._ended(talk, text))
        try:
            await asyncio.wait([turn])
        finally:
            turn.cancel()
        return self._code(turn, of_an_error=FAILED)

    async def _ended(self, talk: Talk, text: str) -> int:
        ended = await talk.turn(text)
        if ended.status == "failed":
            self._view.say(f"stellwerk: {visible(ended.reason or 'the run failed')}", "bad")
        stopped = BY_SIGNAL + (self._interrupts.caught or 0)
        return {"completed": COMPLETED, "failed": FAILED, "awaiting_user": AWAITING, "stopped": stopped}[ended.status]

    def _code(self, work: "asyncio.Task[int]", *, of_an_error: int) -> int:
        """The exit code of what has been done; an error is told in a line."""
        if work.cancelled():
            return BY_SIGNAL + (self._interrupts.caught or 0)
        error = work.exception()
        if error is None:
            return work.result()
        if self._out.closed:
            return PIPE_CLOSED
        if self._wish.debug:
            traceback.print_exception(error, file=sys.__stderr__)
        foreseen = isinstance(error, StellwerkError)
        self._view.say(f"stellwerk: {visible(what_happened(error, debug=self._wish.debug))}", "bad")
        return of_an_error if foreseen else FAILED

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._view.tick()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop_now)

    def _stop_now(self) -> None:
        if self._talk is not None and self._talk.stop():
            self._view.note("stopping; Ctrl-C again ends at once")
        else:
            self._work.cancel()
