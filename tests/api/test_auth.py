"""Credentials: which are accepted, which scopes they have, and for how long."""

import asyncio
import json
import re
import runpy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from fastapi.routing import APIRoute, APIWebSocketRoute
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from stellwerk.api.routes import all
from stellwerk.api.services import PluginRouters
from stellwerk.settings import Settings
from stellwerk.workflows.routes import polling, workflows
from tests.api.tenants import Shared, shared_server, using
from tests.conftest import running_server

ROOT = Path(__file__).parents[2]
BEGIN = {"agent_system_id": "demo"}


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def test_the_first_key_closes_the_server_and_must_be_one_that_can_make_others(tmp_path: Path) -> None:
    async with (
        running_server(Settings(data=tmp_path / "data")) as address,
        httpx2.AsyncClient(base_url=address) as anybody,
    ):
        assert (await anybody.post("/sessions", json=BEGIN)).status_code == 201
        for useless in ({"role": "member"}, {"role": "admin", "scopes": ["read"]}, {"role": "admin", "tenant": "acme"}):
            refused = await anybody.post("/keys", json={"name": "first", **useless})
            assert refused.status_code == 422, useless
        sid = (await anybody.get("/sessions")).json()["sessions"][0]["id"]
        async with asyncio.timeout(20), anybody.stream("GET", f"/sessions/{sid}/stream") as stream:
            made = await anybody.post("/keys", json={"name": "first", "role": "admin"})
            assert made.status_code == 201
            await stream.aread()  # it ends
        closed = await anybody.get("/sessions")
        assert (closed.status_code, closed.headers["www-authenticate"]) == (401, "Bearer")
        assert (await anybody.get("/healthz")).status_code == 200
        async with using(address, made.json()["token"]) as first:
            assert len((await first.get("/sessions")).json()["sessions"]) == 1


async def test_without_a_key_that_is_taken_every_route_answers_401_and_does_nothing(shared: Shared) -> None:
    published = (await shared.operator.get("/openapi.json")).json()
    shown = [
        "",
        "Bearer",
        "Bearer x",
        "Bearer sw_000000000000_" + "0" * 43,
        "Basic YTpi",
        shared.acme.headers["authorization"][:-1],
    ]
    async with httpx2.AsyncClient(base_url=shared.address) as anybody:
        for path, methods in published["paths"].items():
            for method in methods:
                if path in ("/healthz", "/readyz"):
                    continue
                for credential in shown if path == "/sessions" else shown[:1]:
                    headers = {"Authorization": credential} if credential else {}
                    refused = await anybody.request(method.upper(), path, headers=headers)
                    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized"), (method, path)


async def test_a_key_is_taken_from_x_api_key_if_there_is_no_bearer_token(shared: Shared) -> None:
    bearer = shared.acme.headers["authorization"]
    key, others = bearer.removeprefix("Bearer "), shared.other.headers["authorization"]
    async with httpx2.AsyncClient(base_url=shared.address) as anybody:

        async def asked(**headers: str) -> tuple[int, str | None]:
            answer = await anybody.get("/me", headers={name.replace("_", "-"): text for name, text in headers.items()})
            return answer.status_code, answer.json().get("tenant")

        assert await asked(x_api_key=key) == (200, "acme")
        for empty in ("Bearer", "Basic YTpi"):
            assert await asked(x_api_key=key, authorization=empty) == (200, "acme"), empty
        assert await asked(x_api_key=key, authorization=others) == (200, "other")
        assert await asked(x_api_key="", authorization=bearer) == (200, "acme")
        assert await asked(x_api_key=key, authorization="Bearer wrong") == (401, None)
        for wrong in ("", key[:-1]):
            assert await asked(x_api_key=wrong) == (401, None), wrong
        with structlog.testing.capture_logs() as logged:
            await asked(x_api_key=key[:-1])
    assert [line["key"] for line in logged] == [key.split("_")[1]]


