"""Open WebUI and LibreChat: their requests as their sources make them, with the headers of docs/protocols."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx2
import pytest

from stellwerk.app import Parts
from tests.conftest import without_pauses

CHAT = str(UUID(int=7))
TOOL = {"type": "function", "function": {"name": "search_notes", "parameters": {"type": "object", "properties": {}}}}
"""Open WebUI has tools of its own, and sends them with each message."""
OPEN_WEBUI_TASKS = (
    *("title_generation", "follow_up_generation", "tags_generation", "emoji_generation", "query_generation"),
    *("image_prompt_generation", "autocomplete_generation", "function_calling", "moa_response_generation"),
)
"""``TASKS`` in its backend/open_webui/constants.py."""


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def http(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as made:
        yield made


async def sessions(http: httpx2.AsyncClient) -> set[str]:
    found = (await http.get("/sessions", params={"limit": 500})).json()["sessions"]
    return {each["id"] for each in found}


async def said(http: httpx2.AsyncClient, session_id: str) -> list[str]:
    messages = (await http.get(f"/sessions/{session_id}/messages")).json()["messages"]
    return [each["text"] for each in messages if each["role"] == "user"]


def open_webui(*messages: Any, stream: bool = True) -> dict[str, Any]:
    """It takes out ``metadata`` and what its filters add before it sends a request on."""
    about = {"stream": stream, "model": "demo", "stream_options": {"include_usage": True}}
    return {**about, "messages": list(messages), "tools": [TOOL]}


async def test_a_chat_of_open_webui_is_a_session_and_its_tasks_are_refused_and_not_kept(
    http: httpx2.AsyncClient,
) -> None:
    models = (await http.get("/v1/models", headers={"Content-Type": "application/json"})).json()["data"]
    assert "demo" in [model["id"] for model in models]
    turn = {"X-Session-Id": CHAT, "X-Stellwerk-Task": "", "X-Stellwerk-Tools": "ignore"}
    first = await http.post("/v1/chat/completions", json=open_webui({"role": "user", "content": "ask"}), headers=turn)
    assert first.headers["content-type"].startswith("text/event-stream")
    history = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "Which colour do you like?"}]
    body = open_webui(*history, {"role": "user", "content": "blue"})
    second = await http.post("/v1/chat/completions", json=body, headers=turn)
    assert "You answered: blue" in second.text
    assert second.headers["X-Session-Id"] == first.headers["X-Session-Id"]
    before = await sessions(http)
    prompt = {"role": "user", "content": "### Task:\nGenerate a concise, 3-5 word title with an emoji"}
    for task in OPEN_WEBUI_TASKS:
        headers = {**turn, "X-Stellwerk-Task": task}
        refused = await http.post("/v1/chat/completions", json=open_webui(prompt, stream=False), headers=headers)
        assert (refused.status_code, "task model" in refused.json()["error"]["message"]) == (422, True)
    assert await sessions(http) == before
    assert await said(http, first.headers["X-Session-Id"]) == ["ask", "blue"]


async def test_a_conversation_of_librechat_is_a_session(http: httpx2.AsyncClient) -> None:
    """By LangChain's client for JavaScript, with the headers of its ``librechat.yaml``."""
    headers = {"X-Session-Id": str(UUID(int=8)), "X-Stellwerk-Tools": "ignore", "X-Stainless-Lang": "js"}
    about = {
        "model": "demo",
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "66f0",
        "temperature": 1,
    }
    turns: list[dict[str, Any]] = []
    session = ""
    for text, answer in (("weather", "It is sunny."), ("table", "A table keeps its columns")):
        turns.append({"role": "user", "content": [{"type": "text", "text": text}]})
        got = await http.post("/v1/chat/completions", json={**about, "messages": turns}, headers=headers)
        assert answer in got.text
        assert got.text.endswith("data: [DONE]\n\n")
        turns.append({"role": "assistant", "content": answer})
        session = got.headers["X-Session-Id"]
    assert await said(http, session) == ["weather", "table"]
    listed = (await http.get("/v1/models")).json()
    assert (listed["object"], "demo" in [each["id"] for each in listed["data"]]) == ("list", True)
