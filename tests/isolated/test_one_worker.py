"""Assistants, stores and quotas of isolated graphs: all in one worker, and as in the server's process."""

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from tests.conftest import server_beside
from tests.isolated.serving import WORKER_PYTHON
from tests.runs.talking import begin, events
from tests.runs.test_assistants import (
    POLITE,
    SECRET,
    answered,
    assistant,
    begin_with,
    notes,
    register,
    round_of,
)

RUNS = Path(__file__).parents[1] / "runs"
GRAPHS = {
    "graphs": ("desk", "enrichment"),
    "factories": ("styled", "managed", "strict", "asking"),
    "counting": ("private", "shared", "threaded", "once", "at_once", "in_a_row"),
}

TTL = 1000.0
"""Minutes."""


@dataclass
class Place:
    folder: Path
    address: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with all graphs in one folder, so that one process has them."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("wanting", "assistants"):
        shutil.copytree(RUNS / name, folder, dirs_exist_ok=True)
    shutil.copy(Path(__file__).parent / "counting.py", folder)
    config = folder / "operator.yaml"
    process = {"python": WORKER_PYTHON} if WORKER_PYTHON else {}
    scope = {"private": "user", "threaded": "user", "shared": "shared"}
    store = {"scope": scope, "ttl": {"default_ttl": TTL}}
    config.write_text(json.dumps({"isolate": {"all": process}, "store": store}))
    own = systems_of([f"{name}={folder}/{file}.py:{name}" for file, names in GRAPHS.items() for name in names])
    with server_beside(Settings(data=folder / "data", config=config), own=own) as address:
        yield Place(folder, address)


@pytest.fixture
async def client(place: Place) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=place.address, timeout=120) as made:
        yield made


async def test_a_message_overrides_its_session_and_a_session_its_assistant(client: httpx2.AsyncClient) -> None:
    assert (await register(client, "polite-desk", "desk", **POLITE))["version"] == 1
    sid = await begin_with(client, "polite-desk", user_id="ann", context={"language": "French"})
    assert await answered(client, sid, text="hi") == "hi: polite French ann"
    assert await answered(client, sid, text="hi", context={"language": "Welsh"}) == "hi: polite Welsh ann"
    await client.patch(f"/sessions/{sid}", json={"config": {"configurable": {"style": "rude"}}, "context": None})
    assert await answered(client, sid, text="hi") == "hi: rude German ann"
    assert (await register(client, "polite-desk", "desk", context={"language": "Danish"}))["version"] == 2
    assert await answered(client, sid, text="hi") == "hi: rude Danish ann"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"context": {"language": 5}}, "context.language"),
        ({"context": {"speech": "x"}}, "context.speech"),
        ({"context": {"user_id": "bob"}}, "context.user_id"),
        ({"config": {"configurable": {"thread_id": "x"}}}, "config.configurable.thread_id"),
        ({"input": {"topic": "x"}}, "input.topic"),
    ],
)
async def test_an_assistant_or_a_session_that_does_not_fit_its_graph_is_refused(
    given: dict[str, Any], field: str, client: httpx2.AsyncClient
) -> None:
    refused = await client.post("/agent-systems", json=assistant("odd", "desk", **given))
    assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, f"agents[0].{field}")
    assert (await client.get("/agent-systems/odd")).status_code == 404
    refused = await client.post("/sessions", json={"agent_system_id": "desk", **given})
    assert (refused.status_code, refused.json()["field"].partition(".")[0]) == (422, field.partition(".")[0])


async def test_a_default_of_the_input_is_given_where_neither_message_nor_state_has_the_key(
    client: httpx2.AsyncClient,
) -> None:
    await register(client, "planets", "enrichment", input={"topic": "sun", "extraction_schema": {"mass": "kg"}})
    sid = await begin(client, "planets")
    assert "moon: mass; 0" in await answered(client, sid, text="moon")
    assert "mars: age; 1" in await answered(client, sid, text="mars", input={"extraction_schema": {"age": "years"}})
    assert "venus: age; 2" in await answered(client, sid, text="venus"), "the state has it from the message before"
    assert "sun: mass; 0" in await answered(client, await begin(client, "planets"), input={})


async def test_factories_are_called_for_each_run_with_its_config_and_closed_with_it(
    place: Place, client: httpx2.AsyncClient
) -> None:
    await register(client, "polite", "styled", config=POLITE["config"])
    sid = await begin_with(client, "polite", user_id="ann")
    assert await answered(client, sid, text="hi") == "polite ann: hi"
    assert await answered(client, sid, text="hi", config={"configurable": {"style": "rude"}}) == "rude ann: hi"
    failed = (await round_of(client, sid, text="hi", config={"configurable": {"style": "bad"}}))[-1]["payload"]
    assert (failed["status"], "LookupError" in failed["reason"]) == ("failed", True)
    await register(client, "strictly", "strict", config=POLITE["config"])
    assert await answered(client, await begin(client, "strictly"), text="hi") == "polite: hi"
    warm = await begin_with(client, "managed", user_id="ann", context={"tone": "warm"})
    assert await answered(client, warm, text="hi") == "warm for ann: hi"
    assert "ValueError" in await answered(client, warm, text="boom")
    assert notes(place.folder, "open", "closed") == ["open warm", "closed"] * 2


