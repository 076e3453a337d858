"""LangGraph's store on PostgreSQL: one for all tenants, each of which sees its own items only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp
from pydantic import SecretStr

from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.store.index import Index
from stellwerk.agents.store.postgres import PostgresStore, open_postgres_store
from stellwerk.agents.store.tenant_store import ItemSearch, NamespaceSearch, TenantStore
from stellwerk.database.locks import NamedLocks
from stellwerk.database.postgres import Postgres, options_of
from stellwerk.errors import InvalidInput, SettingsError, StorageGone
from stellwerk.redaction.redactor import Redactor
from stellwerk.settings import Settings
from stellwerk.spec.operator import StoreTtl
from tests.agents.test_store_index import index_of
from tests.agents.test_store_scope import USERS
from tests.conftest import own_server
from tests.crash.waiting import eventually
from tests.database.conftest import Postgresql

TENANTS = ["acme", "acme.eu", "acm_", "acm%", "acme\\", "langgraph", "*", "-", "@acme", "名前"]
FOOD = ("memories", "food")


_locks = NamedLocks()


@asynccontextmanager
async def opened(
    options: dict[str, Any], index: Index | None = None, ttl: StoreTtl | None = None, patience: float = 30
) -> AsyncIterator[PostgresStore]:
    async with open_postgres_store(options, _locks.locked, index, ttl, patience) as store:
        yield store


def of_tenant(store: PostgresStore, tenant: str, redactor: Redactor | None = None) -> TenantStore:
    return TenantStore(store.of_tenant(tenant, redactor or Redactor()))


@pytest.fixture
def url(postgresql: Postgresql) -> str:
    return postgresql.new()


@pytest.fixture
def options(url: str) -> dict[str, Any]:
    return options_of(url)


@pytest.fixture
async def store(options: dict[str, Any]) -> AsyncIterator[PostgresStore]:
    async with opened(options) as found:
        yield found


async def names(tenant: TenantStore, user: str | None) -> list[str]:
    return sorted(item.value["of"] for item in await tenant.search(user, ItemSearch(limit=1000)))


async def test_tenants_and_users_see_their_own_items_whatever_they_are_called(store: PostgresStore) -> None:
    tenants = {name: of_tenant(store, name) for name in TENANTS}
    owners: list[str | None] = [None, *USERS]
    for name, tenant in tenants.items():
        for user in owners:
            await tenant.put(user, (FOOD, "likes"), {"of": f"{name} {user}"})
    for name, tenant in tenants.items():
        for user in owners:
            assert await names(tenant, user) == [f"{name} {user}"]
            found = await tenant.get(user, FOOD, "likes")
            assert found is not None and (found.namespace, found.value) == ([*FOOD], {"of": f"{name} {user}"})
            assert await tenant.namespaces(user, NamespaceSearch()) == [[*FOOD]]
            assert await tenant.namespaces(user, NamespaceSearch(prefix=("*", "food"), max_depth=1)) == [["memories"]]
    await tenants["acme"].forget_user("ann")
    await tenants["acm%"].delete(None, FOOD, "likes")
    for name, tenant in tenants.items():
        for user in owners:
            is_gone = (name, user) in (("acme", "ann"), ("acm%", None))
            assert await names(tenant, user) == ([] if is_gone else [f"{name} {user}"])
    assert await tenants["acme"].size() > 0
    assert await of_tenant(store, "nobody").size() == 0


async def test_a_graph_uses_it_as_it_uses_the_one_in_a_file(store: PostgresStore) -> None:
    graph = GraphStore(of_tenant(store, "acme"), {"all": "shared"}, "desk")
    await graph.aput(FOOD, "likes", {"dish": "pizza", "stars": 5})
    made = await graph.aget(FOOD, "likes")
    await graph.aput(FOOD, "likes", {"dish": "pasta", "stars": 4})
    found = await graph.aget(FOOD, "likes")
    assert made is not None and found is not None
    assert (found.value, found.created_at) == ({"dish": "pasta", "stars": 4}, made.created_at)
    assert found.updated_at > made.updated_at
    assert [item.key for item in await graph.asearch(("memories",), filter={"stars": {"$gte": 4}})] == ["likes"]
    assert await graph.asearch(("memories",), filter={"stars": {"$gt": 4}}) == []
    assert await asyncio.to_thread(graph.get, FOOD, "likes") == found


async def test_items_expire_and_are_found_no_more(options: dict[str, Any]) -> None:
    async with opened(options, ttl=StoreTtl(default_ttl=0.01)) as store:
        graph = GraphStore(TenantStore(of_tenant(store, "acme").places, ttl=StoreTtl(default_ttl=0.01)), {}, "desk")
        await graph.aput(FOOD, "soon", {"of": "a"})
        await graph.aput(FOOD, "never", {"of": "b"}, ttl=None)

        async def is_gone() -> bool:
            return await graph.aget(FOOD, "soon", refresh_ttl=False) is None

        await eventually(is_gone, within=30, what="it does not expire")
        assert [item.key for item in await graph.asearch(FOOD)] == ["never"]


async def test_known_secrets_do_not_reach_it(store: PostgresStore) -> None:
    redactor = Redactor(["sk-canary-4711"])
    tenant = of_tenant(store, "acme", redactor)
    await tenant.put(None, (FOOD, "likes"), {"of": "my key is sk-canary-4711"})
    assert "sk-canary" not in (await names(tenant, None))[0]


async def test_a_batch_that_fails_is_undone_as_a_whole_and_says_why(store: PostgresStore) -> None:
    tenant = of_tenant(store, "acme")
    with pytest.raises(InvalidInput, match="leave NUL out"):
        await tenant.batch([PutOp(FOOD, "a", {"of": "a"}), PutOp(("other",), "b", {"of": "\0"})], user=None)
    assert await names(tenant, None) == []


async def test_five_nodes_that_start_at_once_make_one_store(url: str, options: dict[str, Any]) -> None:
    async def start(number: int) -> None:
        database = Postgres(url)
        await database.open()
        try:
            async with open_postgres_store(options, database.locked) as store:
                await of_tenant(store, "acme").put(None, (FOOD, str(number)), {"of": str(number)})
        finally:
            await database.close()

    await asyncio.gather(*map(start, range(5)))
    async with opened(options) as store:
        assert await names(of_tenant(store, "acme"), None) == list("01234")


async def test_an_index_without_pgvector_is_refused_and_says_what_to_do(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="store.index needs the extension pgvector .* CREATE EXTENSION vector"):
        async with opened(options, index_of()):
            pass


async def test_lost_connections_are_replaced(options: dict[str, Any]) -> None:
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = %s"
    async with opened(options) as store:
        tenant = of_tenant(store, "acme")
        await tenant.put(None, (FOOD, "a"), {"of": "a"})
        with psycopg.connect(**options, autocommit=True) as beside:
            beside.execute(ours, [options["dbname"]])
        assert await names(tenant, None) == ["a"]


async def test_a_store_that_does_not_answer_is_gone_for_a_while(options: dict[str, Any]) -> None:
    async with opened(options):
        pass  # its tables are there
    async with opened(options, patience=1) as store:
        tenant = of_tenant(store, "acme")
        with psycopg.connect(**options) as beside:
            beside.execute("LOCK TABLE store")
            with pytest.raises(StorageGone, match="the store cannot be used: .*timeout"):
                await names(tenant, None)
        assert await names(tenant, None) == []


async def test_two_servers_share_what_is_stored_over_http_and_a_restart_changes_nothing(
    url: str, tmp_path: Path
) -> None:
    item = {"namespace": [*FOOD], "key": "likes", "value": {"of": "pizza"}}
    place = {"namespace": ".".join(FOOD), "key": "likes"}

    def node(name: str) -> Settings:
        return Settings(data=tmp_path / name, database=SecretStr(url))

    async with own_server(node("a")) as one, own_server(node("b")) as other:
        assert (await one.put("/store/items", json=item)).status_code == 204
        found = await other.get("/store/items", params=place)
        assert found.json()["value"] == {"of": "pizza"}
    async with own_server(node("c")) as again:
        found = await again.post("/store/items/search", json={"namespace_prefix": ["memories"]})
        assert [each["key"] for each in found.json()["items"]] == ["likes"]
