"""What pages in a browser may do: those of others nothing, those that the operator named everything."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from stellwerk import create_app
from stellwerk.settings import Settings
from tests import keyed
from tests.api.documented import examples, operations
from tests.conftest import server_beside

FRIEND = "https://app.example.org"
JSON = {"Content-Type": "application/json"}
BEGIN = {"agent_system_id": "demo"}
FOREIGN = ("https://evil.test", "http://app.example.org", f"{FRIEND}.evil.test", f"{FRIEND}:444", "*", "")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A server that one page of another origin may use, and what it is shown."""
    data = tmp_path_factory.mktemp("visited")
    key = asyncio.run(keyed.before_the_start(data))
    with server_beside(Settings(data=data, origins=f"{FRIEND}, https://b.example")) as found:
        yield found, key


@pytest.fixture
async def client(server: tuple[str, dict[str, str]]) -> AsyncIterator[httpx2.AsyncClient]:
    """What is asked here is not in the published document: OPTIONS, for example."""
    address, key = server
    async with httpx2.AsyncClient(base_url=address, timeout=60, headers=key) as made:
        yield made


async def test_a_page_of_others_can_do_nothing_on_any_route(
    client: httpx2.AsyncClient, published: dict[str, Any]
) -> None:
    before = (await client.get("/sessions")).json()
    every = [("null", method, path) for method, path, _ in operations(published)]
    some = [(origin, method, "/sessions") for origin in FOREIGN for method in ("GET", "POST", "OPTIONS")]
    for origin, method, path in (*every, *some, ("null", "GET", "/docs")):
        asks = {"Origin": origin, "Access-Control-Request-Method": method}
        refused = await client.request(method, path, headers=asks)
        assert (refused.status_code, refused.json()["code"]) == (403, "refused"), (method, path)
        assert not [name for name in refused.headers if name.startswith("access-control")]
    assert (await client.get("/sessions")).json() == before


async def test_what_a_form_can_send_is_taken_by_no_route(client: httpx2.AsyncClient, published: dict[str, Any]) -> None:
    """A form needs no permission of ours to send these kinds; so without an Origin they must do nothing, either."""
    before = (await client.get("/sessions")).json()
    for method, path, described in operations(published):
        media = described.get("requestBody", {}).get("content", {}).get("application/json")
        if method == "POST" and media and described["requestBody"].get("required"):
            body = json.dumps(next(iter(examples(media).values())))
            for kind in ("text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"):
                answer = await client.post(path, content=body, headers={"Content-Type": kind})
                assert answer.status_code in (400, 404, 415, 422), (path, kind)
    assert (await client.get("/sessions")).json() == before


async def test_a_page_that_the_operator_named_may_use_everything_and_read_it(client: httpx2.AsyncClient) -> None:
    page = {"Origin": FRIEND}
    wanted = {"Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "authorization"}
    asked = await client.options("/sessions/x", headers={**page, **wanted})
    assert asked.status_code == 204
    allowed = asked.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "last-event-id", "idempotency-key", "if-none-match", "content-type"} <= set(allowed)
    assert {"x-api-key", "x-auth-scheme", "x-session-id", "mcp-session-id", "a2a-version", "user-agent"} <= set(allowed)
    assert {"x-stainless-lang", "x-stainless-retry-count", "openai-organization"} <= set(allowed)
    assert "DELETE" in asked.headers["access-control-allow-methods"]
    begun = await client.post("/sessions", json=BEGIN, headers=page)
    sid = begun.json()["id"]
    missing = await client.get("/sessions/nobody", headers=page)
    large = await client.post("/sessions", content=b"x" * 2**21, headers={**page, **JSON})
    async with client.stream("GET", f"/sessions/{sid}/stream", headers=page) as stream:
        for answer, status in ((asked, 204), (begun, 201), (missing, 404), (large, 413), (stream, 200)):
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == FRIEND
            assert "origin" in answer.headers["vary"].lower()
            assert "access-control-allow-credentials" not in answer.headers
            read = answer.headers["access-control-expose-headers"].split(", ")
            assert {"Location", "Content-Location", "X-Pagination-Total", "Mcp-Session-Id"} <= set(read)
    assert "access-control-allow-origin" not in (await client.get("/sessions")).headers


async def test_every_response_has_security_headers(client: httpx2.AsyncClient, sid: str) -> None:
    file = (await client.post("/files", files={"file": ("a.html", b"<script>alert(1)</script>")})).json()
    paths = ("/sessions", f"/sessions/{sid}", "/nothing", "/healthz", "/openapi.json", f"/files/{file['id']}", "/docs")
    for path in (*paths, f"/sessions/{sid}/artifacts/todolist.md", "/static-offline-docs/swagger-ui.css"):
        headers = (await client.get(path)).headers
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY"), path
        assert headers["referrer-policy"] == "no-referrer"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] in ("no-store", "private, no-cache")
        assert "server" not in headers
    page = await client.get("/docs")
    script = page.headers["content-security-policy"].split("script-src ")[1].split(";")[0]
    assert script.startswith("'self' 'sha256-")
    assert "unsafe" not in script


async def test_a_page_that_a_host_adds_has_its_own_policy_and_our_answers_keep_theirs(
    tmp_path: Path, published: dict[str, Any]
) -> None:
    (tmp_path / "index.html").write_text("<script>1</script>", "utf-8")
    app = create_app(Settings(data=tmp_path / "data"))
    strict, router = {"Content-Security-Policy": "default-src 'self'"}, APIRouter()
    router.add_api_route("/router", lambda: HTMLResponse("one of a router"))
    app.include_router(router)
    app.add_api_route("/page", lambda: HTMLResponse("one of the app"))
    app.add_api_route("/strict", lambda: HTMLResponse("with a policy", headers=strict))
    app.mount("/folder", StaticFiles(directory=tmp_path, html=True))
    app.mount("/app", Starlette(routes=[Route("/", lambda _: HTMLResponse("one of another app"))]))
    outer = Starlette(routes=[Mount("/agents", app)])
    async with app.router.lifespan_context(app):
        for served, prefix in ((app, ""), (outer, "/agents")):
            transport = httpx2.ASGITransport(served)
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://127.0.0.1{prefix}") as client:
                for path in ("/router", "/page", "/folder/", "/app/"):
                    page = await client.get(path)
                    assert page.status_code == 200, path
                    assert "content-security-policy" not in page.headers, path
                    assert page.headers["x-content-type-options"] == "nosniff"
                policy = (await client.get("/strict")).headers["content-security-policy"]
                assert policy == "default-src 'self'"
                ours = [(method, path) for method, path, _ in operations(published)]
                for method, path in (*ours, ("GET", "/"), ("GET", "/docs"), ("GET", "/none"), ("PATCH", "/sessions")):
                    answer = await client.request(method, path)
                    assert "default-src 'none'" in answer.headers["content-security-policy"], (method, path)
