"""The pen: writes rows on a terminal, or into a file, and keeps one line of standing below them.

Rows are only ever added. The line of standing is the one thing that is written
over, and it is short enough to stay on one row; so nothing flickers, nothing is
lost when the window changes its size, and all can be scrolled back.
"""

from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.table import Table as Drawing
from rich.text import Text

from stellwerk.envelope.results import Column, Table
from stellwerk.terminal import short
from stellwerk.terminal.lanes import Lane
from stellwerk.terminal.marks import Part

_STYLES = {
    **{"plain": "", "dim": "dim", "bold": "bold", "good": "green", "bad": "red", "warn": "yellow"},
    "thought": "dim italic",
}
_COLOURS = ("cyan", "magenta", "yellow", "blue", "green")
_ROWS = 12
"""Of a table that are drawn."""
_CELL = 60
_BETWEEN = 3
"""Cells between two columns."""
_IN_A_FILE = 120
_LEAST = 20
_ERASE = "\r\x1b[J"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Whoever watched has gone; that is no reason to end the process, as rich would."""
        self.quiet = True


class Pen:
    def __init__(self, file: TextIO) -> None:
        terminal = file.isatty()
        self._console = _Console(
            file=file, highlight=False, markup=False, emoji=False, width=None if terminal else _IN_A_FILE
        )
        self.live = terminal and not self._console.is_dumb_terminal
        self._wraps = terminal
        self._last: Lane | None = None
        self._begun = False
        """Something stands in the row."""
        self._standing = ""

    @property
    def closed(self) -> bool:
        """Whoever watched has gone."""
        return self._console.quiet

    def room(self, lane: Lane) -> int | None:
        """Cells of a row that are left for what the lane has to say; in a file there is no end."""
        if not self._wraps:
            return None
        # One less than there are: writing into the last column is where terminals differ.
        return max(self._console.width - 1 - cell_len(self._gutter(lane)), _LEAST)

    def write(self, lane: Lane, text: str, style: str = "plain") -> None:
        """Into the row that is begun; the lane's gutter comes first in every new one."""
        if not self._begun:
            self._open_row(lane)
        self._put(Text(text, _STYLES[style]))

    def end_row(self, lane: Lane | None = None) -> None:
        """An empty row of a lane has its gutter, too."""
        if not self._begun and lane is not None:
            self._open_row(lane)
        self._put(Text("\n"))
        self._begun = False

    def line(self, lane: Lane, parts: Iterable[Part]) -> None:
        """One row, cut at its end."""
        text = Text.assemble(*((part, _STYLES[style]) for part, style in parts))
        room = self.room(lane)
        if room is not None:
            text.truncate(room, overflow="ellipsis")
        self._open_row(lane)
        self._put(text)
        self.end_row()

    def grid(self, lane: Lane, table: Table) -> None:
        width = (self.room(lane) or _IN_A_FILE) - 2
        options = self._console.options.update(width=width)
        for row in self._console.render_lines(_drawn(table, width), options, pad=False):
            if "".join(segment.text for segment in row).strip():
                self._open_row(lane)
                self._put(Text("  "))
                self._put(Text.assemble(*((s.text, s.style or "") for s in _trimmed(row))))
                self.end_row()
        hidden = max(table.total or 0, len(table.rows)) - min(len(table.rows), _ROWS)
        if hidden:
            self.line(lane, ((f"  … {hidden} more", "dim"),))

    def stand(self, text: str) -> None:
        """The line below everything, in place of the one before; only where nothing is being written."""
        if self.live and not self._begun:
            self._stand(text and set_cell_size(text, min(cell_len(text), self._console.width - 1)))

    def _stand(self, text: str) -> None:
        if text == self._standing:
            return
        if self._standing:
            self._console.file.write(self._climb() + _ERASE)
        self._standing = text
        if text:
            self._put(Text(text, "dim"))
        self._console.file.flush()

    def _climb(self) -> str:
        """A window that has become narrower shows the line on several rows."""
        rows = (cell_len(self._standing) - 1) // self._console.width
        return f"\x1b[{rows}A" if rows else ""

    def _open_row(self, lane: Lane) -> None:
        self._stand("")
        gutter = self._gutter(lane)
        if gutter and lane == self._last:
            gutter = " " * (cell_len(gutter) - 2) + "│ "
        colour = _COLOURS[lane.number % len(_COLOURS)]
        self._begun, self._last = True, lane
        if gutter:
            self._put(Text.assemble((gutter[:-2], colour), (gutter[-2:], f"dim {colour}")))

    def _gutter(self, lane: Lane) -> str:
        if not lane.depth:
            return ""
        width = self._console.width
        name = short.cut(lane.name, max(4, min(20, width // 5)))
        return " " * min(2 * lane.depth, width // 6) + f"{name} │ "

    def _put(self, text: Text) -> None:
        self._console.print(text, end="", soft_wrap=True)


def _drawn(table: Table, width: int) -> Drawing:
    drawing = Drawing(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    names = [column if isinstance(column, Column) else Column(name=column) for column in table.columns]
    heads = [short.value(column.name, _CELL) for column in names]
    rows = [["" if cell is None else short.value(cell, _CELL) for cell in row] for row in table.rows[:_ROWS]]
    widest = _narrowed([max(map(cell_len, cells)) for cells in zip(heads, *rows, strict=True)], width)
    for number, column in enumerate(names):
        numbers = all(isinstance(row[number], int | float) for row in table.rows[:_ROWS])
        right = column.type in ("number", "integer") or (numbers and bool(table.rows))
        drawing.add_column(
            heads[number],
            justify="right" if right else "left",
            overflow="ellipsis",
            no_wrap=True,
            max_width=widest[number],
        )
    for row in rows:
        drawing.add_row(*row)
    return drawing


def _narrowed(widths: list[int], room: int) -> list[int]:
    """The widest columns give way first, so that short ones stay readable."""
    left = room - _BETWEEN * (len(widths) - 1)
    for ceiling in range(max(widths, default=0), 3, -1):
        if sum(min(width, ceiling) for width in widths) <= left:
            return [min(width, ceiling) for width in widths]
    return widths


def _trimmed(row: list[Segment]) -> list[Segment]:
    *before, last = [segment for segment in row if segment.text != "\n"] or [Segment("")]
    return [*before, Segment(last.text.rstrip(), last.style)]
