"""Servers at an address that fail: dead, silent, forgetful, or without measure."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from stellwerk.errors import ToolFailed
from stellwerk.spec.operator import McpServer
from tests.agents.mcp import raw
from tests.agents.mcp.conftest import Start, serving_http
from tests.agents.mcp.shared import called, tool_named


class OldServer(BaseHTTPRequestHandler):
    """A server of an older revision: it answers in one piece, and knows its sessions by a number."""

    session: ClassVar[int] = 1
    headers_seen: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message["method"]
        self.headers_seen.append(self.headers["authorization"])
        if method == "server/discover" or self.headers.get("mcp-session-id", str(self.session)) != str(self.session):
            self.reply(404, b"")
        elif method.startswith("notifications/"):
            self.reply(202, b"")
        else:
            result = raw.answer(method, message.get("params") or {})
            self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_GET(self) -> None:
        self.reply(405, b"")

    def do_DELETE(self) -> None:
        self.reply(200, b"")

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.send_header("mcp-session-id", str(self.session))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The tests say enough."""


@pytest.fixture
def old_address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), OldServer) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()
        thread.join()


async def test_a_server_that_dies_is_found_again_when_it_is_back(start: Start) -> None:
    with serving_http() as (address, process):
        servers = start(retry_delay=0, web=McpServer(url=address))
        say, die = [await tool_named(servers, f"web_{name}") for name in ("say", "die")]
        with pytest.raises(ToolFailed, match="'die' of the MCP server 'web' failed: "):
            await die.ainvoke({})
        await asyncio.to_thread(process.wait, 20)
        with pytest.raises(ToolFailed, match="the tool 'say' cannot be called: the MCP server 'web' cannot be reached"):
            await say.ainvoke({"text": "anybody?"})
    with serving_http(int(address.rpartition(":")[2].removesuffix("/mcp"))):
        assert await say.ainvoke({"text": "back"}) == "back"


async def test_a_server_that_never_answers_costs_one_call(start: Start, lab_address: str) -> None:
    servers = start(web=McpServer(url=lab_address, timeout=2))
    with pytest.raises(ToolFailed, match="'ponder' of the MCP server 'web' did not answer within 2 seconds"):
        await called(servers, "web_ponder")
    assert (await called(servers, "web_say", text="next")).content == "next"


async def test_a_server_that_forgot_the_session_gets_a_new_one_at_the_next_call(
    start: Start, old_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = start(old=McpServer(url=old_address))
    hello = await tool_named(servers, "old_hello")
    monkeypatch.setattr(OldServer, "session", 2)
    with pytest.raises(ToolFailed, match="'hello' of the MCP server 'old' failed: "):
        await hello.ainvoke({})
    assert await hello.ainvoke({})


async def test_an_answer_beyond_all_bounds_costs_its_call(start: Start, old_address: str) -> None:
    servers = start(old=McpServer(url=old_address))
    with pytest.raises(ToolFailed, match="'long_line' of the MCP server 'old' failed: .* longer than 4194304 bytes"):
        await called(servers, "old_long_line")
    assert (await called(servers, "old_hello")).content


async def test_the_headers_of_the_operator_go_with_every_request(
    start: Start, old_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OldServer, "headers_seen", [])
    servers = start(old=McpServer(url=old_address, headers={"Authorization": "Bearer abc"}))
    await called(servers, "old_hello")
    assert set(OldServer.headers_seen) == {"Bearer abc"}
