"""Results in several parts, or in several rounds."""

import pytest

from stellwerk.errors import ToolFailed
from stellwerk.spec.operator import McpServer
from tests.agents.mcp.conftest import RAW, Start
from tests.agents.mcp.shared import called


async def test_sounds_resources_and_links_all_come_through(start: Start) -> None:
    answer = await called(start(raw=McpServer(command=RAW)), "raw_parts")
    sound, file, note, link = answer.artifact["result"]["data"]["content"]
    assert (sound["filename"], sound["mime"], sound["size"]) == ("audio-1.wav", "audio/wav", 3)
    assert (file["filename"], file["mime"], file["size"]) == ("a.bin", "application/x-thing", 3)
    assert note == "a note"
    assert (link["type"], link["uri"]) == ("resource_link", "file:///tmp/b.txt")
    assert answer.artifact["notes"] == [f"document {sound['document_id']}: its content is not kept"] * 2


async def test_a_server_that_is_not_ready_is_asked_again_with_the_state_that_it_gave(start: Start) -> None:
    servers = start(raw=McpServer(command=[*RAW, "modern"]))
    assert (await called(servers, "raw_later")).content == "ready"


async def test_a_server_does_not_get_our_model(start: Start) -> None:
    servers = start(raw=McpServer(command=[*RAW, "modern"]))
    with pytest.raises(ToolFailed, match="'use_your_model' of the MCP server 'raw' requests sampling or roots"):
        await called(servers, "raw_use_your_model")
