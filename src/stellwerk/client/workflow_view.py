"""A workflow in the terminal: what its agents say, and a bar that grows; in a pipe, a line for each step."""

from typing import TextIO

from stellwerk.envelope.model import AskUser, Envelope, Error
from stellwerk.terminal.lanes import ROOT
from stellwerk.terminal.marks import Line, Style
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.plain import one_line, visible
from stellwerk.terminal.screen import Screen
from stellwerk.views.workflow import Workflow
from stellwerk.views.workflow_shapes import FileNamed

_BAR = 24
_STYLES: dict[str, Style] = {"info": "dim", "warning": "warn", "error": "bad"}
_TURN = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class WorkflowView:
    def __init__(self, file: TextIO) -> None:
        self.workflow = Workflow("")
        self._screen = Screen(pen := Pen(file))
        self._is_live = pen.live
        self._logs = self._messages = self._turns = 0
        self._progress, self._doing, self._note = 0, "", ""

    @property
    def delivered(self) -> tuple[FileNamed, ...]:
        """The documents of the answer; what the user gave is not among them, if there is none."""
        last = self.workflow.messages[-1:]
        return last[0].documents if last and last[0].role == "assistant" else ()

    def feed(self, position: int, envelope: Envelope) -> None:
        self.workflow.feed(envelope)
        if not _is_told_elsewhere(envelope):
            self._show()
        self._logs, self._messages = len(self.workflow.logs), len(self.workflow.messages)
        self.tick()

    def _show(self) -> None:
        for entry in self.workflow.logs[self._logs :]:
            self._progress = self._progress if entry.progress is None else entry.progress
            self._doing, self._note = one_line(entry.message), ""
            if entry.type != "info" or not self._is_live:
                percent = "     " if entry.progress is None else f"{entry.progress:3} %"
                self.say(f"{percent} {self._doing}", _STYLES[entry.type])
        for message in self.workflow.messages[self._messages :]:
            if message.role == "assistant" and message.status == "step":
                self.say(f"{one_line(message.agent_name)}: {visible(message.content)}")

    def tick(self) -> None:
        self._turns += 1
        full = _BAR * self._progress // 100
        bar = f"{_TURN[self._turns % len(_TURN)]} {'█' * full}{'░' * (_BAR - full)} {self._progress:3} %"
        self._screen.stand(f"{bar}  {self._note or self._doing}")

    def note(self, text: str) -> None:
        """What else is going on, until something happens."""
        self._note = text
        self.tick()

    def say(self, text: str, style: Style = "plain") -> None:
        self._screen.show(Line(ROOT, ((text, style),), whole=True))

    def settle(self) -> None:
        self._screen.settle()


def _is_told_elsewhere(envelope: Envelope) -> bool:
    """A question will be asked; and of a call that failed, its agent tells what that means."""
    return isinstance(envelope, AskUser) or (isinstance(envelope, Error) and not envelope.payload.fatal)
