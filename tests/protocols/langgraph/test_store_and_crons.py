"""Store and crons of LangGraph's SDK: the same items and jobs as at this server's own routes."""

from typing import Any

import httpx2
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.protocols.langgraph.test_runs import Refused, said, thread_of

EVERY_YEAR = "0 0 1 1 *"


async def test_items_are_stored_found_and_deleted_and_are_those_of_the_server(
    sdk: LangGraphClient, served: str
) -> None:
    await sdk.store.put_item(["memories", "ada"], "pizza", {"likes": True})
    await sdk.store.put_item(["memories", "bob"], "pizza", {"likes": False}, ttl=60)
    item: Any = await sdk.store.get_item(["memories", "ada"], "pizza")
    assert (item["namespace"], item["key"], item["value"]) == (["memories", "ada"], "pizza", {"likes": True})
    assert item["created_at"].endswith("+00:00")
    found: Any = await sdk.store.search_items(["memories"], filter={"likes": True})
    assert [each["namespace"] for each in found["items"]] == [["memories", "ada"]]
    listed: Any = await sdk.store.list_namespaces(prefix=["memories"], max_depth=2)
    assert listed["namespaces"] == [["memories", "ada"], ["memories", "bob"]]
    async with httpx2.AsyncClient(base_url=served) as native:
        place = {"namespace": "memories.ada", "key": "pizza"}
        assert (await native.get("/store/items", params=place)).json()["value"] == {"likes": True}
    for user in ("ada", "bob"):
        await sdk.store.delete_item(["memories", user], "pizza")
    assert await sdk.store.get_item(["memories", "ada"], "pizza") is None
    await sdk.store.delete_item(["memories", "ada"], "pizza")


async def test_bad_items_are_refused_with_a_detail(http: httpx2.AsyncClient) -> None:
    for body in ({"namespace": ["a.b"], "key": "k", "value": {}}, {"namespace": ["a"], "key": "k", "value": 1}):
        refused = await http.put("/store/items", json=body)
        assert (refused.status_code, bool(refused.json()["detail"])) == (422, True)
    refused = await http.put("/store/items", json={"namespace": ["a"], "key": "k", "value": {}, "ttl": -1})
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (422, "ttl")


async def test_a_cron_of_an_assistant_is_created_found_changed_and_deleted(sdk: LangGraphClient) -> None:
    made: Any = await sdk.crons.create("demo", schedule=EVERY_YEAR, input=said("weather"), metadata={"topic": "sky"})
    assert (made["schedule"], made["enabled"], made["on_run_completed"]) == (EVERY_YEAR, True, "delete")
    assert made["payload"]["input"]["messages"][0]["content"] == "weather"
    assert made["next_run_date"].endswith("-01-01T00:00:00+00:00")
    found: Any = await sdk.crons.search(assistant_id="demo", metadata={"topic": "sky"})
    assert found == [made]
    assert await sdk.crons.count(assistant_id="demo") == 1
    changed: Any = await sdk.crons.update(made["cron_id"], schedule="0 0 2 1 *", enabled=False)
    assert (changed["schedule"], changed["enabled"], changed["next_run_date"]) == ("0 0 2 1 *", False, None)
    assert changed["payload"] == made["payload"]
    await sdk.crons.delete(made["cron_id"])
    assert await sdk.crons.search(assistant_id="demo") == []


async def test_a_cron_of_a_thread_sends_messages_to_it(sdk: LangGraphClient, served: str) -> None:
    thread = await thread_of(sdk)
    made: Any = await sdk.crons.create_for_thread(thread, "demo", schedule=EVERY_YEAR, input=said("weather"))
    assert (made["thread_id"], made["on_run_completed"]) == (thread, None)
    async with httpx2.AsyncClient(base_url=served) as native:
        cron = (await native.get(f"/crons/{made['cron_id']}")).json()
    assert cron["message"]["text"] == "weather"
    assert [each["cron_id"] for each in await sdk.crons.search(thread_id=thread)] == [made["cron_id"]]
    with pytest.raises(Refused) as refused:
        await sdk.crons.create_for_thread(thread, "demo", schedule="every day", input=said("weather"))
    assert refused.value.response.status_code == 422
    await sdk.crons.delete(made["cron_id"])
