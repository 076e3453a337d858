"""Tools that say that they work, and work until they are told that they are done."""

import time
from pathlib import Path

from stellwerk.agents.tools.spec import tool

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own."""


def _until_done(what: str) -> None:
    with (HERE / f"{what} began").open("a") as began:
        began.write("again\n")
    while not (HERE / f"{what} done").exists():
        time.sleep(0.005)


@tool(idempotent=True)
def work(what: str) -> str:
    """Work until there is a file that says it is done; that may be done again."""
    _until_done(what)
    return "worked"


@tool(effects="write")
def order(what: str) -> str:
    """Order something; twice would be once too often."""
    _until_done(what)
    return "ordered"


tools = [work, order]
