"""Stellwerk mounted in another app: with its authentication, under its path, in its server and lifespan."""

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2
import pytest
from fastapi import Depends, FastAPI, HTTPException, Security
from fastapi.security import APIKeyQuery
from starlette.requests import HTTPConnection
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import stellwerk
from stellwerk.client import Client, Problem
from stellwerk.settings import Settings
from tests.api.reading import parse_sse
from tests.cli.processes import stellwerk as command
from tests.forked import FOURTH, Forked, surroundings

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/embedding"
KEY = {"Authorization": "Bearer let-me-in"}
THEIRS = {**KEY, "Host": "desk.example.org", "Origin": "https://app.example.org"}
PATIENCE = 240


class Host:
    """An app of the example, by plain uvicorn, in a process of its own."""

    def __init__(self, app: str, folder: Path, **settings: str) -> None:
        self._errors = folder / f"{app}.errors"
        uvicorn = ["--app-dir", str(EXAMPLE), f"{app}:app", "--fd", str(FOURTH), "--log-level", "warning"]
        around = {**surroundings(), "STELLWERK_DATA": str(folder / "data"), "STELLWERK_DEMO": "true", **settings}
        with (
            socket.socket() as listening,
            open(os.devnull, "r+b") as nothing,
            self._errors.open("wb") as errors,
        ):
            listening.bind(("127.0.0.1", 0))
            listening.listen()  # clients that connect before it is ready wait
            self.address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            files = [file.fileno() for file in (nothing, nothing, errors, listening)]
            self.process = Forked(uvicorn, files=files, cwd=ROOT, environment=around, module="uvicorn")

    def complaints(self) -> str:
        return self._errors.read_text("utf-8")


