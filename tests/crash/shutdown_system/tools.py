"""One tool, which says that it works, and works until it is told that it is done."""

import time
from pathlib import Path

from stellwerk.agents.tools.spec import tool

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own."""


@tool(idempotent=True)
def work(what: str) -> str:
    """Work until there is a file that says it is done; that may be done again."""
    with (HERE / f"{what} began").open("a") as began:
        began.write("again\n")
    while not (HERE / f"{what} done").exists():
        time.sleep(0.005)
    return "worked"


tools = [work]
