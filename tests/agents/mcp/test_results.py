"""What comes back from the tools of MCP servers, the same over both transports."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage

from stellwerk.agents.mcp.servers import McpServers
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import ToolFailed
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.mcp.lab import PNG
from tests.agents.mcp.shared import called, tool_named

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.parametrize("server", ["pipe", "web"])]


def result(message: ToolMessage) -> dict[str, Any]:
    """What the log gets of a result."""
    assert message.artifact[ARTIFACT_KEY] == 1
    return dict(message.artifact["result"])


async def test_structured_content_becomes_a_table(servers: McpServers, server: str) -> None:
    answer = await called(servers, f"{server}_cities")
    assert result(answer) == {
        "kind": "table",
        "columns": ["name", "people"],
        "rows": [["Ulm", 129000], ["Bonn", 336000]],
    }
    assert str(answer.content).startswith("| name | people |")


async def test_a_text_stays_a_text(servers: McpServers, server: str) -> None:
    answer = await called(servers, f"{server}_say", text="Grüß Gott")
    assert result(answer) == {"kind": "text", "text": answer.content} == {"kind": "text", "text": "Grüß Gott"}


async def test_an_error_is_raised_with_the_words_of_the_server(servers: McpServers, server: str) -> None:
    with pytest.raises(ToolFailed, match=f"the tool 'save' of the MCP server '{server}' says: .*disk full"):
        await called(servers, f"{server}_save")


async def test_wrong_arguments_are_explained_by_the_server(servers: McpServers, server: str) -> None:
    with pytest.raises(ToolFailed, match="text"):
        await called(servers, f"{server}_say", wrong=1)


async def test_an_image_becomes_a_document_that_is_kept_before_it_is_named(servers: McpServers, server: str) -> None:
    kept: list[Blob] = []

    async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        kept.extend(blobs)
        return result

    alone = result(await called(servers, f"{server}_icon", keep=keep))
    with_words = result(await called(servers, f"{server}_picture", keep=keep))
    assert (alone["kind"], alone["mime"], alone["size"]) == ("file_ref", "image/png", len(PNG))
    assert with_words["data"]["content"][0] == "Here it is."
    assert with_words["data"]["content"][1]["document_id"] == alone["document_id"]
    assert [(blob.document_id, blob.data) for blob in kept] == [(alone["document_id"], PNG)] * 2


async def test_a_megabyte_becomes_a_document_with_a_preview(servers: McpServers, server: str) -> None:
    kept: list[Blob] = []

    async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        kept.extend(blobs)
        return result

    answer = await called(servers, f"{server}_big", size=1_000_000, keep=keep)
    assert result(answer)["kind"] == "file_ref"
    assert [len(blob.data) for blob in kept] == [1_000_000]
    assert len(answer.content) < 2000


async def test_a_session_is_held_so_the_server_remembers(servers: McpServers, server: str) -> None:
    first = result(await called(servers, f"{server}_visit", guest="ann"))["data"]["result"]
    second = result(await called(servers, f"{server}_visit", guest="bob"))["data"]["result"]
    assert second == [*first, "bob"], "the same process, with the memory of the first call"


async def test_an_odd_name_is_cleaned_and_still_reaches_its_tool(servers: McpServers, server: str) -> None:
    assert (await called(servers, f"{server}_get_thing_v1")).content == "thing"


async def test_arguments_may_have_the_names_that_langchain_fills_in_itself(servers: McpServers, server: str) -> None:
    given = {"config": "a", "runtime": "b", "run_manager": "c", "self": "d"}
    assert result(await called(servers, f"{server}_echo", **given))["data"] == {"result": ["a", "b", "c", "d"]}


async def test_the_schema_and_the_hints_are_those_of_the_server(servers: McpServers, server: str) -> None:
    say, cities, save = [await tool_named(servers, f"{server}_{name}") for name in ("say", "cities", "save")]
    assert say.description == "Say a text."
    assert say.args == {"text": {"title": "Text", "type": "string"}}
    doubt = {} if server == "web" else {"untrusted": True}
    assert say.metadata == {"stellwerk": {"idempotent": False, "effects": "external", **doubt}}, (
        "the worst, if nothing is said"
    )
    assert cities.metadata == {"stellwerk": {"idempotent": True, "effects": "read", **doubt}}
    assert save.metadata == {"stellwerk": {"idempotent": True, "effects": "write", **doubt}}


async def test_progress_is_written_to_the_graphs_stream_with_the_id_of_its_call(
    servers: McpServers, server: str
) -> None:
    steps = [ScriptStep(call=f"{server}_climb"), ScriptStep(say="done")]
    graph: Any = create_agent(
        ScriptedModel(script=[ScriptRule(steps=steps)]), [await tool_named(servers, f"{server}_climb")]
    )
    asked = {"messages": [("user", "climb")]}
    parts = [part async for part in graph.astream(asked, stream_mode=["custom", "updates"])]
    told = [data for mode, data in parts if mode == "custom"]
    (answer,) = [data["tools"]["messages"][0] for mode, data in parts if mode == "updates" and "tools" in data]
    assert answer.content == "up"
    assert told == [
        {"progress": 1.0, "total": 2.0, "message": "step 1", "tool_call_id": answer.tool_call_id},
        {"progress": 2.0, "total": 2.0, "message": "step 2", "tool_call_id": answer.tool_call_id},
    ]
