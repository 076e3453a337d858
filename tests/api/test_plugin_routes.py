"""Routes of a server plug-in: the limits of their bodies, and the form of every error below their paths."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import stellwerk
from stellwerk.api.http.auth import RequireReadTolerant, RequireRun, RequireRunTolerant
from stellwerk.api.services import PluginRouters, ServerPlugin, Services
from stellwerk.app import Parts
from stellwerk.errors import LimitReached, StellwerkError
from stellwerk.settings import Settings
from tests.conftest import server_beside

LIMIT = 3 * 2**20
NATIVE = 2**20


def their_form(error: StellwerkError) -> Response:
    return JSONResponse({"error": {"code": error.code, "message": error.message}}, error.status)


def inner_form(error: StellwerkError) -> Response:
    return JSONResponse({"inner": error.code}, error.status)


@asynccontextmanager
async def opened(app: FastAPI, services: Services) -> AsyncIterator[PluginRouters]:
    router = APIRouter(prefix="/their", include_in_schema=False)

    @router.post("/echo")
    async def echo(request: Request, who: RequireRun) -> int:
        return len(await request.body())

    @router.get("/tolerant/{sid}")
    async def tolerant(who: RequireReadTolerant, sid: str) -> str:
        return who.tenant

    @router.post("/begin/{status}")
    async def begin(who: RequireRunTolerant, status: int) -> Response:
        session = await services.sessions.begin(who.tenant, "demo", None)
        return JSONResponse({"id": session.id}, status)

    @router.post("/nothing/{status}")
    async def nothing(who: RequireRunTolerant, status: int) -> Response:
        return Response(status_code=status)

    @router.post("/later")
    async def later() -> None:
        raise LimitReached("come back later", retry_after=7)

    @router.post("/typed")
    async def typed(body: dict[str, int]) -> dict[str, int]:
        return body

    @router.get("/bug")
    async def bug() -> None:
        raise ZeroDivisionError

    @router.get("/page")
    async def page() -> None:
        raise HTTPException(403, "not this page", headers={"X-Reason": "theirs"})

    inner = APIRouter(prefix="/nested")
    inner.get("/x")(lambda: {"nested": True})
    router.include_router(inner)
    yield PluginRouters(others=[router])


PLUGIN = ServerPlugin(
    opened=opened,
    body_limits={"/their": LIMIT, "/their/typed": 100},
    error_forms={"/their": their_form, "/their/inner": inner_form},
)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def parts(parts: Parts) -> Parts:
    return replace(parts, plugins=lambda: [PLUGIN])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, parts: Parts) -> Iterator[str]:
    with server_beside(Settings(data=tmp_path_factory.mktemp("plugin") / "data", demo=True), parts=parts) as found:
        yield found


@pytest.fixture
async def client(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    """One that does not compare answers with the OpenAPI document, which lacks these routes."""
    async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
        yield made


async def in_pieces(size: int) -> AsyncIterator[bytes]:
    for start in range(0, size, 2**16):
        yield b"x" * min(2**16, size - start)


@pytest.mark.parametrize("measured", [False, True], ids=["with a length", "without a length"])
async def test_the_longest_prefix_of_a_path_limits_its_bodies(client: httpx2.AsyncClient, measured: bool) -> None:
    async def posted(path: str, size: int) -> httpx2.Response:
        return await client.post(path, content=in_pieces(size) if measured else b"x" * size, headers=JSON)

    taken = await posted("/their/echo", LIMIT)
    assert (taken.status_code, taken.json()) == (200, LIMIT)
    for path, size in (("/their/echo", LIMIT + 1), ("/their/typed", 101)):
        refused = await posted(path, size)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large"), path
    for path in ("/sessions", "/theirs/echo"):
        native = await posted(path, NATIVE + 1)
        assert (native.status_code, native.json()["code"]) == (413, "too_large"), path


ERRORS: dict[str, tuple[str, str, dict[str, Any], int, str]] = {
    "no such path": ("GET", "/their/nothing", {}, 404, "unknown_path"),
    "the prefix itself": ("GET", "/their", {}, 404, "unknown_path"),
    "no such method": ("GET", "/their/echo", {}, 405, "method_not_allowed"),
    "no JSON": ("POST", "/their/typed", {"content": b"{", "headers": JSON}, 400, "malformed_json"),
    "a wrong type": ("POST", "/their/typed", {"json": {"a": "b"}}, 422, "invalid_field"),
    "a bug": ("GET", "/their/bug", {}, 500, "internal"),
    "an error of a host": ("GET", "/their/page", {}, 403, "refused"),
    "another origin": ("GET", "/their/bug", {"headers": {"Origin": "https://evil.test"}}, 403, "refused"),
}


@pytest.mark.parametrize("method, path, request_, status, code", ERRORS.values(), ids=ERRORS.keys())
async def test_every_error_below_a_prefix_has_the_form_of_its_plugin(
    client: httpx2.AsyncClient, method: str, path: str, request_: dict[str, Any], status: int, code: str
) -> None:
    answer = await client.request(method, path, **request_)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"]


async def test_the_longest_prefix_decides_on_the_form_and_other_paths_keep_theirs(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/their/inner/x")).json() == {"inner": "unknown_path"}
    for path in ("/theirs", "/sessions/nobody"):
        answer = await client.get(path)
        assert answer.headers["content-type"] == "application/problem+json", path


async def test_headers_of_an_error_are_kept_in_the_form_of_a_plugin(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/their/later")).headers["retry-after"] == "7"
    assert (await client.get("/their/page")).headers["x-reason"] == "theirs"
    assert (await client.get("/their/echo")).headers["allow"] == "POST"
    refused = await client.post("/their/echo", headers={"Authorization": "Bearer sw_none", "Host": "127.0.0.1"})
    if refused.status_code != 200:  # with keys
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.json()["error"]["code"] == "unauthorized"


async def test_prefixes_count_below_the_path_where_the_app_is_mounted(tmp_path: Path, parts: Parts) -> None:
    agents = stellwerk.create_app(Settings(data=tmp_path), parts=parts)
    host = FastAPI()
    host.mount("/their", agents)
    transport = httpx2.ASGITransport(host)
    async with (
        stellwerk.opened(agents),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        assert (await client.post("/their/their/echo", content=b"x" * LIMIT)).json() == LIMIT
        refused = await client.post("/their/their/echo", content=b"x" * (LIMIT + 1))
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
        assert (await client.get("/their/their/nothing")).json()["error"]["code"] == "unknown_path"
        native = await client.post("/their/sessions", content=b"x" * (NATIVE + 1))
        assert (native.status_code, native.json()["code"]) == (413, "too_large")


async def test_a_tolerant_route_ignores_unknown_parameters(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/their/tolerant/x", params={"unheard": "of"})
    assert (answer.status_code, answer.json()) == (200, "local")
    strict = await client.post("/their/echo", params={"unheard": "of"}, content=b"x")
    assert strict.json()["error"]["code"] == "invalid_field"


async def test_a_request_of_a_plugin_is_audited_once_whatever_its_success_is_called(client: httpx2.AsyncClient) -> None:
    async def recorded(what: str) -> list[int]:
        found = (await client.get("/audit", params={"limit": 100})).json()["entries"]
        return sorted(each["outcome"] for each in found if each["what"] == f"POST /their/{what}/{{status}}")

    for status in (200, 201, 202):
        assert (await client.post(f"/their/begin/{status}")).status_code == status
    assert await recorded("begin") == [200, 200, 200]  # as the route declares
    for status in (202, 409):
        await client.post(f"/their/nothing/{status}")
    assert await recorded("nothing") == [202, 409]


async def test_a_route_of_a_router_inside_of_a_router_has_our_policy(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/their/nested/x")
    assert answer.json() == {"nested": True}
    assert "default-src 'none'" in answer.headers["content-security-policy"]