async def test_a_role_may_what_it_may_and_a_key_with_fewer_scopes_less(shared: Shared) -> None:
    tries: dict[str, tuple[str, str, dict[str, Any]]] = {
        "read": ("GET", "/sessions", {}),
        "run": ("POST", "/sessions", {"json": BEGIN}),
        "register": (
            "POST",
            "/agent-systems?dry_run=true",
            {
                "content": "{version: 1, system: {name: x}, agents: [{id: a}]}",
                "headers": {"Content-Type": "application/yaml"},
            },
        ),
        "administer": ("GET", "/keys", {}),
    }
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"role": "reader"}, {"read"}),
        ({"role": "member"}, {"read", "run"}),
        ({"role": "admin"}, {"read", "run", "register", "administer"}),
        ({"role": "admin", "scopes": ["register"]}, {"register"}),
        ({"role": "member", "scopes": ["run"]}, {"run"}),
    ]
    for number, (wanted, allowed) in enumerate(cases):
        async with shared.client("acme", name=f"k{number}", **wanted) as client:
            me = (await client.get("/me")).json()
            assert (me["tenant"], me["role"], set(me["scopes"])) == ("acme", wanted["role"], allowed)
            for scope, (method, path, body) in tries.items():
                answer = await client.request(method, path, **body)
                assert (answer.status_code < 400) == (scope in allowed), (wanted, scope, answer.text)
                if scope not in allowed:
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    beyond = await shared.operator.post(
        "/keys", json={"name": "b", "tenant": "acme", "role": "reader", "scopes": ["run"]}
    )
    assert beyond.status_code == 422
    async with shared.client("acme", name="few", role="admin", scopes=["administer", "read"]) as few:
        assert (await few.post("/keys", json={"name": "all", "role": "admin"})).json()["code"] == "forbidden"
        less = await few.post("/keys", json={"name": "less", "role": "admin", "scopes": ["read"]})
        assert less.status_code == 201


class Unopened:
    """Services of which every attribute is there, and none works."""

    def __getattr__(self, name: str) -> "Unopened":
        return self


def test_every_route_says_what_it_needs() -> None:
    """A route without authentication would be open to every client."""
    services: Any = Unopened()
    routers_of_workflows = PluginRouters([polling.routes(services)], [workflows.routes(services)])
    routers = all.routers(services, [routers_of_workflows], frame_limit=1)
    asking = [route for router in routers for route in router.routes]
    assert len(asking) > 30
    for route in asking:
        assert isinstance(route, APIRoute | APIWebSocketRoute)
        if route.path.endswith("/ws") and isinstance(route, APIRoute):
            continue  # which only says that it is a WebSocket
        assert "who" in {dependency.name for dependency in route.dependant.dependencies}, route.path


async def test_only_the_operator_creates_tenants_and_keys_for_others(shared: Shared) -> None:
    assert (await shared.acme.post("/tenants", json={"name": "more"})).status_code == 403
    assert (await shared.acme.post("/keys", json={"name": "x", "tenant": "other"})).status_code == 403
    assert (await shared.operator.post("/keys", json={"name": "x", "tenant": ""})).json()["code"] == "unknown_tenant"
    assert (await shared.operator.post("/tenants", json={"name": "acme"})).json()["code"] == "tenant_exists"
    for name in ("", "Acme", "1a", "a/b", "a" * 64, "ä"):
        assert (await shared.operator.post("/tenants", json={"name": name})).status_code == 422, name
    names = [tenant["name"] for tenant in (await shared.operator.get("/tenants")).json()["tenants"]]
    assert names == ["local", "acme", "other"]


