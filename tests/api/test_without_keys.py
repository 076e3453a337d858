"""A server without keys is its operator's alone: only requests from the same machine, which no proxy passed on."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Depends, FastAPI
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import stellwerk
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.conftest import running_server, server_beside
from tests.forked import completed

KEY = {"name": "first", "role": "admin"}
BEGIN = {"agent_system_id": "demo"}
HOST = "agents.example.org"
FORWARDED = {
    "X-Forwarded-For": "203.0.113.7",
    "x-forwarded-for": "127.0.0.1",
    "X-Forwarded-Host": HOST,
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Real-IP": "127.0.0.1",
    "Forwarded": "for=203.0.113.7",
    "Via": "1.1 proxy",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_beside(Settings(data=tmp_path_factory.mktemp("open") / "data")) as found:
        yield found


def is_asked_for_a_key(answer: httpx2.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), answer.text
    assert "stellwerk keys create" in answer.json()["detail"]


@pytest.mark.parametrize("name", FORWARDED)
async def test_a_request_that_a_proxy_passed_on_is_not_the_operator_s(address: str, name: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        is_asked_for_a_key(await client.post("/keys", json=KEY, headers={name: FORWARDED[name]}))
        is_asked_for_a_key(await client.get("/sessions", headers={name: FORWARDED[name]}))
        assert (await client.get("/healthz", headers={name: FORWARDED[name]})).status_code == 200
        assert (await client.get("/keys")).json() == {"keys": []}


async def test_streams_sockets_tickets_and_polls_are_refused_in_the_same_way(address: str) -> None:
    passed_on = {"X-Forwarded-For": "203.0.113.7"}
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = (await client.post("/sessions", json=BEGIN)).json()["id"]
        await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
        path = f"/sessions/{sid}/stream"
        assert (await client.get(path, params={"until": "run_end"})).status_code == 200
        is_asked_for_a_key(await client.get(path, headers=passed_on))
        ticket = (await client.post("/stream-tickets", json={"session_id": sid})).json()["ticket"]
        is_asked_for_a_key(await client.get(path, params={"ticket": ticket}, headers=passed_on))
        poll = await client.get(f"/api/workflows/{sid}/status")
        known = {"If-None-Match": poll.headers["etag"]}
        assert (await client.get(f"/api/workflows/{sid}/status", headers=known)).status_code == 304
        is_asked_for_a_key(await client.get(f"/api/workflows/{sid}/status", headers={**known, **passed_on}))
    socket = f"{address.replace('http', 'ws')}/sessions/{sid}/ws"
    async with connect(socket) as talk:
        assert json.loads(await talk.recv())["id"] == 1
    with pytest.raises(InvalidStatus) as denied:
        async with connect(socket, additional_headers=passed_on):
            pass
    assert denied.value.response.status_code == 401


@pytest.mark.parametrize(
    ("peer", "host", "status"),
    [
        (("127.0.0.1", 1), "127.0.0.1:8000", 200),
        (("127.0.0.9", 1), "localhost", 200),
        (("::1", 1), "[::1]:8000", 200),
        (("::ffff:127.0.0.1", 1), "localhost", 200),
        (("203.0.113.7", 1), "127.0.0.1", 401),
        (("::ffff:203.0.113.7", 1), "127.0.0.1", 401),
        (("proxy", 1), "127.0.0.1", 401),
        (("127.0.0.1", 1), HOST, 403),
    ],
    ids=str,
)
async def test_peer_and_host_are_both_this_machine(
    tmp_path: Path, peer: tuple[str, int], host: str, status: int
) -> None:
    app = stellwerk.create_app(Settings(data=tmp_path))
    transport = httpx2.ASGITransport(app, client=peer)
    async with (
        stellwerk.opened(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers={"Host": host}) as client,
    ):
        answer = await client.get("/sessions")
        assert answer.status_code == status, answer.text


async def test_a_peer_without_an_address_is_not_known_to_be_this_machine(tmp_path: Path) -> None:
    """So is a Unix socket, behind which there is most often a proxy."""
    app = stellwerk.create_app(Settings(data=tmp_path))

    async def unnamed(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": None}, receive, send)

    transport = httpx2.ASGITransport(unnamed)
    async with (
        stellwerk.opened(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        is_asked_for_a_key(await client.get("/sessions"))


@pytest.mark.parametrize(
    "named",
    [
        {"STELLWERK_HOSTS": HOST},
        {"STELLWERK_HOSTS": "*"},
        {"STELLWERK_HOSTS": f"localhost, {HOST}"},
        {"STELLWERK_ORIGINS": "https://app.example.org"},
    ],
    ids=str,
)
def test_a_server_without_keys_does_not_start_under_a_name_of_the_network(
    tmp_path: Path, named: dict[str, str]
) -> None:
    data = tmp_path / "data"
    done = completed("serve", "--data", str(data), "--port", "0", environment=named)
    assert done.returncode == 2, done.stdout
    assert f"stellwerk keys create me --role admin --data {data}" in done.stderr
    assert next(iter(named)) in done.stderr and "Traceback" not in done.stderr
    assert not data.exists()


async def test_with_its_first_key_it_starts_under_that_name_and_asks_for_the_key(tmp_path: Path) -> None:
    made = await asyncio.to_thread(completed, "keys", "create", "me", "--role", "admin", "--data", str(tmp_path))
    assert made.returncode == 0, made.stderr
    behind = {"Host": HOST, "X-Forwarded-For": "203.0.113.7"}
    async with (
        running_server(Settings(data=tmp_path, hosts=HOST)) as address,
        httpx2.AsyncClient(base_url=address, headers=behind, timeout=60) as client,
    ):
        assert (await client.post("/keys", json=KEY)).status_code == 401
        bearer = {"Authorization": f"Bearer {made.stdout.split()[0]}"}
        assert (await client.get("/keys", headers=bearer)).status_code == 200


async def test_names_of_loopback_need_no_key(tmp_path: Path) -> None:
    page = {"Origin": "http://localhost:5173"}
    settings = Settings(data=tmp_path, hosts="localhost, 127.0.0.1", origins="http://localhost:5173, http://[::1]")
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        assert (await client.get("/sessions", headers=page)).status_code == 200


async def test_an_app_that_says_nothing_about_who_may_use_it_is_held_to_the_same(tmp_path: Path) -> None:
    agents = stellwerk.create_app(Settings(data=tmp_path, hosts="*"))
    with pytest.raises(SettingsError, match="dependencies or identify"):
        async with stellwerk.opened(agents):
            pass


async def test_the_checks_of_a_host_stand_in_for_the_first_key(tmp_path: Path) -> None:
    async def let_in() -> None:
        pass

    agents = stellwerk.create_app(Settings(data=tmp_path, hosts="*"), dependencies=[Depends(let_in)])
    host = FastAPI()
    host.mount("/agents", agents)
    transport = httpx2.ASGITransport(host, client=("203.0.113.7", 1))
    behind = {"X-Forwarded-For": "198.51.100.1"}
    async with (
        stellwerk.opened(agents),
        httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=behind) as client,
    ):
        assert (await client.get("/agents/sessions")).status_code == 200


def lost(data: Path, left: str) -> None:
    """Leave one thing of a data folder that a server has used, and not its database."""
    kept = {"master.key": data / "master.key", "a document": data / "documents", "a log": data / "stellwerk.db-wal"}
    for path in data.iterdir():
        if path == kept[left]:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    kept[left].touch()


@pytest.mark.parametrize("left", ["master.key", "a document", "a log"])
@pytest.mark.only_sqlite
async def test_a_folder_that_has_lost_its_database_is_not_begun_again(tmp_path: Path, left: str) -> None:
    data = tmp_path / "data"
    async with running_server(Settings(data=data)) as address, httpx2.AsyncClient(base_url=address) as client:
        await client.post("/files", files={"file": ("a.txt", b"a")})
    lost(data, left)
    before = sorted(data.rglob("*"))
    for arguments in (("serve", "--port", "0"), ("keys", "create", "me", "--role", "admin")):
        done = await asyncio.to_thread(completed, *arguments, "--data", str(data))
        assert done.returncode == 2, done.stdout
        assert "stellwerk.db" in done.stderr
        assert "stellwerk restore" in done.stderr and "move the folder away" in done.stderr
        assert set(data.rglob("*")) - set(before) <= {data / "lock"}


async def test_an_empty_folder_of_documents_is_no_loss(tmp_path: Path) -> None:
    (tmp_path / "documents" / "local").mkdir(parents=True)
    async with running_server(Settings(data=tmp_path)) as address, httpx2.AsyncClient(base_url=address) as client:
        assert (await client.get("/sessions")).status_code == 200


RAISING = """
from langgraph.graph import MessagesState, StateGraph

