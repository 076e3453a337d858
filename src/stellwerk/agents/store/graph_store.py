"""The store as a graph sees it: ``get_store()`` and ``runtime.store``, scoped by the user of the run if wanted."""

import asyncio
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from langchain_core.tools import BaseTool
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore, Op, PutOp, Result

from stellwerk.agents.runtime.context import run_context
from stellwerk.agents.store.tenant_store import TenantStore
from stellwerk.errors import BlockedStore, NoUser
from stellwerk.logs import get_logger
from stellwerk.spec.operator import ALL_GRAPHS, StoreScope

logger = get_logger(__name__)

_LIBRARIES = {"langgraph", "langchain", "langchain_core", "deepagents", "stellwerk"}
_NAMES = {"get_store", "store"}
_SHARED = (
    "users of one tenant read each other's items unless its namespaces have the user's id; "
    "in the operator's file, set store.scope.{graph} to user, or to shared if that is meant"
)


class GraphStore(BaseStore):
    """``scope`` is None if the operator has not decided: then it is shared, with a warning."""

    supports_ttl = True

    def __init__(self, stores: TenantStore, scopes: dict[str, StoreScope], graph: str = ALL_GRAPHS) -> None:
        self._stores = stores
        self._scopes = scopes
        self._graph = graph
        self._loop = asyncio.get_running_loop()
        self._warned = False
        self._of_graphs: dict[str, GraphStore] = {}
        self.scope = scopes.get(graph, scopes.get(ALL_GRAPHS))

    def of_graph(self, graph: str) -> "GraphStore":
        """The same for one graph; always the same one, because a graph may be made for each run."""
        if graph not in self._of_graphs:
            self._of_graphs[graph] = GraphStore(self._stores, self._scopes, graph)
        return self._of_graphs[graph]

    def of_users(self) -> "GraphStore":
        """The same, scoped by user: for an agent above graphs that are."""
        return GraphStore(self._stores, {self._graph: "user"}, self._graph)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        try:
            on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            raise BlockedStore
        return asyncio.run_coroutine_threadsafe(self.abatch(ops), self._loop).result()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        wanted = list(ops)
        run = run_context()
        if self.scope == "user":
            if run.user is None:
                raise NoUser(self._graph)
            return await self._stores.batch(wanted, user=run.user)
        if self.scope is None and run.system:
            puts = [op for op in wanted if isinstance(op, PutOp) and op.value is not None]
            if any(run.user is None or run.user not in op.namespace for op in puts):
                self.warn_shared()
        return await self._stores.batch(wanted, user=None)

    def warn_shared(self) -> None:
        """Log once that users may read each other's items."""
        if not self._warned:
            self._warned = True
            logger.warning("store_shared_by_users", graph=self._graph, remedy=_SHARED.format(graph=self._graph))


def warn_if_shared(graph: Pregel[Any, Any, Any, Any]) -> None:
    """At the start: log it if the code of a graph refers to the store, and its scope is not decided."""
    store = graph.store
    if isinstance(store, GraphStore) and store.scope is None and uses_store(graph):
        store.warn_shared()


def uses_store(graph: Pregel[Any, Any, Any, Any]) -> bool:
    """Whether its nodes and tools, and functions that they call, refer to the store, as far as that can be seen."""
    seen: set[int] = set()
    waiting: list[Any] = [graph]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            if each.__module__.partition(".")[0] in _LIBRARIES:
                continue
            names = set(_names(each.__code__))
            if names & _NAMES:
                return True
            called = [each.__globals__.get(name) for name in names]
            cells = [cell.cell_contents for cell in each.__closure__ or () if cell != type(cell)()]
            waiting += [one for one in (*called, *cells) if isinstance(one, FunctionType | BaseTool | Pregel)]
        else:
            waiting += _parts(each)
    return False


def _parts(each: Any) -> Iterator[Any]:
    """What a graph, a node, a runnable or a tool consists of."""
    if isinstance(each, Pregel):
        yield from each.nodes.values()
    for name in ("bound", "func", "afunc", "coroutine", "__func__", "__wrapped__"):
        if (part := getattr(each, name, None)) is not None:
            yield part
    if type(each).__module__.partition(".")[0] not in _LIBRARIES:
        yield type(each).__dict__.get("__call__")
    yield from getattr(each, "steps", None) or ()
    yield from (getattr(each, "tools_by_name", None) or {}).values()


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function refers to, with its parameters and functions inside of it."""
    yield from code.co_names
    yield from code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
