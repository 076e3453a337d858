"""The demo system: everything can be tried without a key, by words in the message."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.demo import demo_yaml
from stellwerk.envelope.model import decode
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.conftest import running_server

Told = list[dict[str, Any]]


@pytest.fixture
async def shared(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        yield client


async def said(client: httpx2.AsyncClient, text: str) -> Told:
    """One round with the demo: all that is told of it."""
    sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    await client.post(f"/sessions/{sid}/messages", json={"text": text})
    whole = await client.get(
        f"/sessions/{sid}/stream?until=run_end&profile=debug", headers={"accept": "application/x-ndjson"}
    )
    told = [json.loads(line) for line in whole.text.splitlines()]
    spliced = ("position", "origin", "session_id")
    plain = [{key: value for key, value in one.items() if key not in spliced} for one in told]
    assert order_problems([decode(json.dumps(one).encode()) for one in plain]) == []
    return told


def of(told: Told, kind: str) -> list[dict[str, Any]]:
    return [one["payload"] for one in told if one["type"] == kind]


def end(told: Told) -> dict[str, Any]:
    (payload,) = of(told, "run_end")
    return dict(payload)


async def test_any_text_is_answered_in_several_tokens(shared: httpx2.AsyncClient) -> None:
    told = await said(shared, "Good morning")
    assert "Good morning" in end(told)["result"]
    assert len(of(told, "llm_token")) > 1


@pytest.mark.parametrize("word, tool, kind", [("weather", "get_weather", "table"), ("table", "make_table", "table")])
async def test_words_that_call_a_tool(shared: httpx2.AsyncClient, word: str, tool: str, kind: str) -> None:
    told = await said(shared, f"Show me the {word}, please")
    (result,) = [done["result"] for done in of(told, "tool_end")]
    assert ([done["tool_name"] for done in of(told, "tool_end")], result["kind"]) == ([tool], kind)


async def test_file_stores_a_document(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    told = await said(client, "a file")
    (document,) = of(told, "document")
    stored = [path for path in (tmp_path / "data/documents").rglob("*") if path.is_file()]
    assert [path.name for path in stored] == [document["document_id"]]
    assert b"You said: a file" in stored[0].read_bytes()


@pytest.mark.requirement("004.answers.waiting-is-persisted")
async def test_ask_waits_for_the_user_also_over_a_restart(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=20) as client:
        told = await said(client, "ask me")
        assert end(told)["status"] == "awaiting_user"
        (asked,) = of(told, "ask_user")
        assert (asked["options"], asked["default"]) == (["red", "green", "blue"], "green")
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=20) as client:
        session = (await client.get(f"/sessions/{told[0]['session_id']}")).json()
        assert (session["status"], session["awaiting_user_input"]) == ("running", True)


async def test_delegate_hands_work_to_a_sub_agent_that_calls_tools_itself(shared: httpx2.AsyncClient) -> None:
    told = await said(shared, "delegate this")
    starts = {one["payload"]["tool_name"]: one for one in told if one["type"] == "tool_start"}
    researcher = starts.pop("researcher")
    assert researcher["payload"]["kind"] == "agent"
    assert set(starts) == {"current_time", "count_words", "research_done"}
    assert {one["parent_id"] for one in starts.values()} == {researcher["call_id"]}


async def test_plan_keeps_a_checklist(shared: httpx2.AsyncClient) -> None:
    told = await said(shared, "plan it")
    versions = [(state["name"], state["version"]) for state in of(told, "state")]
    assert versions == [("checklist", 1), ("checklist", 2), ("checklist", 3)]
    assert {task["status"] for task in of(told, "state")[-1]["snapshot"]["tasks"]} == {"completed"}


async def test_fail_fails_with_a_message(shared: httpx2.AsyncClient) -> None:
    told = await said(shared, "fail now")
    assert (end(told)["status"], end(told)["reason"]) == ("failed", "the script of the demo says that this run fails")


async def test_slow_begins_with_a_tool_that_tells_its_progress(shared: httpx2.AsyncClient) -> None:
    sid = (await shared.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    await shared.post(f"/sessions/{sid}/messages", json={"text": "slow"})
    async with shared.stream("GET", f"/sessions/{sid}/stream", headers={"accept": "application/x-ndjson"}) as lines:
        async for line in lines.aiter_lines():
            if json.loads(line)["type"] == "tool_update":
                break
    assert (await shared.delete(f"/sessions/{sid}")).status_code == 204


async def test_deleting_a_session_deletes_its_documents(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    told = await said(client, "a file")
    assert (await client.delete(f"/sessions/{told[0]['session_id']}")).status_code == 204
    assert not [path for path in (tmp_path / "data/documents").rglob("*") if path.is_file()]


def test_every_word_that_the_demo_knows_is_named_in_its_answer_to_anything_else() -> None:
    for word in ("weather", "table", "file", "ask", "delegate", "plan", "slow", "fail"):
        assert f"when: {word}" in demo_yaml()
        assert word in demo_yaml().rsplit("Say ", 1)[1]
