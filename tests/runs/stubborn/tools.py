"""Tools that do not want to stop. Each says when it begins, and in which process, then waits for a gate."""

import asyncio
import os
import time
from pathlib import Path

from stellwerk.agents.tools.spec import tool
from tests import stores

HERE = Path(__file__).parent
"""The test copies this file into a folder of its own, where the gate is."""


def _began(name: str) -> None:
    written = HERE / f"{name} begins"
    written.write_text(str(os.getpid()))
    written.rename(HERE / f"{name} began")


def _wait(name: str) -> str:
    _began(name)
    while not (HERE / "gate").exists():
        time.sleep(0.01)
    (HERE / f"{name} done").touch()
    return "late"


@tool(effects="write")
def block() -> str:
    """Block a thread, which nobody can end."""
    return _wait("block")


@tool(effects="write", runs_in="process")
def child() -> str:
    """Block a process, which can be ended."""
    return _wait("child")


@tool(effects="write")
async def cling() -> str:
    """Ignore every stop."""
    _began("cling")
    while not (HERE / "gate").exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            (HERE / "cling ignored it").touch()
    (HERE / "cling done").touch()
    return "late"


@tool(effects="write")
def peek() -> str:
    """Look whether the log has this call already."""
    with stores.beside(HERE / "data") as stored:
        count = stored.value("SELECT count(*) FROM event WHERE type = 'tool_start'")
    return f"{count} in the log"


tools = [block, child, cling, peek]
