"""``langgraph_sdk.get_client()`` without a URL in a served graph: runs on threads, later too, and the store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from langgraph_sdk import get_client
from langgraph_sdk._async import client as sdk
from langgraph_sdk.errors import BadRequestError

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.agents.runtime.loopback import LoopbackTransport
from stellwerk.settings import Settings
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.runs.talking import events, rest_of_run

GRAPHS = Path(__file__).parent / "loopback_graphs.py"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    own = systems_of([f"{name}={GRAPHS}:{name}" for name in ("chat", "memory")])
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=30) as client:
            yield client


async def begin(client: httpx2.AsyncClient, user: str) -> str:
    made = await client.post("/sessions", json={"agent_system_id": "chat", "user_id": user})
    return str(made.json()["id"])


async def beside(client: httpx2.AsyncClient, sid: str) -> list[str]:
    listed = (await client.get("/sessions")).json()["sessions"]
    return [one["id"] for one in listed if one["agent_system_id"] == "memory"]


async def test_a_graph_starts_a_run_of_another_one_which_keeps_a_memory_of_the_same_user(
    client: httpx2.AsyncClient,
) -> None:
    sid = await begin(client, "ann")
    told = await whole_round(client, sid, "remember lamps")
    assert told[-1]["payload"]["result"] == "noted later"
    (other,) = await beside(client, sid)
    kept = await rest_of_run(client, other)
    assert kept[-1]["payload"]["result"] == "ann: remember lamps (notes)"
    assert (await whole_round(client, sid, "recall"))[-1]["payload"]["result"] == "remember lamps"
    assert (await whole_round(client, await begin(client, "bob"), "recall"))[-1]["payload"]["result"] == "nothing"


async def test_a_delayed_run_is_replaced_by_the_next_one_on_the_same_thread(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "ann")
    await whole_round(client, sid, "later one")
    await whole_round(client, sid, "later two")
    (other,) = await beside(client, sid)
    runs = [event["payload"] for event in await events(client, other) if event["type"] in ("run_start", "run_end")]
    assert [one.get("status", "started") for one in runs] == ["started", "stopped", "started"]
    assert (await client.get(f"/sessions/{other}")).json()["start_at"] > 0


async def test_a_thread_with_a_name_of_the_graphs_own_is_a_session_like_any_other(client: httpx2.AsyncClient) -> None:
    other = (await whole_round(client, await begin(client, "ann"), "named"))[-1]["payload"]["result"]
    assert other.isalnum(), "an id of a session"
    assert [event["type"] for event in await rest_of_run(client, other)][-1] == "run_end"
    assert (await client.delete(f"/sessions/{other}")).status_code == 204


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state", "remembers nothing yet"),
        ("stream", "POST /runs/stream is not answered inside a run; answered are runs.create"),
        ("checkpoint", "checkpoint_id: runs.create() inside a run does not take this"),
        ("secret", "runs.create() inside a run takes no reference to a secret"),
        ("nobody", "there is no agent system 'nobody'"),
    ],
)
async def test_calls_are_answered_or_fail_with_what_to_do(client: httpx2.AsyncClient, text: str, said: str) -> None:
    sid = await begin(client, "ann")
    assert said in (await whole_round(client, sid, text))[-1]["payload"]["result"]


async def test_outside_of_a_run_a_client_without_a_url_says_where_it_works(client: httpx2.AsyncClient) -> None:
    with pytest.raises(BadRequestError, match="works in a node or tool of a run; give it the address of the server"):
        await get_client().threads.create()


async def test_canary_the_sdk_makes_its_transport_where_we_replace_it(client: httpx2.AsyncClient) -> None:
    made = get_client()
    transport: Any = made.http.client._transport
    assert isinstance(transport, LoopbackTransport)
    assert list(vars(sdk)["_registered_transports"]) == [], "they are not kept for ever"
    assert isinstance(get_client(url="http://127.0.0.1:1").http.client, type(made.http.client))
    await asyncio.gather(made.aclose())
