"""Tools with effects outside of the server: each call leaves a line in a file that no crash takes back."""

import time
from pathlib import Path

from stellwerk.agents.tools.spec import tool

_EFFECTS = Path(__file__).parent / "effects"
_WORK = 0.01


def _do(line: str) -> None:
    with _EFFECTS.open("ab", buffering=0) as effects:  # one write, which is done or not
        effects.write(f"{line}\n".encode())
    time.sleep(_WORK)


@tool(effects="write")
def order(what: str) -> str:
    """Order something; twice would be once too often."""
    _do(f"order\t{what}")
    return f"{what} is ordered"


@tool(idempotent=True)
def look_up(what: str) -> str:
    """Look something up; that may be done again."""
    _do(f"look_up\t{what}")
    return f"{what} was found"


tools = [order, look_up]
