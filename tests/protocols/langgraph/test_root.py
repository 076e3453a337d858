"""LangGraph's API at the root of a server, for clients that take its address only."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from langgraph_sdk import get_client
from starlette.types import Receive, Scope, Send

from stellwerk.app import Parts
from stellwerk.ids import random_token
from stellwerk.protocols.langgraph.root import at_the_root
from stellwerk.settings import Settings
from tests import keyed
from tests.conftest import server_beside, without_pauses
from tests.protocols.langgraph.test_runs import said


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(data=tmp_path_factory.mktemp("root") / "data", demo=True, langgraph_root=True)
    with server_beside(settings, parts=Parts(demo_systems=without_pauses)) as found:
        yield found


async def test_a_client_needs_the_address_of_the_server_only(root: str) -> None:
    key = keyed.shown_to(root)
    async with get_client(url=root, headers=key) as sdk:
        thread: Any = await sdk.threads.create()
        parts = [part async for part in sdk.runs.stream(thread["thread_id"], "demo", input=said("weather"))]
        assert "sunny" in parts[-1].data["messages"][-1]["content"]
        options: Any = {"assistant_id": "demo", "transport": "websocket", "headers": key}
        async with sdk.threads.stream(random_token(22), **options) as stream:
            await stream.run.start(input=said("table"))
            assert "columns" in (await stream.output)["messages"][-1]["content"]
        await sdk.store.put_item(["memories"], "pizza", {"likes": True})
        assert (await sdk.store.list_namespaces())["namespaces"] == [["memories"]]


async def test_native_routes_stay_where_they_are(root: str) -> None:
    async with httpx2.AsyncClient(base_url=root) as native:
        session = (await native.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        assert (await native.get(f"/threads/{session}")).json()["thread_id"] == session
        item = {"namespace": ["a"], "key": "b", "value": {"c": 1}}
        assert (await native.put("/store/items", json=item)).status_code == 204
        place = {"namespace": "a", "key": "b"}
        assert (await native.get("/store/items", params=place)).json()["value"] == {"c": 1}
        assert ["a"] in (await native.get("/store/namespaces")).json()["namespaces"]
        assert (await native.delete("/store/items", params=place)).status_code == 204
        assert (await native.get("/threads/unheard-of")).json()["detail"]
        assert (await native.get("/threadsandmore")).json()["code"] == "unknown_path"


async def test_without_the_setting_nothing_is_served_at_another_path() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError

    assert at_the_root(app, Settings()) is app