async def test_a_revoked_key_gets_401_and_its_open_streams_end(shared: Shared) -> None:
    key = await shared.key("acme", role="member")
    bystander = await shared.key("acme", name="another", role="reader")
    sid = (await shared.acme.post("/sessions", json=BEGIN)).json()["id"]

    async def follow(path: str, token: str) -> str:
        async with using(shared.address, token) as client, client.stream("GET", f"/sessions/{sid}/{path}") as stream:
            opened[token, path].set()
            return "".join([text async for text in stream.aiter_text()])

    async def talk() -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key['token']}"}
        async with connect(
            f"{shared.address.replace('http', 'ws')}/sessions/{sid}/ws", additional_headers=headers
        ) as ws:
            opened[key["token"], "ws"].set()
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await ws.recv()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, closed.value.rcvd.reason

    paths = ("stream", "stream?dialect=chunks")
    opened = {(key["token"], path): asyncio.Event() for path in (*paths, "ws")}
    opened[bystander["token"], "stream"] = asyncio.Event()
    async with asyncio.timeout(20):
        streams = [asyncio.create_task(follow(path, key["token"])) for path in paths]
        talking = asyncio.create_task(talk())
        other = asyncio.create_task(follow("stream", bystander["token"]))
        for each in opened.values():
            await each.wait()
        waiting = asyncio.create_task(_wait_for_events(shared.address, sid, key["token"]))
        assert (await shared.acme.delete(f"/keys/{key['id']}")).status_code == 204
        await asyncio.gather(*streams)
        assert await talking == (1008, "your key was revoked, or has expired")
        assert (await waiting) in (401, 200)
        async with using(shared.address, key["token"]) as revoked:
            assert (await revoked.get("/sessions")).status_code == 401
        assert not other.done()
        other.cancel()


