"""The systems that come with the server can be left out: by a setting, by an option, and by default when embedded."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

import stellwerk
from stellwerk.settings import Settings
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.crash.process import server_process

BEGIN = {"agent_system_id": "demo"}
BUILT_IN = {"demo", "office"}
MINE = "{version: 1, system: {name: demo}, agents: [{id: a, model: {provider: scripted, model: x}}]}"


async def names(client: httpx2.AsyncClient) -> set[str]:
    return {system["id"] for system in (await client.get("/agent-systems")).json()["agent_systems"]}


async def test_without_the_demo_its_sessions_can_be_read_and_take_no_message(tmp_path: Path) -> None:
    async with running_server(Settings(data=tmp_path)) as address, httpx2.AsyncClient(base_url=address) as client:
        assert await names(client) == BUILT_IN
        sid = (await client.post("/sessions", json=BEGIN)).json()["id"]
        told = await whole_round(client, sid, "hello")
    settings = Settings(data=tmp_path, demo=False)
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address) as client:
        assert await names(client) == set()
        refused = await client.post("/sessions", json=BEGIN)
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown_agent_system")
        events = (await client.get(f"/sessions/{sid}/events", params={"limit": 500, "profile": "debug"})).json()[
            "events"
        ]
        assert [each["position"] for each in events] == [each["position"] for each in told]
        assert (await client.get(f"/sessions/{sid}")).json()["agent_system_id"] == "demo"
        assert [each["id"] for each in (await client.get("/sessions")).json()["sessions"]] == [sid]
        message = await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
        assert (message.status_code, message.json()["code"]) == (409, "system_gone")
    async with running_server(Settings(data=tmp_path)) as address, httpx2.AsyncClient(base_url=address) as client:
        assert await names(client) == BUILT_IN
        assert (await whole_round(client, sid, "hello"))[-1]["payload"]["status"] == "completed"


async def test_a_system_of_yours_may_have_the_name_and_stays(tmp_path: Path) -> None:
    settings, yaml = Settings(data=tmp_path, demo=False), {"Content-Type": "application/yaml"}
    async with running_server(Settings(data=tmp_path)):
        pass
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address) as client:
        made = await client.post("/agent-systems", content=MINE, headers=yaml)
        assert made.status_code == 201, made.text
    async with running_server(settings) as address, httpx2.AsyncClient(base_url=address) as client:
        assert await names(client) == {"demo"}


@pytest.mark.parametrize(("demo", "there"), [(None, set[str]()), (True, BUILT_IN)])
async def test_embedded_it_is_there_only_if_it_is_asked_for(tmp_path: Path, demo: bool | None, there: set[str]) -> None:
    app = stellwerk.create_app(Settings(data=tmp_path, demo=demo))
    transport = httpx2.ASGITransport(app)
    async with stellwerk.opened(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert await names(client) == there


@pytest.mark.parametrize(
    ("options", "variables"), [(["--no-demo"], {}), ([], {"demo": "false"})], ids=["option", "variable"]
)
async def test_the_option_and_the_variable_start_a_server_that_offers_no_demo(
    tmp_path: Path, options: list[str], variables: dict[str, Any]
) -> None:
    errors = tmp_path / "errors"
    with server_process(tmp_path / "data", errors=errors, serves=options, **variables) as server:
        hint = await asyncio.to_thread(server.out.readline)
        assert b"demo" not in hint and b"/agent-systems" in hint
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert await names(client) == set()
