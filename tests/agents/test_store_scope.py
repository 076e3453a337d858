"""A store that is scoped by user: each has one of their own, and the graph does not notice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import pytest
import structlog
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_store
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.store.graph_store import GraphStore
from stellwerk.agents.store.references import uses_store
from stellwerk.agents.store.tenant_store import StoreFiles, TenantStore
from stellwerk.errors import BlockedStore, NoUser
from stellwerk.redaction.redactor import Redactor
from stellwerk.spec.operator import StoreScope

FOOD = ("memories", "food")
USERS = ["ann", "ann@example.com", "a.b", "a%2Eb", "langgraph", "*", "ann.*", "[a]", "Ann", "@ann", "名前", "a/b c"]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[TenantStore]:
    async with AsyncExitStack() as resources:
        yield TenantStore(StoreFiles(tmp_path, Redactor(), None, resources))


def run_of(user: str | None) -> RunContext:
    return RunContext(system="desk", user=user)


async def test_users_have_stores_of_their_own_whatever_they_are_called(stores: TenantStore) -> None:
    store = GraphStore(stores, {"all": "user"}, "desk")
    for user in USERS:
        with running_in(run_of(user)):
            await store.aput(FOOD, "likes", {"who": user})
            await store.aput(("memories", "art"), "likes", {"who": user})
    for user in USERS:
        with running_in(run_of(user)):
            found = await store.aget(FOOD, "likes")
            assert found is not None and (found.namespace, found.value) == (FOOD, {"who": user})
            everything = await store.asearch(())
            assert {(item.namespace, item.value["who"]) for item in everything} == {
                (FOOD, user),
                (("memories", "art"), user),
            }
            assert await store.alist_namespaces() == [("memories", "art"), FOOD]
            assert await store.alist_namespaces(max_depth=1) == [("memories",)]
            assert await store.alist_namespaces(prefix=("*", "food")) == [FOOD]
            assert await store.alist_namespaces(suffix=("art",)) == [("memories", "art")]
    with running_in(run_of("ann")):
        await store.adelete(FOOD, "likes")
        assert await store.aget(FOOD, "likes") is None
    await stores.forget_user("a.b")
    for user in USERS:
        with running_in(run_of(user)):
            count = len(await store.asearch(()))
            assert count == {"ann": 1, "a.b": 0}.get(user, 2), user


async def test_a_shared_store_never_finds_what_belongs_to_users(stores: TenantStore) -> None:
    scopes: dict[str, StoreScope] = {"private": "user", "public": "shared"}
    private, public = GraphStore(stores, scopes, "private"), GraphStore(stores, scopes, "public")
    with running_in(run_of("ann")):
        await private.aput(FOOD, "likes", {"text": "pizza"})
        await public.aput(("tools",), "a", {"text": "b"})
        assert [item.key for item in await public.asearch(())] == ["a"]
        assert await public.aget(("@ann", *FOOD), "likes") is None
        assert await public.alist_namespaces() == [("tools",)]
        assert [item.key for item in await private.asearch(())] == ["likes"]


@pytest.mark.parametrize("context", [RunContext(), run_of(None)], ids=["outside of a run", "without a user"])
async def test_without_a_user_a_scoped_store_is_refused_and_says_what_to_do(
    stores: TenantStore, context: RunContext
) -> None:
    store = GraphStore(stores, {"all": "user"}, "desk")
    with running_in(context), pytest.raises(NoUser, match="'desk' is scoped by user.*send user_id with POST /sessions"):
        await store.aput(FOOD, "likes", {"text": "pizza"})


async def test_threads_use_the_store_of_their_run_and_the_event_loop_is_never_blocked(stores: TenantStore) -> None:
    store = GraphStore(stores, {"desk": "user"}, "desk")
    with running_in(run_of("ann")):
        await asyncio.to_thread(store.put, FOOD, "likes", {"text": "pizza"})
        found = await asyncio.to_thread(store.get, FOOD, "likes")
        assert found is not None and found.value == {"text": "pizza"}
        with pytest.raises(BlockedStore, match="await the asynchronous one"):
            store.get(FOOD, "likes")
    with running_in(run_of("bob")):
        assert await asyncio.to_thread(store.search, ()) == []


@pytest.mark.parametrize(
    ("scopes", "user", "namespace", "warned"),
    [
        ({}, "ann", FOOD, True),
        ({}, None, FOOD, True),
        ({}, "ann", ("memories", "ann"), False),
        ({"desk": "shared"}, "ann", FOOD, False),
        ({"all": "shared"}, "ann", FOOD, False),
        ({"all": "user"}, "ann", FOOD, False),
    ],
)
async def test_a_run_that_stores_something_for_all_users_is_logged_once_unless_that_is_meant(
    stores: TenantStore, scopes: dict[str, StoreScope], user: str | None, namespace: tuple[str, ...], warned: bool
) -> None:
    store = GraphStore(stores, scopes, "desk")
    with structlog.testing.capture_logs() as logs, running_in(run_of(user)):
        await store.asearch(namespace)
        assert logs == []
        for key in "ab":
            await store.aput(namespace, key, {})
    lines = [line for line in logs if line["event"] == "store_shared_by_users"]
    assert [(line["log_level"], line["graph"]) for line in lines] == [("warning", "desk")] * warned
    assert all("set store.scope.desk to user" in line["remedy"] for line in lines)


def nothing(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("nothing")]}


def by_get_store(state: MessagesState) -> dict[str, Any]:
    get_store().put(FOOD, "a", {})
    return {}


async def by_runtime(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    assert runtime.store is not None
    await runtime.store.aput(FOOD, "a", {})
    return {}


def by_parameter(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    return {}


def by_another(state: MessagesState) -> dict[str, Any]:
    return by_get_store(state)


def in_a_closure() -> Callable[[MessagesState], dict[str, Any]]:
    inner = by_get_store
    return lambda state: inner(state)


class Remembering:
    def __call__(self, state: MessagesState) -> dict[str, Any]:
        return by_get_store(state)

    def method(self, state: MessagesState) -> dict[str, Any]:
        return by_get_store(state)


@tool
def remember(text: str, store: Annotated[Any, InjectedStore]) -> str:
    """Remember it."""
    return text


@tool
def add(one: int, two: int) -> int:
    """Add."""
    return one + two


def graph_of(node: Any) -> Any:
    return StateGraph(MessagesState).add_node("node", node).set_entry_point("node").compile()


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (nothing, False),
        (ToolNode([add]), False),
        (graph_of(nothing), False),
        (by_get_store, True),
        (by_runtime, True),
        (by_parameter, True),
        (by_another, True),
        (in_a_closure(), True),
        (Remembering(), True),
        (Remembering().method, True),
        (ToolNode([add, remember]), True),
        (graph_of(by_get_store), True),
    ],
)
def test_a_graph_that_uses_the_store_is_recognised_by_its_code(node: Any, expected: bool) -> None:
    assert uses_store(graph_of(node)) is expected
