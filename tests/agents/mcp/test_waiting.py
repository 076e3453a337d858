"""A server that cannot be reached: all who wait for it hear so at the same time, and no call takes longer for it."""

import asyncio
from pathlib import Path

import pytest

from stellwerk.errors import McpUnreachable, ToolFailed
from stellwerk.spec.operator import McpServer
from tests.agents.mcp.conftest import RAW, Start
from tests.agents.mcp.shared import called, tool_named
from tests.crash.waiting import eventually


def counting_starts(path: str) -> list[str]:
    """A command that writes down that it was started, and never gets ready."""
    return ["sh", "-c", f"echo started >> {path}; exec sleep 1000"]


def noted(starts: Path) -> int:
    return starts.read_text().count("started") if starts.exists() else 0


async def test_concurrent_callers_share_one_failure_and_do_not_retry_at_once(start: Start, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = start(start_timeout=0.3, deaf=McpServer(command=counting_starts(str(starts))))
    failed = await asyncio.gather(*(servers.tools("deaf") for _ in range(8)), return_exceptions=True)
    assert {type(error) for error in failed} == {McpUnreachable}
    with pytest.raises(McpUnreachable, match="it did not answer in time"):
        await servers.tools("deaf")
    assert noted(starts) <= 1, "a busy machine may have ended it before it could write anything down"


async def test_after_a_while_it_is_tried_again(start: Start, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    servers = start(start_timeout=0.3, retry_delay=0, deaf=McpServer(command=counting_starts(str(starts))))

    async def tried_twice() -> bool:
        with pytest.raises(McpUnreachable):
            await servers.tools("deaf")
        return noted(starts) >= 2

    await eventually(tried_twice, within=60, what="it is not tried again")


async def test_to_connect_is_a_part_of_the_call(start: Start, tmp_path: Path) -> None:
    """A server that was there when its tools were read, and does not get ready when it is started once more."""
    gone = tmp_path / "gone"
    command = ["sh", "-c", f'test -e {gone} && exec sleep 1000; exec "$@"', "sh", *RAW]
    servers = start(start_timeout=600, raw=McpServer(command=command, timeout=2))
    hello = await tool_named(servers, "raw_hello")
    gone.touch()
    with pytest.raises(ToolFailed, match="'leave' of the MCP server 'raw' failed: "):
        await called(servers, "raw_leave")
    with pytest.raises(ToolFailed, match="'hello' of the MCP server 'raw' did not answer within 2 seconds"):
        await asyncio.wait_for(hello.ainvoke({}), 60)
