"""Front ends of another origin, in a browser: pages that the operator named read streams with a key."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import server_beside, without_pauses

FETCH = """async ([path, key, body, headers, shown]) => {
    const sent = {"Content-Type": "application/json", "X-Api-Key": key, ...headers};
    const answer = await fetch(path, {method: "POST", headers: sent, body: JSON.stringify(body)});
    let text = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
        text += read.value;
    }
    return {status: answer.status, text, header: shown && answer.headers.get(shown)};
}"""


class Asked(NamedTuple):
    """A request of a front end, and the header that it must be able to read."""

    path: str
    body: dict[str, Any]
    shown: str
    expected: str
    headers: dict[str, str] = {}


AI_SDK = {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "weather"}]}]}
OPENAI = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "weather"}]}
LANGGRAPH = {
    "assistant_id": "demo",
    "if_not_exists": "create",
    "input": {"messages": [{"type": "human", "content": "weather"}]},
}
AG_UI = {"threadId": "chat-4", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "weather"}]}
A2A = {"role": "ROLE_USER", "messageId": "m1", "contextId": "chat-6", "parts": [{"text": "weather"}]}
MCP_VERSION = "2025-11-25"
STAINLESS = {"X-Stainless-Lang": "js", "X-Stainless-Retry-Count": "0", "OpenAI-Organization": "none"}
REQUESTS = {
    "ai-sdk": Asked("/ai-sdk/demo/chat", AI_SDK, "x-vercel-ai-ui-message-stream", "v1"),
    "openai": Asked("/v1/chat/completions", OPENAI, "X-Session-Id", "0", {"X-Session-Id": "chat-2", **STAINLESS}),
    "ag-ui": Asked("/ag-ui/demo", AG_UI, "content-type", "text/event-stream"),
    "copilotkit": Asked("/copilotkit/agent/demo/run", {**AG_UI, "threadId": "chat-5"}, "content-type", "text/event-"),
    "a2a": Asked(
        "/a2a/demo/",
        {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": A2A}},
        "content-type",
        "text/event-stream",
        {"A2A-Version": "1.0"},
    ),
    "langgraph": Asked("/langgraph/threads/chat-3/runs/stream", LANGGRAPH, "Content-Location", "/threads/chat-3/runs/"),
}


class Page(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def origin(folder: Path) -> Iterator[str]:
    """A web server that has a page and nothing else."""
    (folder / "index.html").write_text("<!doctype html><title>A front end</title>", "utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Page, directory=folder)) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Places(NamedTuple):
    server: str
    key: str
    friend: str
    stranger: str


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    data = tmp_path_factory.mktemp("visited")
    key = asyncio.run(keyed.before_the_start(data))["Authorization"].removeprefix("Bearer ")
    with origin(tmp_path_factory.mktemp("friend")) as friend, origin(tmp_path_factory.mktemp("stranger")) as stranger:
        settings = Settings(data=data, origins=friend, demo=True)
        with server_beside(settings, parts=Parts(demo_systems=without_pauses)) as server:
            yield Places(server, key, friend, stranger)


async def fetched(browser: Any, page_at: str, places: Places, asked: Asked, key: str) -> Any:
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(page_at)
        given = [places.server + asked.path, key, asked.body, asked.headers, asked.shown]
        return await page.evaluate(FETCH, given)
    finally:
        await context.close()


@pytest.mark.parametrize("protocol", REQUESTS)
async def test_a_page_that_the_operator_named_reads_a_stream_and_its_headers_with_its_key(
    browser: Any, places: Places, protocol: str
) -> None:
    asked = REQUESTS[protocol]
    answer = await fetched(browser, places.friend, places, asked, places.key)
    assert answer["status"] == 200, answer
    assert "sunny" in answer["text"]
    assert (answer["header"] or "").startswith(asked.expected), answer["header"]
    refused = await fetched(browser, places.friend, places, asked, "sw_wrong")
    assert refused["status"] == 401, "the page can read why it was refused"
    assert "key" in refused["text"]


async def test_a_page_that_the_operator_named_has_a_session_of_mcp(browser: Any, places: Places) -> None:
    hello = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MCP_VERSION}
    begun = await fetched(
        browser, places.friend, places, Asked("/mcp", begin, "Mcp-Session-Id", "", accept), places.key
    )
    assert begun["header"], begun
    call = {"name": "demo", "arguments": {"message": "weather"}}
    asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
    headers = {**accept, "Mcp-Session-Id": begun["header"]}
    called = await fetched(browser, places.friend, places, Asked("/mcp", asked, "", "", headers), places.key)
    assert "sunny" in called["text"], called


@pytest.mark.parametrize("protocol", REQUESTS)
async def test_a_page_of_another_origin_sends_nothing_and_reads_nothing(
    browser: Any, places: Places, protocol: str
) -> None:
    with pytest.raises(Exception, match="Failed to fetch"):
        await fetched(browser, places.stranger, places, REQUESTS[protocol], places.key)
