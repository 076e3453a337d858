"""The terminal screen, drawn by rich: finished lines, and below them a live region.

Finished lines are only ever added, so all of them can be scrolled back. The live region holds the
unfinished line of each text that is streaming, or else the status line. Output that is not a
terminal gets plain lines, neither wrapped nor coloured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text
from rich.theme import Theme

from stellwerk.cli.render import text as short
from stellwerk.cli.render.text import visible
from stellwerk.envelope.results import Column, Table

Style = str
"""A style of rich, or one of the theme."""
Part = tuple[str, Style]

THEME = Theme({"plain": "", "name": "bold", "good": "green", "bad": "red", "warn": "yellow", "thought": "dim italic"})
_COLOURS = ("cyan", "magenta", "yellow", "blue", "green")
_TABLE_ROWS = 12
_TABLE_CELL = 60
_FILE_WIDTH = 120
_LEAST_WIDTH = 20
_LIVE_ROWS = 8
_UNWRAPPED = ("|", "```")
"""How a line begins that is printed whole, so that a table or code can be copied."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The rows of one agent, graph or tool share a label; the outermost agent has none."""

    name: str = ""
    depth: int = 0
    number: int = 0
    """Counts all lanes, and chooses the colour."""


ROOT = Lane()


@dataclass(slots=True)
class _Stream:
    """The text of one call as it arrives."""

    lane: Lane
    style: Style
    pending: str = ""
    blank: int = 0
    """Empty lines that are printed once a word follows: none begins or ends a text."""
    begun: bool = False
    fenced: bool = False


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Stop writing. A reader that has gone is no reason to end the process, as rich would."""
        self.quiet = True

    def show_cursor(self, show: bool = True) -> bool:
        """Leave the cursor visible: a process that is killed could not bring it back."""
        return False


class Screen:
    def __init__(self, file: TextIO) -> None:
        self._is_terminal = file.isatty()
        width = None if self._is_terminal else _FILE_WIDTH
        self._console = _Console(file=file, highlight=False, markup=False, emoji=False, width=width, theme=THEME)
        self.live = self._is_terminal and not self._console.is_dumb_terminal
        self._region = Live(
            self, console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._streams: dict[str, _Stream] = {}
        self._status = ""
        self._last: Lane | None = None
        """The lane of the last row; its label is not repeated."""

    @property
    def closed(self) -> bool:
        return self._console.quiet

    def say(self, text: str, style: Style = "plain") -> None:
        """Print a text that every word counts of, wrapped."""
        self.line(ROOT, (text, style), wrap=True)

    def line(self, lane: Lane, *parts: Part, wrap: bool = False) -> None:
        """Print one row, cut at the edge of the terminal unless it is wrapped."""
        text = _styled(*parts)
        for row in self._wrapped(lane, text) if wrap else [self._cut(lane, text)]:
            self._row(lane, row)

    def table(self, lane: Lane, table: Table) -> None:
        width = (self._room(lane) or _FILE_WIDTH) - 2
        options = self._console.options.update(width=width)
        for segments in self._console.render_lines(_drawn(table), options, pad=False):
            row = Text.assemble("  ", *((part.text, part.style or "") for part in segments))
            row.rstrip()
            if row.plain:
                self._row(lane, row)
        hidden = max(table.total or 0, len(table.rows)) - min(len(table.rows), _TABLE_ROWS)
        if hidden:
            self.line(lane, (f"  … {hidden} more", "dim"))

    def stream(self, lane: Lane, call: str, text: str, style: Style = "plain") -> None:
        """Add to the text of a call, and print the lines that are finished."""
        stream = self._streams.setdefault(call, _Stream(lane, style))
        *lines, stream.pending = (stream.pending + visible(text)).split("\n")
        for line in lines:
            self._print(stream, self._rows(stream, line))
            if line.lstrip().startswith("```"):
                stream.fenced = not stream.fenced
        self._draw()

    def end_stream(self, call: str, note: str = "", style: Style = "dim") -> None:
        """Print the rest of a text, and a note behind it."""
        stream = self._streams.pop(call, None)
        if stream is None:
            return
        last = stream.pending.rstrip()
        rows = self._rows(stream, last)
        if note:
            room = self._room(stream.lane)
            behind = _styled((f"  {note}" if last else note, style))
            if room is None or rows[-1].cell_len + behind.cell_len <= room:
                rows[-1].append_text(behind)
            else:
                rows.append(_styled((note, style)))
        self._print(stream, rows)
        self._draw()

    def status(self, text: str) -> None:
        """Show a line below everything, in place of the one before."""
        if text != self._status:
            self._status = text
            self._draw()

    def settle(self) -> None:
        """Print all pending text and remove the live region."""
        for call in list(self._streams):
            self.end_stream(call)
        self.status("")

    def _print(self, stream: _Stream, rows: list[Text]) -> None:
        for row in rows:
            if not row.plain.strip():
                stream.blank += stream.begun
                continue
            for _ in range(stream.blank):
                self._row(stream.lane, Text())
            stream.blank = 0
            stream.begun = True
            self._row(stream.lane, row)

    def _rows(self, stream: _Stream, line: str) -> list[Text]:
        text = Text(line, stream.style)
        as_written = stream.fenced or line.lstrip().startswith(_UNWRAPPED)
        return [text] if as_written and not stream.lane.depth else self._wrapped(stream.lane, text)

    def _wrapped(self, lane: Lane, text: Text) -> list[Text]:
        room = self._room(lane)
        return [text] if room is None else list(text.wrap(self._console, room)) or [text]

    def _cut(self, lane: Lane, text: Text) -> Text:
        room = self._room(lane)
        if room is not None:
            text.truncate(room, overflow="ellipsis")
        return text

    def _row(self, lane: Lane, text: Text) -> None:
        row = Text.assemble(self._label(lane, again=lane == self._last), text)
        row.rstrip()
        self._last = lane
        self._console.print(row, soft_wrap=True)

    def _room(self, lane: Lane) -> int | None:
        """Cells of a row that are left beside the label; unlimited in a file."""
        if not self._is_terminal:
            return None
        # Terminals differ in what they do after writing into the last column.
        return max(self._console.width - 1 - self._label(lane).cell_len, _LEAST_WIDTH)

    def _label(self, lane: Lane, *, again: bool = False) -> Text:
        """The name of a lane in front of a row; left blank ``again`` in the rows that follow."""
        if not lane.depth:
            return Text()
        width = self._console.width
        indent = " " * min(2 * lane.depth, width // 6)
        name = short.cut(lane.name, max(4, min(20, width // 5)))
        if again:
            name = " " * cell_len(name)
        colour = _COLOURS[lane.number % len(_COLOURS)]
        return Text.assemble(indent, (name, colour), (" │ ", f"dim {colour}"))

    def _draw(self) -> None:
        if self.live and (self._status or any(stream.pending for stream in self._streams.values())):
            self._region.start()
            self._region.refresh()
        else:
            self._region.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """The live region: texts that are being written, or the status line if there are none."""
        streams = [stream for stream in self._streams.values() if stream.pending.strip()]
        last = self._last
        for stream in streams[:_LIVE_ROWS]:
            for row in self._rows(stream, stream.pending.rstrip())[-_LIVE_ROWS:]:
                label = self._label(stream.lane, again=stream.lane == last)
                yield Text.assemble(label, self._cut(stream.lane, row))
                last = stream.lane
        if not streams and self._status:
            yield self._cut(ROOT, _styled((self._status, "dim")))


def _styled(*parts: Part) -> Text:
    return Text.assemble(*((visible(text), style) for text, style in parts))


def _drawn(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    shown = table.rows[:_TABLE_ROWS]
    for number, given in enumerate(table.columns):
        heading = short.value(given.name if isinstance(given, Column) else given, _TABLE_CELL)
        is_number = all(isinstance(row[number], int | float) for row in shown)
        drawn.add_column(heading, justify="right" if is_number else "left", overflow="ellipsis", no_wrap=True)
    for row in shown:
        drawn.add_row(*("" if cell is None else short.value(cell, _TABLE_CELL) for cell in row))
    return drawn
