"""Views: the three ways in which a run is shown. On the screen, in a pipe, and as the envelopes themselves."""

from typing import Protocol

from stellwerk.envelope.frames import Stored, ndjson
from stellwerk.envelope.model import Envelope, RunEnd, encode
from stellwerk.ids import Clock
from stellwerk.terminal.activity import Activity
from stellwerk.terminal.lanes import ROOT
from stellwerk.terminal.marks import Line, Style
from stellwerk.terminal.outlet import Outlet
from stellwerk.terminal.screen import Screen


class View(Protocol):
    def feed(self, position: int, envelope: Envelope) -> None: ...

    def tick(self) -> None:
        """Some time has passed, and nothing else."""

    def note(self, text: str) -> None:
        """What else is going on; shown as long as it lasts, if it lasts."""

    def say(self, text: str, style: Style = "plain") -> None:
        """A line that is in no envelope."""


class Watching:
    """All that happens, on the screen. Without ``answer`` the answer is left out, because it goes elsewhere."""

    def __init__(self, screen: Screen, clock: Clock, *, answer: bool) -> None:
        self._screen, self._clock = screen, clock
        self._activity = Activity(answer=answer)
        self._note = ""

    def feed(self, position: int, envelope: Envelope) -> None:
        for mark in self._activity.feed(envelope):
            self._screen.show(mark)
        if isinstance(envelope, RunEnd):
            self._screen.settle()
            self._note = ""
        self.tick()

    def tick(self) -> None:
        standing = self._activity.standing(self._clock.now())
        self._screen.stand(" · ".join(text for text in (self._note, standing) if text))

    def note(self, text: str) -> None:
        self._note = text
        if not text:
            self.tick()

    def say(self, text: str, style: Style = "plain") -> None:
        self._screen.show(Line(ROOT, ((text, style),), whole=True))


class Silence:
    """Nothing of what happens; only what must be said."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def feed(self, position: int, envelope: Envelope) -> None:
        pass

    def tick(self) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def say(self, text: str, style: Style = "plain") -> None:
        self._screen.show(Line(ROOT, ((text, style),), whole=True))


class Answers:
    """The answer and nothing else, whole, at the end of the run; beside another view."""

    def __init__(self, out: Outlet, beside: View) -> None:
        self._out, self._beside = out, beside

    def feed(self, position: int, envelope: Envelope) -> None:
        self._beside.feed(position, envelope)
        if isinstance(envelope, RunEnd) and (answer := envelope.payload.result):
            self._out.write(answer if answer.endswith("\n") else answer + "\n")

    def tick(self) -> None:
        self._beside.tick()

    def note(self, text: str) -> None:
        self._beside.note(text)

    def say(self, text: str, style: Style = "plain") -> None:
        self._beside.say(text, style)


class Lines:
    """The envelopes as they would be stored, one JSON object per line."""

    def __init__(self, out: Outlet, session_id: str, beside: View) -> None:
        self._out, self._session_id, self._beside = out, session_id, beside

    def feed(self, position: int, envelope: Envelope) -> None:
        self._out.write(ndjson(self._session_id, Stored(position, encode(envelope)), "live").decode())

    def tick(self) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def say(self, text: str, style: Style = "plain") -> None:
        self._beside.say(text, style)
