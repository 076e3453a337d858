"""Bad input gets a clear answer and changes nothing."""

import asyncio
from typing import Any

import httpx2
import pytest
from starlette.requests import Request as Asked
from starlette.types import Message, Receive, Scope, Send
from structlog.testing import capture_logs

from stellwerk.api.http.problems import UnexpectedErrors
from stellwerk.api.http.response_start import ResponseStartMiddleware

Request = dict[str, Any]
JSON = {"Content-Type": "application/json"}

REFUSED: dict[str, tuple[str, str, Request, int, str, str]] = {
    "unknown session": ("GET", "/sessions/nobody", {}, 404, "unknown_session", "POST /sessions"),
    "unknown session's stream": ("GET", "/sessions/nobody/stream", {}, 404, "unknown_session", "nobody"),
    "unknown session's events": ("GET", "/sessions/nobody/events", {}, 404, "unknown_session", "nobody"),
    "message to an unknown session": (
        "POST",
        "/sessions/nobody/messages",
        {"json": {"text": "x"}},
        404,
        "unknown_session",
        "",
    ),
    "unknown system": ("POST", "/sessions", {"json": {"agent_system_id": "x"}}, 404, "unknown_agent_system", "demo"),
    "malformed JSON": ("POST", "/sessions", {"content": b'{"agent', "headers": JSON}, 400, "malformed_json", "body"),
    "JSON broken in the middle": (
        "POST",
        "/sessions",
        {"content": b'{"agent_system_id": demo}', "headers": JSON},
        400,
        "malformed_json",
        "Expecting value at character 21",
    ),
    "no body": ("POST", "/sessions", {"headers": JSON}, 422, "invalid_field", "send a JSON object"),
    "no messages": ("POST", "/stream-test", {"json": {"messages": []}}, 422, "invalid_field", "must not be empty"),
    "no WebSocket": ("GET", "/sessions/SID/ws", {}, 426, "websocket_only", "hand on the upgrade"),
    "no JSON object": ("POST", "/sessions", {"json": [1]}, 422, "invalid_field", "body"),
    "no content type": ("POST", "/sessions", {"content": b'{"agent_system_id":"demo"}'}, 422, "invalid_field", "body"),
    "missing field": ("POST", "/sessions", {"json": {}}, 422, "invalid_field", "agent_system_id"),
    "unknown field": (
        "POST",
        "/sessions",
        {"json": {"agent_system_id": "demo", "colour": 1}},
        422,
        "invalid_field",
        "colour",
    ),
    "empty text": ("POST", "/sessions/SID/messages", {"json": {"text": ""}}, 422, "invalid_field", "text"),
    "blank text": ("POST", "/sessions/SID/messages", {"json": {"text": " \n"}}, 422, "invalid_field", "text"),
    "text of another type": ("POST", "/sessions/SID/messages", {"json": {"text": 5}}, 422, "invalid_field", "text"),
    "text too long": (
        "POST",
        "/sessions/SID/messages",
        {"json": {"text": "x" * 300_000}},
        422,
        "invalid_field",
        "text",
    ),
    "2 MiB of text": ("POST", "/sessions/SID/messages", {"json": {"text": "x" * 2**21}}, 413, "too_large", "text"),
    "10^5 brackets": ("POST", "/sessions", {"content": b"[" * 10**5, "headers": JSON}, 400, "malformed_json", "body"),
    "half a character": (
        "POST",
        "/sessions/SID/messages",
        {"content": b'{"text":"\\ud800"}', "headers": JSON},
        422,
        "invalid_field",
        "text",
    ),
    "no such path": ("GET", "/nothing", {}, 404, "unknown_path", "/nothing"),
    "no such method": ("PUT", "/sessions", {}, 405, "method_not_allowed", "Method"),
    "unknown parameter": ("GET", "/sessions?agent_sytem=x", {}, 422, "invalid_field", "known: before, limit, wait"),
    "a slip in a parameter": (
        "GET",
        "/sessions/SID/events?afters=3",
        {},
        422,
        "invalid_field",
        "did you mean 'after'?",
    ),
    "unknown parameter of a stream": ("GET", "/sessions/SID/stream?form=x", {}, 422, "invalid_field", "until, dialect"),
    "parameter where there is none": ("GET", "/sessions/SID?sid=x", {}, 422, "invalid_field", "known: none"),
    "limit too high": ("GET", "/sessions/SID/events?limit=9999", {}, 422, "invalid_field", "limit"),
}


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


@pytest.mark.requirement("004.sessions.system-required")
@pytest.mark.parametrize("method, path, request_, status, code, names", REFUSED.values(), ids=REFUSED.keys())
async def test_a_bad_request_is_answered_with_the_reason_and_changes_nothing(
    client: httpx2.AsyncClient, sid: str, method: str, path: str, request_: Request, status: int, code: str, names: str
) -> None:
    before = (await client.get("/sessions")).json()
    answer = await client.request(method, path.replace("SID", sid), **request_)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert names in problem["detail"]
    assert (await client.get("/sessions")).json() == before


