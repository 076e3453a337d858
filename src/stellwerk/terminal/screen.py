"""The screen: marks of agents that work side by side, in an order in which they can be read.

One call at a time has the floor: its words appear as they come. Whatever
others have to say meanwhile waits until that text is over, or at least its line;
then everything that is whole follows, and after it the next text has the floor.
"""

from dataclasses import dataclass, field

from stellwerk.terminal.lanes import Lane
from stellwerk.terminal.marks import Grid, Line, Mark, Spoken, Style, Words
from stellwerk.terminal.pen import Pen
from stellwerk.terminal.prose import Prose


@dataclass
class _Text:
    """What one call says."""

    lane: Lane
    waiting: list[Words] = field(default_factory=list)
    over: Spoken | None = None
    prose: Prose = field(default_factory=Prose)
    style: Style = "plain"


@dataclass
class Screen:
    pen: Pen
    _floor: str | None = None
    """The call whose words appear as they come."""
    _texts: dict[str, _Text] = field(default_factory=dict)
    _queue: list[Line | Grid | _Text] = field(default_factory=list)

    def show(self, mark: Mark) -> None:
        match mark:
            case Words(call=call):
                self._speak(mark, call)
            case Spoken(call=call):
                self._finish(mark, call)
            case Line() | Grid():
                self._queue.append(mark)
                self._hand_over()

    def stand(self, text: str) -> None:
        self.pen.stand(text)

    def settle(self) -> None:
        """Write all that waits, for nothing more will come; the cursor stands at the beginning of a row."""
        for call, text in list(self._texts.items()):
            self._finish(Spoken(text.lane, call), call)
        self.pen.stand("")

    def _speak(self, words: Words, call: str) -> None:
        text = self._texts.get(call)
        if text is None:
            text = self._texts[call] = _Text(words.lane)
            self._queue.append(text)
        text.waiting.append(words)
        if self._floor is None:
            self._hand_over()
        elif self._floor == call:
            self._write(text)
            if text.prose.broken:
                self._hand_over()

    def _finish(self, spoken: Spoken, call: str) -> None:
        text = self._texts.pop(call, None)
        if text is None:
            return
        text.over = spoken
        if self._floor == call:
            self._end(text)
            self._floor = None
            self._hand_over()

    def _hand_over(self) -> None:
        """Write what is whole, in its order; then whoever began to speak first has the floor."""
        holder = self._texts.get(self._floor or "")
        if holder is not None and not holder.prose.broken:
            return
        left: list[Line | Grid | _Text] = []
        for waiting in self._queue:
            if isinstance(waiting, _Text) and waiting.over is None:
                left.append(waiting)
            else:
                self._write_whole(waiting)
        self._queue = left
        if self._floor is None:
            self._give_floor()

    def _give_floor(self) -> None:
        for call, text in self._texts.items():
            self._floor = call
            self._queue.remove(text)
            self._write(text)
            return

    def _write_whole(self, waiting: Line | Grid | _Text) -> None:
        match waiting:
            case Line(whole=False):
                self.pen.line(waiting.lane, waiting.parts)
            case Line():
                self._wrapped(waiting)
            case Grid():
                self.pen.grid(waiting.lane, waiting.table)
            case _Text():
                self._write(waiting)
                self._end(waiting)

    def _write(self, text: _Text) -> None:
        for words in text.waiting:
            room = self.pen.room(words.lane)
            for piece in text.prose.feed(words.text, room, torn=words.lane.depth > 0):
                self._piece(words.lane, piece, words.style)
            text.style = words.style
        text.waiting.clear()

    def _end(self, text: _Text) -> None:
        room = self.pen.room(text.lane)
        for piece in text.prose.rest(room, torn=text.lane.depth > 0):
            self._piece(text.lane, piece, text.style)
        note = text.over.note if text.over else ""
        begun = not text.prose.broken
        if note and begun and room is not None and text.prose.used + len(note) + 2 > room:
            self.pen.end_row()
            begun = False
        if note and text.over:
            self.pen.write(text.lane, f"  {note}" if begun else note, text.over.style)
        if begun or note:
            self.pen.end_row()

    def _wrapped(self, line: Line) -> None:
        prose = Prose()
        for text, style in line.parts:
            room = self.pen.room(line.lane)
            torn = line.lane.depth > 0
            for piece in (*prose.feed(text, room, torn=torn), *prose.rest(room, torn=torn)):
                self._piece(line.lane, piece, style)
        self.pen.end_row()

    def _piece(self, lane: Lane, piece: str, style: Style) -> None:
        if piece == "\n":
            self.pen.end_row(lane)
        else:
            self.pen.write(lane, piece, style)