async def test_the_last_key_of_an_admin_goes_only_when_it_is_said_so(shared: Shared) -> None:
    (last,) = (await shared.acme.get("/keys")).json()["keys"]
    await shared.key("acme", role="member")
    await shared.key("acme", role="admin", name="less", scopes=["read"])
    refused = await shared.acme.delete(f"/keys/{last['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "last_admin_key")
    assert "--tenant acme" in refused.json()["detail"]
    second = await shared.key("acme", role="admin")
    assert (await shared.acme.delete(f"/keys/{last['id']}")).status_code == 204
    async with using(shared.address, second["token"]) as admin:
        assert (await admin.delete(f"/keys/{second['id']}")).status_code == 409
        assert (await admin.delete(f"/keys/{second['id']}", params={"last": True})).status_code == 204
    both = [await shared.key("other", role="admin", name=name) for name in ("one", "two")]
    (third,) = [key["id"] for key in (await shared.other.get("/keys")).json()["keys"] if key["name"] == "admin"]
    await shared.operator.delete(f"/keys/{third}", params={"tenant": "other"})
    async with using(shared.address, both[0]["token"]) as one, using(shared.address, both[1]["token"]) as two:
        await asyncio.gather(one.get("/me"), two.get("/me"))  # both are connected
        gone = await asyncio.gather(one.delete(f"/keys/{both[0]['id']}"), two.delete(f"/keys/{both[1]['id']}"))
    assert sorted(each.status_code for each in gone) == [204, 409]
    (operators,) = (await shared.operator.get("/keys")).json()["keys"]
    assert "--data FOLDER" in (await shared.operator.delete(f"/keys/{operators['id']}")).json()["detail"]


async def test_a_socket_whose_key_has_expired_takes_no_commands(shared: Shared) -> None:
    """Its stream notices with the next event or heartbeat."""
    sid = (await shared.acme.post("/sessions", json=BEGIN)).json()["id"]
    key = await shared.key("acme", role="member", expires_in=1)
    headers = {"Authorization": f"Bearer {key['token']}"}
    address = f"{shared.address.replace('http', 'ws')}/sessions/{sid}/ws"
    async with asyncio.timeout(20), using(shared.address, key["token"]) as client:
        try:
            async with connect(address, additional_headers=headers) as ws:
                while (await client.get("/sessions")).status_code == 200:
                    pass
                await ws.send('{"type": "message", "text": "weather", "key": "k"}')
                reply = json.loads(await ws.recv())
            assert (reply["problem"]["code"], reply["key"]) == ("unauthorized", "k")
        except (InvalidStatus, ConnectionClosed):
            pass  # so slow was this machine that there was no socket, or none any more
    assert (await shared.acme.get(f"/sessions/{sid}")).json()["status"] == "idle"


async def _wait_for_events(address: str, sid: str, token: str) -> int:
    async with using(address, token) as client:
        return (await client.get(f"/sessions/{sid}/events", params={"wait": 60, "after": 0})).status_code


async def test_a_ticket_opens_one_stream_of_one_session_once(shared: Shared) -> None:
    sid, another = [(await shared.acme.post("/sessions", json=BEGIN)).json()["id"] for _ in range(2)]
    async with httpx2.AsyncClient(base_url=shared.address) as browser:

        async def opened(ticket: str, path: str) -> int:
            return (await browser.get(path, params={"ticket": ticket, "until": "run_end"})).status_code

        async def bought() -> str:
            made = await shared.acme.post("/stream-tickets", json={"session_id": sid})
            assert made.headers["cache-control"] == "no-store"
            return str(made.json()["ticket"])

        ticket = await bought()
        assert [await opened(ticket, f"/sessions/{sid}/stream") for _ in range(2)] == [200, 401]
        assert await opened(await bought(), f"/sessions/{another}/stream") == 401
        assert await opened(await bought(), f"/sessions/{sid}/events") == 401
        assert await opened("", f"/sessions/{sid}/stream") == 401


async def test_a_token_of_the_issuer_is_as_good_as_a_key(tmp_path: Path) -> None:
    key = ECKey.generate_key("P-256", {"kid": "k"})
    (tmp_path / "jwks.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    (tmp_path / "operator.yaml").write_text("tokens: {issuer: 'https://id.test', audience: stellwerk, jwks: jwks.json}")

    def token(**claims: Any) -> str:
        said = {"iss": "https://id.test", "aud": "stellwerk", "sub": "ada", "exp": 4102444800, **claims}
        return jwt.encode({"alg": "ES256", "kid": "k"}, said, key)

    settings = Settings(data=tmp_path / "data", config=tmp_path / "operator.yaml")
    async with running_server(settings) as address:
        async with using(address, token(tenant="local", role="reader")) as ada:
            assert (await ada.get("/sessions")).status_code == 200
            assert (await ada.post("/sessions", json=BEGIN)).status_code == 403
        async with using(address, token(tenant="local", role="admin")) as admin:
            assert (await admin.post("/keys", json={"name": "first", "role": "reader"})).status_code == 201
            boss = (await admin.post("/keys", json={"name": "boss", "role": "admin"})).json()["id"]
            # The user could create another with a token, but the issuer may not give one.
            assert (await admin.delete(f"/keys/{boss}")).json()["code"] == "last_admin_key"
            assert (await admin.delete(f"/keys/{boss}", params={"last": True})).status_code == 204
        for wrong in (token(tenant="nowhere"), token(), "x.y.z"):
            async with using(address, wrong) as invalid:
                assert (await invalid.get("/sessions")).status_code == 401


async def test_an_embedding_app_says_itself_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STELLWERK_DATA", str(tmp_path))
    example, page = ROOT / "examples/embedding/teams.py", (ROOT / "docs/howto/security.md").read_text("utf-8")
    assert re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0] in example.read_text("utf-8")
    app = runpy.run_path(str(example))["app"]
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1/agents") as client,
    ):

        async def asked(token: str, method: str, path: str, **given: Any) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}", "If-None-Match": '"x"'}
            return await client.request(method, path, headers=headers, **given)

        assert (await asked("me-too", "POST", "/sessions", json=BEGIN)).status_code == 401  # there is no such team yet
        assert (await asked("let-me-in", "POST", "/tenants", json={"name": "sales"})).status_code == 201
        begun = await asked("me-too", "POST", "/sessions", json=BEGIN)
        assert begun.status_code == 201
        seen = [
            len((await asked(token, "GET", "/sessions")).json()["sessions"]) for token in ("let-me-in", "only-look")
        ]
        assert seen == [0, 1]
        assert (await asked("only-look", "POST", "/sessions", json=BEGIN)).status_code == 403
        for path in ("/sessions", "/api/workflows/0000000000000000000000/status"):
            refused = await asked("wrong", "GET", path)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"
