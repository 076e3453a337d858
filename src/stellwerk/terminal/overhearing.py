"""Overhearing: a session that others talk in. Beside what agents do it shows what their users said."""

from typing import TextIO

from stellwerk.envelope.model import AskUser, Envelope, Message, RunEnd, UserAnswer
from stellwerk.envelope.payloads import Answered, Asked, Said, TextPart
from stellwerk.ids import Clock
from stellwerk.terminal import short
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.plain import visible
from stellwerk.terminal.screen import Screen
from stellwerk.terminal.views import Watching


class Overhearing:
    def __init__(self, file: TextIO, clock: Clock) -> None:
        self._pen = Pen(file)
        self._screen = Screen(self._pen)
        self._watching = Watching(self._screen, clock, answer=True)

    @property
    def closed(self) -> bool:
        """Nobody reads any more."""
        return self._pen.closed

    def feed(self, position: int, envelope: Envelope) -> None:
        match envelope:
            case Message(payload=Said(role="user") as said):
                self._watching.say(_said(said), "bold")
            case AskUser(payload=asked):
                self._watching.say(_asked(asked), "warn")
            case UserAnswer(payload=answered):
                self._watching.say(_answered(answered), "bold")
            case _:
                pass
        self._watching.feed(position, envelope)
        if isinstance(envelope, RunEnd) and envelope.payload.status == "failed" and envelope.payload.reason:
            self._watching.say(f"✗ {visible(envelope.payload.reason)}", "bad")

    def tick(self) -> None:
        self._watching.tick()

    def note(self, text: str) -> None:
        self._watching.note(text)
        self._watching.tick()

    def settle(self) -> None:
        """Write all that waits, for nothing more will come."""
        self._screen.settle()


def _said(said: Said) -> str:
    if said.action == "removed":
        return "> (a message was withdrawn)"
    return "> " + visible("".join(part.text for part in said.content if isinstance(part, TextPart)))


def _asked(asked: Asked) -> str:
    options = " | ".join(short.value(option) for option in asked.options or ())
    return f"? {visible(asked.question)}{options and f'  {options}'}"


def _answered(answered: Answered) -> str:
    if answered.refused:
        return "> (refused)"
    return "> " + (visible(answered.text) if answered.text is not None else short.value(answered.data))
