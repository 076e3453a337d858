"""Marks: what there is to be shown, before anybody knows how wide the screen is."""

from dataclasses import dataclass
from typing import Literal

from stellwerk.envelope.results import Table
from stellwerk.terminal.lanes import Lane

Style = Literal["plain", "dim", "bold", "good", "bad", "warn", "thought"]
Part = tuple[str, Style]


@dataclass(frozen=True, slots=True)
class Line:
    """One line, cut where the screen ends; or, if every word counts, wrapped."""

    lane: Lane
    parts: tuple[Part, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """Text as it comes. ``call`` is whose text it is: that of one call is never cut by another's within a line."""

    lane: Lane
    call: str
    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Spoken:
    """The text of the call is over; ``note`` stands behind it."""

    lane: Lane
    call: str
    note: str = ""
    style: Style = "dim"


@dataclass(frozen=True, slots=True)
class Grid:
    lane: Lane
    table: Table


Mark = Line | Words | Spoken | Grid
