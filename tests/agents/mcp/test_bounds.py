"""Servers without measure: what they send is bounded before it costs anything."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
import pytest
from langchain.agents import create_agent
from langchain_core.utils.function_calling import convert_to_openai_tool
from structlog.testing import capture_logs

from stellwerk.agents.build.resources import Resources
from stellwerk.agents.mcp.tools import MAX_UPDATES, ProgressReporter, schema_problem
from stellwerk.agents.mcp.transports import MAX_CONTAINERS, MAX_MESSAGE_BYTES, limit_response
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.errors import ToolFailed
from stellwerk.spec.operator import McpServer
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.mcp.conftest import RAW, Start
from tests.agents.mcp.raw import ODD_INPUTS
from tests.agents.mcp.shared import called, tool_named


async def test_a_message_of_very_many_parts_costs_its_call(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with capture_logs() as logs, pytest.raises(ToolFailed, match="'many_parts' of the MCP server 'raw' failed: "):
        await called(servers, "raw_many_parts")
    (warning,) = [line for line in logs if line["event"] in ("mcp_stderr", "mcp_message_too_long")]
    assert (warning["event"], warning["log_level"]) == ("mcp_message_too_long", "warning")
    assert (warning["server"], warning["limit"], warning["parts"]) == ("raw", MAX_MESSAGE_BYTES, MAX_CONTAINERS)
    assert (await called(servers, "raw_hello")).content


async def test_of_a_very_long_line_of_garbage_only_the_beginning_is_looked_at(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with capture_logs() as logs:
        assert (await called(servers, "raw_long_garbage")).content == "after the garbage"
        await called(servers, "raw_garbage")
    assert len([line for line in logs if line["event"] == "mcp_garbage"]) <= 200


async def test_progress_without_end_becomes_a_few_updates_and_the_last_is_among_them(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    steps = [ScriptStep(call="raw_hurry"), ScriptStep(say="done")]
    graph: Any = create_agent(ScriptedModel(script=[ScriptRule(steps=steps)]), [await tool_named(servers, "raw_hurry")])
    told = [part async for part in graph.astream({"messages": [("user", "go")]}, stream_mode="custom")]
    assert told[0]["progress"] == 0 and told[-1]["progress"] == 999
    assert len(told) < MAX_UPDATES
    assert {len(update["message"]) for update in told} == {500}


async def test_however_long_a_call_takes_its_updates_are_counted() -> None:
    updates: list[Any] = []
    progress = ProgressReporter("c1", updates.append, interval=0)
    for step in range(1000):
        await progress(step, None, None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    progress.close()
    assert [update["progress"] for update in updates] == [*range(MAX_UPDATES - 1), 999]


@pytest.mark.parametrize("name", ["elsewhere", "nowhere", "endless"])
def test_a_schema_that_leads_elsewhere_or_has_no_end_has_a_flaw(name: str) -> None:
    assert schema_problem(ODD_INPUTS[name]) is not None


async def test_a_tool_with_an_unusable_schema_is_not_offered(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    with capture_logs() as logs:
        tools = await servers.tools("raw")
    refused = {line["tool"]: line["problem"] for line in logs if line["event"] == "mcp_schema_unusable"}
    assert refused == {
        "elsewhere": "refers to another document",
        "nowhere": "has a reference without a target",
        "endless": "refers to itself so often that it has no end",
    }
    assert "raw_tree" in [tool.name for tool in tools], "what refers to itself and comes to an end is fine"
    for offered in tools:
        convert_to_openai_tool(offered)


async def test_a_result_is_held_against_what_the_server_promised_without_its_expressions(start: Start) -> None:
    servers = start(raw=McpServer(command=RAW))
    answer = await called(servers, "raw_break_a_promise", size=5)
    assert answer.artifact["result"]["data"] == {"size": 5}
    with pytest.raises(ToolFailed, match="gave no valid result: 'aaa.*!' is not of type 'integer'"):
        await called(servers, "raw_break_a_promise", size="a" * 40 + "!")


async def test_no_server_takes_the_name_of_a_tool_of_ours(start: Start) -> None:
    @tool(aliases=["raw_hello"], effects="external")
    async def pay() -> str:
        """Pay."""
        return "paid"

    resources = Resources(tools=Tools([pay]), mcp=start(raw=McpServer(command=RAW)))
    with capture_logs() as logs:
        catalogue = await resources.catalogue(["raw_hello"])
        listed = [described["name"] for described in await resources.inventory()]
    assert catalogue.named("raw_hello") == "pay"
    assert "raw_garbage" in listed and "raw_hello" not in listed
    assert {line["tool"] for line in logs if line["event"] == "mcp_name_is_ours"} == {"raw_hello"}


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def read(pieces: Sequence[bytes], **headers: str) -> bytes:
    """What is left of an answer that comes in these pieces."""
    response = httpx2.Response(200, headers={key.replace("_", "-"): value for key, value in headers.items()})
    response.stream = Pieces(pieces)
    await limit_response(response)
    return b"".join([piece async for piece in response.stream])


EVENTS = "text/event-stream"
ROWS = json.dumps([[]] * (MAX_CONTAINERS - 10)).encode()


async def test_an_answer_is_counted_as_a_whole_and_a_stream_by_its_events() -> None:
    assert await read([ROWS]) == ROWS
    with pytest.raises(httpx2.StreamError, match="60000 lists and objects"):
        await read([ROWS, ROWS])
    with pytest.raises(httpx2.StreamError, match="4194304 bytes"):
        await read([b"x" * MAX_MESSAGE_BYTES, b"x"])
    for end in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        event = b"data: " + ROWS + end
        whole = event * 3
        assert await read([whole[:-1], whole[-1:], event], content_type=EVENTS) == event * 4
    with pytest.raises(httpx2.SSEError):
        await read([b"data: ", ROWS, b"\ndata: ", ROWS], content_type=EVENTS)


@pytest.mark.parametrize("kind", ["application/json", EVENTS])
async def test_an_answer_that_would_unfold_is_not_read(kind: str) -> None:
    with pytest.raises((httpx2.StreamError, httpx2.SSEError), match="compressed although no compression was requested"):
        await read([gzip.compress(b" " * 10_000_000)], content_type=kind, content_encoding="gzip")