def fail(state):
    raise LookupError("no row 17 in orders")

graph = StateGraph(MessagesState).add_node("fail", fail).set_entry_point("fail").compile()
"""


async def test_the_text_of_an_unexpected_exception_is_for_developers_and_not_for_users_of_a_shared_server(
    tmp_path: Path,
) -> None:
    (tmp_path / "desk.py").write_text(RAISING, "utf-8")
    own = {"desk": f"{tmp_path}/desk.py:graph"}

    async def error(client: httpx2.AsyncClient, sid: str, profile: str) -> dict[str, Any]:
        path = f"/sessions/{sid}/stream?until=run_end&profile={profile}"
        told = await client.get(path, headers={"accept": "application/x-ndjson"})
        envelopes = [json.loads(line) for line in told.text.splitlines()]
        assert envelopes[-1]["payload"]["reason"] == "the agent raised LookupError; the server's log has the details"
        return dict(next(one["payload"] for one in envelopes if one["type"] == "error"))

    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = (await client.post("/sessions", json={"agent_system_id": "desk"})).json()["id"]
            await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
            for_operator = await error(client, sid, "user")
            token = (await client.post("/keys", json=KEY)).json()["token"]
            client.headers["Authorization"] = f"Bearer {token}"
            for_user, for_debug = await error(client, sid, "user"), await error(client, sid, "debug")
    assert for_operator["detail"] == for_debug["detail"] == "no row 17 in orders"
    assert for_user == {key: value for key, value in for_debug.items() if key != "detail"}
