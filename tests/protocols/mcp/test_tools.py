"""MCP's own Python client calls agent systems as tools, in both eras of the protocol."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import server_beside, without_pauses
from tests.protocols.ai_sdk.conftest import CHATS
from tests.protocols.mcp.hosts import Mode, accepted, host_of, session_of, text_of

BOTH = pytest.mark.parametrize("mode", ["auto", "legacy"])


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the demo, and the system of chats.yaml."""
    settings = Settings(data=tmp_path_factory.mktemp("shared") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as found:
        yield found


@BOTH
async def test_agent_systems_are_tools_and_answer_with_their_usage(shared_address: str, mode: Mode) -> None:
    async with host_of(shared_address, mode) as host:
        tools = {tool.name: tool for tool in (await host.client.list_tools()).tools}
        assert tools["demo"].description
        assert tools["demo"].input_schema["required"] == ["message"]
        result = await host.say("How is the weather?")
        assert "It is sunny." in text_of(result)
        assert result.structured_content["usage"][0]["output_tokens"] > 0
        again = await host.say("table", session_of(result))
    assert host.progress[:3] == [f"session {session_of(result)}", "get_weather", "get_weather: ok"]
    assert session_of(again) == session_of(result)
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        messages = (await native.get(f"/sessions/{session_of(result)}/messages")).json()["messages"]
    assert [each["text"] for each in messages if each["role"] == "user"] == ["How is the weather?", "table"]


@BOTH
async def test_a_question_is_a_form_and_its_answer_continues_the_run(shared_address: str, mode: Mode) -> None:
    async with host_of(shared_address, mode, answer=accepted(answer="blue")) as host:
        result = await host.say("ask")
    assert "You answered: blue" in text_of(result)
    ((form,),) = [host.asked]
    assert "colour" in form.message
    assert form.requested_schema["properties"]["answer"]["enum"] == ["red", "green", "blue"]


@BOTH
@pytest.mark.parametrize(
    ("given", "written"),
    [
        ({"decision": "approve"}, "five"),
        ({"decision": "edit", "detail": '{"title": "Bill", "text": "seven"}'}, "seven"),
        ({"decision": "reject", "detail": "too dear"}, None),
    ],
)
async def test_a_call_of_a_tool_is_approved_changed_or_refused_in_a_form(
    shared_address: str, mode: Mode, given: dict[str, str], written: str | None
) -> None:
    async with host_of(shared_address, mode, answer=accepted(**given)) as host:
        result = await host.say("pay", tool="chats")
    ((form,),) = [host.asked]
    assert "write_report(" in form.message
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        whole = {"profile": "debug", "limit": "500"}
        log = (await native.get(f"/sessions/{session_of(result)}/events", params=whole)).json()["events"]
    args = {each["call_id"]: each["payload"]["args"] for each in log if each["type"] == "tool_start"}
    ended = [each for each in log if each["type"] == "tool_end" and each["payload"]["status"] == "ok"]
    assert [args[each["call_id"]]["text"] for each in ended] == ([] if written is None else [written])


@BOTH
async def test_a_message_to_a_busy_session_waits_for_its_turn(shared_address: str, mode: Mode) -> None:
    async with host_of(shared_address, mode) as host, host_of(shared_address, mode) as second:
        first = asyncio.create_task(host.say("pause", f"busy {mode}", tool="chats"))
        await host.until("wait_a_while")
        waited = await second.say("next", f"busy {mode}", tool="chats")
        assert (text_of(await first), text_of(waited)) == ("That was it.", "You said: next")


async def test_a_sub_agent_is_told_as_progress(shared_address: str) -> None:
    async with host_of(shared_address) as host:
        assert "The researcher says:" in text_of(await host.say("delegate"))
    assert {"researcher", "current_time", "researcher: ok"} <= set(host.progress)


@BOTH
async def test_a_question_is_text_for_a_client_without_forms(shared_address: str, mode: Mode) -> None:
    async with host_of(shared_address, mode) as host:
        asked = await host.say("ask")
        assert "Which colour do you like?" in text_of(asked)
        assert asked.structured_content["questions"][0]["options"] == ["red", "green", "blue"]
        wrong = await host.say("purple", session_of(asked))
        assert wrong.is_error
        assert "choose one of: red, green, blue" in text_of(wrong)
        assert "You answered: red" in text_of(await host.say("red", session_of(asked)))


async def test_a_form_that_was_closed_leaves_the_question_open_and_one_that_was_declined_does_not(
    shared_address: str,
) -> None:
    async with host_of(shared_address, answer=lambda _: types.ElicitResult(action="cancel")) as host:
        left = await host.say("ask")
        assert left.structured_content["questions"]
        assert "You answered: red" in text_of(await host.say("red", session_of(left)))
    async with host_of(shared_address, answer=lambda _: types.ElicitResult(action="decline")) as host:
        declined = await host.say("ask")
    assert "questions" not in declined.structured_content


async def test_a_file_is_a_link_and_a_document(shared_address: str) -> None:
    async with host_of(shared_address) as host:
        result = await host.say("file")
    (link,) = [part for part in result.content if isinstance(part, types.ResourceLink)]
    (document,) = result.structured_content["documents"]
    assert (document["name"], document["url"], document["size"]) == (link.name, link.uri, link.size)
    async with httpx2.AsyncClient() as native:
        assert len((await native.get(link.uri)).content) == link.size


@BOTH
async def test_failures_are_results_with_an_error(shared_address: str, mode: Mode) -> None:
    async with host_of(shared_address, mode) as host:
        failed = await host.say("fail")
        assert failed.is_error
        assert session_of(failed)
        for arguments in ({}, {"message": 7}, {"message": " "}, {"message": "hi", "session_id": "\n"}):
            refused = await host.client.call_tool("demo", arguments)
            assert refused.is_error
            assert "session_id" not in refused.structured_content
        with pytest.raises(MCPError, match="there is no tool 'nowhere'"):
            await host.client.call_tool("nowhere", {"message": "hi"})


async def test_an_empty_message_returns_the_last_answer_and_sends_nothing(shared_address: str) -> None:
    async with host_of(shared_address) as host:
        first = await host.say("How is the weather?")
        again = await host.say("", session_of(first))
        unknown = await host.say("", "nowhere")
    assert text_of(again) == text_of(first)
    assert unknown.is_error


async def test_a_session_under_an_id_of_the_client(shared_address: str) -> None:
    async with host_of(shared_address) as host:
        first = await host.say("How is the weather?", "chat 12")
        second = await host.say("table", "chat 12")
    assert session_of(first) == session_of(second) != "chat 12"


async def test_bad_bodies_are_errors_in_the_form_of_the_protocol(shared_address: str) -> None:
    accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    bodies: list[tuple[bytes, dict[str, str]]] = [
        (b"{", {}),
        (b"[]", {}),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {"MCP-Protocol-Version": "2026-07-28"}),
        (b"{", {"MCP-Protocol-Version": "2026-07-28"}),
        (b'{"x": "' + b"y" * 17 * 1024 * 1024 + b'"}', {}),
    ]
    async with httpx2.AsyncClient(base_url=shared_address, headers=accepts, timeout=60) as client:
        for body, headers in bodies:
            response = await client.post("/mcp", content=body, headers=headers)
            error: dict[str, Any] = response.json()["error"]
            assert 400 <= response.status_code < 500
            assert error["code"] < 0
        assert (await client.put("/mcp")).json()["error"]["data"] == {"code": "method_not_allowed"}
