"""/store: items are read and written with rights, per tenant and per user; bad input changes nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.tenants import Shared, shared_server
from tests.api.test_audit_commit import no_record
from tests.crash.process import server_process
from tests.crash.waiting import eventually

FOOD = ["memories", "food"]
AT_PIZZA = {"namespace": "memories.food", "key": "pizza"}


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def put(client: httpx2.AsyncClient, key: str = "pizza", **more: Any) -> httpx2.Response:
    item = {"namespace": FOOD, "key": key, "value": {"text": f"likes {key}"}, **more}
    return await client.put("/store/items", json=item)


async def keys(client: httpx2.AsyncClient, **wanted: Any) -> list[str]:
    found = await client.post("/store/items/search", json=wanted)
    assert found.status_code == 200, found.text
    return [item["key"] for item in found.json()["items"]]


async def test_an_item_with_a_time_is_gone_when_it_is_over(shared: Shared) -> None:
    assert (await put(shared.acme, ttl=0.01)).status_code == 204
    assert (await put(shared.acme, "pasta", ttl=100)).status_code == 204

    async def one_is_left() -> bool:
        return await keys(shared.acme) == ["pasta"]

    await eventually(one_is_left, within=30, what="an item has not expired")
    assert (await shared.acme.get("/store/items", params=AT_PIZZA)).status_code == 404
    for ttl in (0, -1, "soon", 1e12):
        refused = await put(shared.acme, ttl=ttl)
        assert (refused.status_code, refused.json()["field"]) == (422, "ttl")


async def test_an_item_is_stored_read_replaced_found_and_deleted(shared: Shared) -> None:
    acme = shared.acme
    assert (await put(acme)).status_code == 204
    first = (await acme.get("/store/items", params=AT_PIZZA)).json()
    assert (first["namespace"], first["key"], first["value"]) == (FOOD, "pizza", {"text": "likes pizza"})
    assert (await put(acme, value={"text": "hates it", "stars": 1})).status_code == 204
    again = (await acme.get("/store/items", params=AT_PIZZA)).json()
    assert again["value"] == {"text": "hates it", "stars": 1} and again["created_at"] == first["created_at"]
    await put(acme, "pasta", value={"stars": 5, "by": {"name": "ada"}})
    await put(acme, "tram", namespace=["things"], value={"stars": 3})
    assert await keys(acme, namespace_prefix=FOOD, filter={"stars": {"$gt": 2}}) == ["pasta"]
    assert await keys(acme, filter={"by.name": "ada"}) == ["pasta"]
    assert sorted(await keys(acme, filter={"stars": {"$gte": 1, "$lt": 5}})) == ["pizza", "tram"]
    assert len({*await keys(acme, limit=2), *await keys(acme, limit=2, offset=2)}) == 3
    [item] = (await acme.post("/store/items/search", json={"namespace_prefix": ["things"]})).json()["items"]
    assert item["score"] is None

    async def namespaces(**wanted: Any) -> list[list[str]]:
        found = await acme.get("/store/namespaces", params=wanted)
        assert found.status_code == 200, found.text
        listed: list[list[str]] = found.json()["namespaces"]
        return listed

    assert await namespaces() == [FOOD, ["things"]]
    assert await namespaces(prefix="memories") == await namespaces(suffix="food") == [FOOD]
    assert await namespaces(max_depth=1) == [["memories"], ["things"]]
    assert await namespaces(limit=1, offset=1) == [["things"]]
    assert (await acme.delete("/store/items", params=AT_PIZZA)).status_code == 204
    for gone in (await acme.get("/store/items", params=AT_PIZZA), await acme.delete("/store/items", params=AT_PIZZA)):
        assert (gone.status_code, gone.json()["code"]) == (404, "unknown_item")
        assert "POST /store/items/search lists those in 'memories.food'" in gone.json()["detail"]


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"namespace": []}, "namespace", "empty"),
        ({"namespace": ["a.b"]}, "namespace", "a label has no dots"),
        ({"namespace": ["a", ""]}, "namespace", "empty"),
        ({"namespace": ["a\u0000"]}, "namespace", "control character"),
        ({"namespace": ["langgraph", "x"]}, "namespace", "LangGraph's own"),
        ({"namespace": ["a"] * 17}, "namespace", "16"),
        ({"namespace": "food"}, "namespace", "list"),
        ({"key": ""}, "key", "empty"),
        ({"key": "k" * 257}, "key", "256"),
        ({"value": "text"}, "value", "object"),
        ({"value": {"text": "x" * 300_000}}, "value", "an item up to 262144; store a file"),
        ({"value": {"n": 10**400}}, "value", "cannot be stored as it is"),
        ({"index": "text"}, "index", ""),
        ({"user_id": ""}, "user_id", "empty"),
        ({"ttl": 0}, "ttl", "greater than 0"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_item_that_cannot_be_stored_is_refused_with_its_field(
    shared: Shared, body: dict[str, Any], field: str, said: str
) -> None:
    refused = await put(shared.acme, **body)
    assert refused.status_code == 422, refused.text
    problem = refused.json()
    assert problem["field"].startswith(field) and said in problem["detail"], problem
    assert await keys(shared.acme) == []


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"query": "food"}, "query", "no index for semantic search; the operator sets store.index"),
        ({"filter": {"a' OR 1=1": 1}}, "filter.a' OR 1=1", "a path has letters"),
        ({"filter": {"a..b": 1}}, "filter.a..b", "a path has letters"),
        ({"filter": {"a": {"$in": [1]}}}, "filter.a", "'$in' is none of $eq"),
        ({"filter": {"a": [1]}}, "filter.a", "compare with a text"),
        ({"limit": 0}, "limit", "1"),
        ({"limit": 501}, "limit", "500"),
        ({"offset": -1}, "offset", "0"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_search_that_makes_no_sense_is_refused_with_its_field(
    shared: Shared, body: dict[str, Any], field: str, said: str
) -> None:
    refused = await shared.acme.post("/store/items/search", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"] == field and said in refused.json()["detail"]


@pytest.mark.parametrize("namespace", ["a..b", ".", "a.", "x" * 300, ".".join("a" * 17)])
async def test_a_namespace_that_is_none_is_refused(shared: Shared, namespace: str) -> None:
    for method, path in (("GET", "/store/items"), ("DELETE", "/store/items")):
        refused = await shared.acme.request(method, path, params={"namespace": namespace, "key": "k"})
        assert (refused.status_code, refused.json()["field"]) == (422, "namespace"), refused.text


async def test_tenants_have_stores_of_their_own(shared: Shared) -> None:
    await put(shared.acme)
    await put(shared.acme, "pasta", user_id="ada")
    for other in (shared.other, shared.operator):
        assert await keys(other) == await keys(other, user_id="ada") == []
        assert (await other.get("/store/namespaces")).json() == {"namespaces": []}
        assert (await other.get("/store/items", params=AT_PIZZA)).status_code == 404
        assert (await other.delete("/store/items", params=AT_PIZZA)).status_code == 404
        assert (await other.delete("/store/users/ada")).status_code == 204
    assert await keys(shared.acme) == ["pizza"] and await keys(shared.acme, user_id="ada") == ["pasta"]


async def test_a_user_sees_their_own_items_only_and_an_admin_those_of_all(shared: Shared) -> None:
    async with (
        shared.client("acme", name="ada", user="ada", role="member") as ada,
        shared.client("acme", name="bob", user="bob", role="member") as bob,
        shared.client("acme", name="backend", role="member") as backend,
    ):
        await put(shared.acme, "common")
        assert (await put(ada, "ada's")).status_code == 204
        assert (await put(backend, "bob's", user_id="bob")).status_code == 204
        assert await keys(ada) == await keys(ada, user_id="ada") == await keys(shared.acme, user_id="ada") == ["ada's"]
        assert await keys(bob) == await keys(backend, user_id="bob") == ["bob's"]
        assert await keys(backend) == await keys(shared.acme) == ["common"]
        assert (await ada.get("/store/items", params={**AT_PIZZA, "key": "common"})).status_code == 404
        refused = [
            await put(ada, user_id="bob"),
            await ada.get("/store/items", params={**AT_PIZZA, "user_id": "bob"}),
            await ada.delete("/store/items", params={**AT_PIZZA, "user_id": "bob"}),
            await ada.post("/store/items/search", json={"user_id": "bob"}),
            await ada.get("/store/namespaces", params={"user_id": "bob"}),
            await ada.delete("/store/users/bob"),
        ]
        assert [answer.status_code for answer in refused] == [403] * 6
        assert (await ada.delete("/store/users/ada")).status_code == 204
        assert await keys(ada) == [] and await keys(bob) == ["bob's"]
        assert (await shared.acme.delete("/store/users/bob")).status_code == 204
        assert await keys(bob) == [] and await keys(shared.acme) == ["common"]


async def test_a_reader_reads_and_does_not_write(shared: Shared) -> None:
    await put(shared.acme)
    async with shared.client("acme", name="reader", role="reader") as reader:
        assert await keys(reader) == ["pizza"]
        assert (await reader.get("/store/items", params=AT_PIZZA)).status_code == 200
        assert (await put(reader)).status_code == 403
        assert (await reader.delete("/store/items", params=AT_PIZZA)).status_code == 403
        assert (await reader.delete("/store/users/ada")).status_code == 403
    assert await keys(shared.acme) == ["pizza"]


@pytest.mark.requirement("004.security.audit-trail")
async def test_changes_are_in_the_audit_log_without_their_content_and_searches_are_not(
    shared: Shared, tmp_path: Path
) -> None:
    await put(shared.acme, user_id="ada", value={"text": "canary"})
    await put(shared.acme, value={"text": "canary" * 100_000})
    await keys(shared.acme, filter={"text": "canary"})
    await shared.acme.delete("/store/items", params={**AT_PIZZA, "user_id": "ada"})
    await shared.acme.delete("/store/users/ada")
    entries = (await shared.acme.get("/audit", params={"limit": 500})).json()["entries"]
    on = {"namespace": "memories.food", "key": "pizza", "user": "ada"}
    assert [(each["what"], each["outcome"], each.get("on", {})) for each in entries if "/store" in each["what"]] == [
        ("PUT /store/items", 204, on),
        ("PUT /store/items", 422, {}),
        ("DELETE /store/items", 204, on),
        ("DELETE /store/users/{name}", 204, {"name": "ada"}),
    ]
    assert "canary" not in json.dumps(entries)
    await put(shared.acme)
    with no_record(tmp_path / "data"):
        assert (await put(shared.acme, "pasta")).status_code >= 500
        assert (await shared.acme.delete("/store/items", params=AT_PIZZA)).status_code >= 500
    assert await keys(shared.acme) == ["pizza"], "what cannot be recorded is not done"


async def test_the_store_counts_against_the_bytes_of_a_tenant(shared: Shared) -> None:
    assert (await put(shared.acme)).status_code == 204
    assert (await shared.operator.put("/tenants/acme/limits", json={"bytes": 50_000})).status_code == 200
    full = await put(shared.acme, "pasta", value={"text": "x" * 60_000})
    assert (full.status_code, full.json()["code"]) == (429, "limit_reached")
    assert "the store of your tenant" in full.json()["detail"]
    assert await keys(shared.acme) == ["pizza"]
    assert (await shared.acme.delete("/store/items", params=AT_PIZZA)).status_code == 204


async def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with server_process(tmp_path / "data", errors=tmp_path / "errors") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            for number in range(20):
                assert (await put(client, str(number), user_id="ada")).status_code == 204
            assert (await put(client)).status_code == 204
            server.kill()
    with server_process(tmp_path / "data", errors=tmp_path / "errors") as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert len(await keys(client, user_id="ada", limit=100)) == 20
            assert await keys(client) == ["pizza"]