@contextmanager
def hosted(app: str, folder: Path, **settings: str) -> Iterator[Host]:
    host = Host(app, folder, **settings)
    try:
        yield host
    finally:
        host.process.kill()
        host.process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app of the example, which lets in those who come by these names."""
    settings = {"STELLWERK_HOSTS": "other.example.org, desk.example.org", "STELLWERK_ORIGINS": THEIRS["Origin"]}
    with hosted("app", tmp_path_factory.mktemp("host"), **settings) as host:
        yield host.address


async def test_the_app_of_before_and_the_one_of_after_give_the_same_answers(tmp_path: Path, address: str) -> None:
    with hosted("before", tmp_path) as old:
        async with httpx2.AsyncClient(base_url=old.address, headers=KEY, timeout=PATIENCE) as client:
            chat = (await client.post("/chats")).json()["id"]
            before = []
            for path, text in (("messages", "Where is it?"), ("messages", "cancel it"), ("answers", "yes")):
                calls = await client.post(f"/chats/{chat}/{path}", json={"text": text})
                before.append([json.loads(line[6:]) for line in calls.text.splitlines() if line])
            assert (await client.get("/hello", headers={"Authorization": "x"})).status_code == 401
    async with Client(f"{address}/agents", "let-me-in") as agents:
        session = await agents.begin("assistant")
        after = []
        for text in ("Where is it?", "cancel it", "yes"):
            accepted = await agents.send(session.id, text)
            after.append([e async for e in agents.follow(session.id, after=accepted.after, until="run_end")])
    assert before[0][-1]["text"] == after[0][-1].data["payload"]["result"] == "Your order is on its way to you."
    tokens = [e.data["payload"]["text"] for e in after[0] if e.type == "llm_token"]
    assert "".join(tokens) == "".join(e["text"] for e in before[0] if e["type"] == "token")
    (asked,) = [e.data["payload"]["question"] for e in after[1] if e.type == "ask_user"]
    assert asked == before[1][-1]["text"] == "Cancel the order?"
    assert before[2][-1]["text"] == after[2][-1].data["payload"]["result"] == "The order is cancelled."


async def test_the_dependency_of_the_host_runs_before_every_route_and_the_socket(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        for method, path in (("GET", "/sessions"), ("POST", "/stream-test"), ("DELETE", "/sessions/x")):
            refused = await client.request(method, f"/agents{path}")
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
            assert refused.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/agents/healthz")).status_code == 200
        begun = await client.post("/agents/sessions", json={"agent_system_id": "demo"}, headers=KEY)
    sid, ws = begun.json()["id"], address.replace("http", "ws")
    with pytest.raises(InvalidStatus) as denied:
        async with connect(f"{ws}/agents/sessions/{sid}/ws"):
            pass
    assert denied.value.response.status_code == 401
    async with connect(f"{ws}/agents/sessions/{sid}/ws", additional_headers=KEY) as talk:
        await talk.send('{"type": "stop"}')
        assert json.loads(await talk.recv())["ok"]["status"] == "idle"
    async with Client(f"{address}/agents", "wrong") as client_without:
        with pytest.raises(Problem, match="send Authorization: Bearer") as problem:
            await client_without.sessions()
    assert problem.value.code == "unauthorized"
    listed = await command("sessions", STELLWERK_URL=f"{address}/agents", STELLWERK_KEY="let-me-in")
    assert sid in listed[1]


async def test_addresses_and_docs_are_right_under_the_mount(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, headers=KEY, timeout=PATIENCE) as client:
        begun = await client.post("/agents/sessions", json={"agent_system_id": "demo"})
        found = await client.get(begun.headers["location"])
        assert found.json()["id"] == begun.json()["id"]
        assert (await client.get("/agents/")).headers["content-type"] == "text/html; charset=utf-8"
        page = await client.get("/agents/docs")
        for place in re.findall(r'(?:src|href)="([^"]+)"|url: \'([^\']+)\'', page.text):
            answer = await client.get("".join(place))
            assert answer.status_code == 200, place
        schema = (await client.get("/agents/openapi.json")).json()
        assert schema["servers"] == [{"url": "/agents"}]
        assert (await client.get("/hello")).json() == "hello"


async def test_open_streams_do_not_hold_up_the_end_of_the_host(tmp_path: Path) -> None:
    with hosted("app", tmp_path) as host:
        async with httpx2.AsyncClient(base_url=host.address, headers=KEY, timeout=PATIENCE) as client:
            sid = (await client.post("/agents/sessions", json={"agent_system_id": "demo"})).json()["id"]
            path = f"/agents/sessions/{sid}"
            await client.post(f"{path}/messages", json={"text": "hello"})
            async with (
                connect(f"{host.address.replace('http', 'ws')}{path}/ws", additional_headers=KEY) as talk,
                client.stream("GET", f"{path}/stream") as stream,
                asyncio.timeout(PATIENCE),
            ):
                text = ""
                pieces = stream.aiter_text()
                while '"type":"run_end"' not in text:
                    text += await anext(pieces)
                host.process.terminate()
                text += "".join([piece async for piece in pieces])
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        await talk.recv()
            assert text.endswith(": the server is going down; come back with your last id\n")
            assert parse_sse(text)[-1]["type"] == "run_end"
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            assert await asyncio.to_thread(host.process.wait, PATIENCE) in (0, -signal.SIGTERM)
            assert "Traceback" not in host.complaints()


async def test_names_and_origins_of_the_host_are_let_in_when_they_are_named(tmp_path: Path, address: str) -> None:
    foreign = {**THEIRS, "Origin": "https://evil.test"}
    async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        assert (await client.get("/agents/sessions", headers=THEIRS)).status_code == 200
        assert (await client.get("/agents/sessions", headers=foreign)).status_code == 403
    unnamed = await asked_here(Settings(data=tmp_path / "b"), THEIRS)
    assert (unnamed.status_code, unnamed.json()["code"]) == (403, "refused")
    assert "STELLWERK_HOSTS" in unnamed.json()["detail"]
    everybody = Settings(data=tmp_path / "c", hosts="*", origins=THEIRS["Origin"])
    assert (await asked_here(everybody, THEIRS)).status_code == 200
    assert (await asked_here(everybody, foreign)).status_code == 403


async def asked_here(settings: Settings, headers: dict[str, str]) -> httpx2.Response:
    """The same in this process, in an app with checks of its own: its answer to a request with these headers."""

    async def checked() -> None:
        pass

    agents = stellwerk.create_app(settings, dependencies=[Depends(checked)])
    host = FastAPI()
    host.mount("/agents", agents)
    async with (
        stellwerk.opened(agents),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url="http://127.0.0.1") as client,
    ):
        return await client.get("/agents/sessions", headers=headers)


async def test_who_asks_may_stand_in_the_address_if_the_host_declares_the_parameter(tmp_path: Path) -> None:
    async def identify(connection: HTTPConnection) -> stellwerk.Principal:
        if connection.query_params.get("token") != "let-me-in":
            raise HTTPException(401, "add ?token=")
        return stellwerk.Principal("local", "admin")

    def nested(key: str | None = Security(APIKeyQuery(name="key", auto_error=False))) -> None:
        pass

    declared = [Depends(APIKeyQuery(name="token", auto_error=False)), Depends(nested)]
    agents = stellwerk.create_app(Settings(data=tmp_path, demo=True), identify=identify, dependencies=declared)
    transport = httpx2.ASGITransport(agents)
    async with (
        stellwerk.opened(agents),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", params={"token": "let-me-in"}) as client,
    ):
        sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
        assert "run_end" in (await client.get(f"/sessions/{sid}/stream", params={"until": "run_end"})).text
        assert (await client.get("/api/workflows", params={"key": "x"})).status_code == 200
        assert (await client.get("/sessions", params={"tokens": "x"})).status_code == 422
        assert (await client.get("/sessions", params={"token": "x"})).status_code == 401


async def test_an_app_that_is_mounted_and_not_opened_responds_how_to_open_it(tmp_path: Path) -> None:
    host = FastAPI()
    host.mount("/agents", stellwerk.create_app(Settings(data=tmp_path)))
    transport = httpx2.ASGITransport(host)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/agents/sessions")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_opened")
    assert "stellwerk.opened" in answer.json()["detail"]


async def test_a_lifespan_of_the_hosts_own_opens_it_among_other_things(tmp_path: Path) -> None:
    agents, calls = stellwerk.create_app(Settings(data=tmp_path, demo=True)), list[str]()
    before = signal.getsignal(signal.SIGTERM)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with stellwerk.opened(agents):
            calls.append("opened")
            yield
        calls.append("closed")

    host = FastAPI(lifespan=lifespan)
    host.mount("/deep/down", agents)
    async with host.router.lifespan_context(host):
        transport = httpx2.ASGITransport(host)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            begun = await client.post("/deep/down/sessions", json={"agent_system_id": "demo"})
            assert begun.headers["location"] == f"/deep/down/sessions/{begun.json()['id']}"
    assert calls == ["opened", "closed"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_page_quotes_the_example_and_counts_its_lines() -> None:
    page = (ROOT / "docs/howto/replace-your-endpoint.md").read_text("utf-8")
    sources = {name: (EXAMPLE / f"{name}.py").read_text("utf-8") for name in ("before", "app")}
    quoted = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert quoted
    assert all(any(block in source for source in sources.values()) for block in quoted)
    lines = {name: len(text.splitlines()) for name, text in sources.items()}
    assert f"{lines['before']} lines" in page
    assert f"{lines['app']} lines" in page
