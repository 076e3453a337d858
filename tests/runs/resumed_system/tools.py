"""Tools that write into a ledger, outside of everything, each time they are really called; and wait to be let go."""

import time
from pathlib import Path

from stellwerk.agents.tools.spec import tool

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own, where the ledger and the gates are."""


def _note(line: str) -> None:
    with (HERE / "ledger").open("a") as ledger:
        ledger.write(f"{line}\n")


def _wait(what: str) -> None:
    while not (HERE / f"gate-{what}").exists():
        time.sleep(0.01)


@tool(effects="write")
def book(what: str) -> str:
    """Book something; twice would be once too often."""
    _note(f"book {what}")
    return f"{what} is booked"


@tool(effects="write")
def book_slowly(what: str) -> str:
    """Book something, and come back when its gate is open."""
    _note(f"book_slowly {what}")
    _wait(what)
    return f"{what} is booked"


@tool(idempotent=True)
def look_up(what: str) -> str:
    """Look something up, and come back when its gate is open; it may be done again."""
    _note(f"look_up {what}")
    _wait(what)
    return f"{what} was found"


tools = [book, book_slowly, look_up]