async def test_the_graph_of_an_assistant_has_its_secret_and_nothing_stores_or_shows_it(
    place: Place, client: httpx2.AsyncClient
) -> None:
    refers = {"context": {"language": "German", "token": "Bearer ${secret:desk_token}"}}
    await register(client, "keeper", "desk", **refers)
    sid = await begin(client, "keeper")
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": "hi"})
    assert (refused.status_code, refused.json()["code"]) == (409, "missing_secret")
    await client.put("/secrets/desk_token", json={"value": SECRET})
    assert await answered(client, sid, text="hi") == "hi: None German nobody"
    assert f"Bearer {SECRET} None\n" in (place.folder / "tokens").read_text(), "the graph has it"
    shown = json.dumps(await events(client, sid)) + (await client.get("/agent-systems/keeper/text")).text
    stored = b"".join(file.read_bytes() for file in (place.folder / "data").rglob("*") if file.is_file())
    assert SECRET not in shown and SECRET.encode() not in stored


async def test_the_user_of_the_session_is_wherever_langgraphs_server_has_it(client: httpx2.AsyncClient) -> None:
    sid = await begin_with(client, "asking", user_id="ann")
    assert await answered(client, sid, text="who?") == " ".join(["ann"] * 7 + ["asking"])
    refused = await client.post(
        f"/sessions/{sid}/messages", json={"text": "who?", "config": {"configurable": {"user_id": "bob"}}}
    )
    assert (refused.status_code, "the user of the session" in refused.json()["detail"]) == (422, True)


async def test_each_user_has_a_store_where_it_is_scoped_by_user(client: httpx2.AsyncClient) -> None:
    async def said(system: str, user: str | None, text: str) -> str:
        return await answered(client, await begin_with(client, system, user_id=user), text=text)

    assert await said("private", "ann", "I earn 90000") == "nothing"
    assert await said("private", "bob", "Hi") == "nothing"
    assert await said("shared", "ann", "public") == "nothing"
    assert await said("shared", "bob", "Hm") == "public"
    assert await said("threaded", "ann", "Again") == "I earn 90000"
    assert await said("private", "ann", "Last") == "Again, I earn 90000"
    assert "is scoped by user" in await said("private", None, "Hi")
    found = (await client.post("/store/items/search", json={"namespace_prefix": ["notes"], "user_id": "bob"})).json()
    assert [item["key"] for item in found["items"]] == ["Hi"]


async def test_items_get_the_time_after_which_they_expire_from_the_operators_file(
    place: Place, client: httpx2.AsyncClient
) -> None:
    await answered(client, await begin_with(client, "private", user_id="tim"), text="for a while")
    (file,) = (place.folder / "data").rglob("store-users.db")
    with closing(sqlite3.connect(file)) as database:
        found = database.execute("SELECT ttl_minutes FROM store WHERE key = 'for a while'").fetchall()
    assert found == [(TTL,)]


@pytest.mark.parametrize("system", ["once", "at_once", "in_a_row"])
async def test_the_call_of_a_model_beyond_the_quota_is_not_made(
    system: str, place: Place, client: httpx2.AsyncClient
) -> None:
    await client.put("/tenants/local/limits", json={"session_steps": 2})
    sid = await begin(client, system)
    ends = [(await round_of(client, sid, text=system))[-1]["payload"]]
    while ends[-1]["status"] == "completed" and len(ends) < 2:
        ends.append((await round_of(client, sid, text=system))[-1]["payload"])
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": system})
    await client.put("/tenants/local/limits", json={})
    assert (place.folder / "calls").read_text().split().count(system) == 2
    assert (refused.status_code, refused.json()["code"]) == (429, "limit_reached")
    if system != "once":
        text = "session_steps: 2 are used of the 2 model calls that a session may make; begin another session"
        assert (ends[-1]["code"], ends[-1]["reason"]) == ("quota_exceeded", text)


async def test_tokens_that_a_graph_uses_count_for_its_session(place: Place, client: httpx2.AsyncClient) -> None:
    await client.put("/tenants/local/limits", json={"session_tokens": 15})
    sid = await begin(client, "once")
    ends = [(await round_of(client, sid, text="tokens"))[-1]["payload"] for _ in range(2)]
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": "tokens"})
    await client.put("/tenants/local/limits", json={})
    assert [end["status"] for end in ends] == ["completed", "completed"]
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (429, "session_tokens")
    assert (place.folder / "calls").read_text().split().count("tokens") == 2