@pytest.mark.requirement("004.messages.text-required")
@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": " \n\t"}, {"text": None}, {"text": 7}, {"documents": []}], ids=str
)
async def test_a_message_without_text_is_rejected(client: httpx2.AsyncClient, sid: str, body: dict[str, Any]) -> None:
    answer = await client.post(f"/sessions/{sid}/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_field"), answer.json()
    assert "text" in answer.json()["detail"]
    assert (await client.get(f"/sessions/{sid}")).json()["position"] == 0


async def test_a_body_that_does_not_say_how_long_it_is_is_measured(client: httpx2.AsyncClient, sid: str) -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b"x" * 65536

    answer = await client.post(f"/sessions/{sid}/messages", content=endless(), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

    async def pieces() -> Any:
        for piece in (b'{"text":', b'"hello"}'):
            yield piece

    accepted = await client.post(f"/sessions/{sid}/messages", content=pieces(), headers=JSON)
    assert accepted.status_code == 202
    await client.get(f"/sessions/{sid}/stream?until=run_end")  # others look whether anything changes


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/sessions"),
        ("DELETE", "/files/x"),
        ("POST", "/sessions/SID/regenerate"),
        ("GET", "/sessions/SID/stream"),
    ],
)
async def test_a_body_that_no_route_reads_is_measured_too(address: str, sid: str, method: str, path: str) -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b"x" * 65536

    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:  # the API description has no body here
        answer = await client.request(method, path.replace("SID", sid), content=endless())
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize("garbage", ["abc", "-1", "1e3", "1 2", "9" * 17, "x" * 5000, "1.2.3"])
@pytest.mark.requirement("fault-08")
async def test_a_cursor_that_is_no_position_is_refused(client: httpx2.AsyncClient, sid: str, garbage: str) -> None:
    by_header = await client.get(f"/sessions/{sid}/stream", headers={"Last-Event-ID": garbage})
    by_query = await client.get(f"/sessions/{sid}/events", params={"after": garbage})
    by_polyfill = await client.get(f"/sessions/{sid}/stream", params={"lastEventId": garbage})
    for answer in (by_header, by_query, by_polyfill):
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.test"},
        {"Host": "127.0.0.1.evil.test"},
        {"Host": "[bad"},
        {"Host": "evil.test@localhost"},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
    ],
    ids=lambda h: next(iter(h.values())),
)
async def test_a_page_or_host_of_others_may_not_use_the_server(
    client: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.get("/sessions", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "refused")


async def test_a_page_of_our_own_may(client: httpx2.AsyncClient, address: str) -> None:
    assert (await client.get("/sessions", headers={"Origin": address})).status_code == 200
    assert (
        await client.get("/sessions", headers={"Host": "localhost:9", "Origin": "http://localhost:9"})
    ).status_code == 200


async def test_a_form_of_another_page_cannot_post(client: httpx2.AsyncClient) -> None:
    before = (await client.get("/sessions")).json()
    answer = await client.post(
        "/sessions", content=b'{"agent_system_id":"demo"}', headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 422
    assert (await client.get("/sessions")).json() == before


async def test_health_and_readiness_are_reported(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_the_documentation_page_needs_no_other_host(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/docs")).text
    assert "://" not in page.replace("http://www.w3.org", "")
    assert (await client.get("/openapi.json")).json()["info"]["title"] == "Stellwerk"


async def test_a_client_that_disconnects_during_an_upload_is_not_logged_as_an_error() -> None:
    async def uploaded(scope: Scope, receive: Receive, send: Send) -> None:
        await Asked(scope, receive).form()

    async def left() -> Message:
        return {"type": "http.disconnect"}

    async def unheard(message: Message) -> None:
        raise AssertionError(f"the client is gone, and got {message}")

    form = [(b"content-type", b"multipart/form-data; boundary=b")]
    with capture_logs() as logged:
        app = ResponseStartMiddleware(UnexpectedErrors(uploaded))
        await app({"type": "http", "path": "/files", "headers": form}, left, unheard)
    assert [(line["event"], line["log_level"], line["path"]) for line in logged] == [("client_left", "info", "/files")]


async def test_a_request_that_a_shutdown_cuts_off_is_answered_with_503_and_when_to_come_back() -> None:
    begun = asyncio.Event()

    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def received() -> Message:
        return {"type": "http.request"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    app = ResponseStartMiddleware(UnexpectedErrors(hanging))
    task = asyncio.create_task(app({"type": "http", "path": "/files", "headers": []}, received, send))
    await begun.wait()
    task.cancel()
    await task
    assert sent[0]["status"] == 503
    assert b"retry-after" in dict(sent[0]["headers"])
    assert b'"code":"storage_gone"' in sent[1]["body"]
