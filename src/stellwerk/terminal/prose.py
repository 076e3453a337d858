"""Prose: text that arrives in pieces, broken between words at the end of the line.

A word waits until it is whole, so that none is torn. What stands in a code
block, between backticks or in a table is never wrapped, so that it can be copied
as it was written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

# Scripts without spaces may be broken behind every letter.
_LETTER = r"\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_PIECES = re.compile(rf"\n|[^\S\n]+|[{_LETTER}]|[^\s{_LETTER}]+")
_ALONE = re.compile(f"[{_LETTER}]")
_HANGING = re.compile(r"\s*(?:[-*+•?!]|\d{1,3}[.)])?\s+|\s*")
_LONGEST_WAIT = 80
"""Letters of a word that are held back."""


@dataclass
class Prose:
    used: int = 0
    """Cells that stand in the row."""
    _line: str = ""
    """What stands in the line, wrapped or not."""
    _space: str = ""
    _word: str = ""
    _blank: int = 0
    """Empty lines that wait for a word behind them: none begins or ends a text."""
    _begun: bool = False
    _fenced: bool = False
    _quoted: bool = False
    """A backtick was written in this line, and its fellow was not yet."""

    def feed(self, text: str, room: int | None, *, torn: bool = False) -> Iterator[str]:
        """What can be written now; a line break ends a row.

        ``room`` is the width of a row; ``torn`` says that it holds for what is not wrapped as well.
        """
        for piece in _PIECES.findall(text):
            if piece == "\n":
                yield from self.rest(room, torn=torn)
                yield from self._break()
            elif self._in_code():
                yield from self._lengthen(piece, room, torn)
            elif piece.isspace():
                yield from self.rest(room, torn=torn)
                self._space += piece
            else:
                alone = _ALONE.match(piece) is not None
                if alone:
                    yield from self.rest(room, torn=torn)
                yield from self._lengthen(piece, room, torn)
                if alone:
                    yield from self.rest(room, torn=torn)

    def rest(self, room: int | None, *, torn: bool = False) -> Iterator[str]:
        """The word that was held back, because it is whole now."""
        if self._word:
            yield from ("\n" for _ in range(self._blank))
            self._blank, self._begun = 0, True
            yield from self._place(room, torn)

    @property
    def broken(self) -> bool:
        """The line is over; another may be written."""
        return not self._line and not self._word

    def _lengthen(self, piece: str, room: int | None, torn: bool) -> Iterator[str]:
        self._word += piece
        if len(self._word) > _LONGEST_WAIT:
            yield from self.rest(room, torn=torn)

    def _in_code(self) -> bool:
        return self._quoted != _is_odd(self._word)

    def _break(self) -> Iterator[str]:
        if self._line.lstrip().startswith("```"):
            self._fenced = not self._fenced
        if self._line:
            yield "\n"
        elif self._begun:
            self._blank += 1
        self._line, self.used, self._space, self._quoted = "", 0, "", False

    def _place(self, room: int | None, torn: bool) -> Iterator[str]:
        word, space = self._word, self._space
        self._word = self._space = ""
        size = cell_len(space) + cell_len(word)
        fits = room is None or self.used + size <= room
        if not fits and self._wraps() and self.used:
            yield "\n"
            space = " " * min(len(_hanging(self._line)), room // 2 if room else 0)
            self.used, size = 0, len(space) + cell_len(word)
            fits = room is None or size <= room
        self._line += space + word
        self._quoted = self._quoted != _is_odd(word)
        if fits or not torn:
            self.used += size
            yield space + word
        elif room is not None:
            yield from self._torn(space + word, room)

    def _torn(self, text: str, room: int) -> Iterator[str]:
        """A word that is longer than a row."""
        if self.used:
            yield "\n"
        *rows, last = chop_cells(text, max(room, 1)) or [""]
        for row in rows:
            yield row
            yield "\n"
        self.used = cell_len(last)
        yield last

    def _wraps(self) -> bool:
        return not self._fenced and not self._quoted and not self._line.lstrip().startswith(("|", "```"))


def _hanging(line: str) -> str:
    found = _HANGING.match(line)
    return found.group() if found else ""


def _is_odd(word: str) -> bool:
    return word.count("`") % 2 == 1
