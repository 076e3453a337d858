"""The store as a graph sees it: ``get_store()`` and ``runtime.store``, scoped by the user of the run if wanted."""

import asyncio
from collections.abc import Iterable
from typing import Any

from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore, Op, PutOp, Result

from stellwerk.agents.runtime.context import run_context
from stellwerk.agents.store.operations import ttl_config
from stellwerk.agents.store.references import uses_store
from stellwerk.agents.store.tenant_store import TenantStore
from stellwerk.errors import BlockedStore, NoUser
from stellwerk.logs import get_logger
from stellwerk.spec.operator import ALL_GRAPHS, StoreScope

logger = get_logger(__name__)

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
        self.ttl_config = ttl_config(stores.ttl)
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

    def warn_undecided(self) -> None:
        """Log that users may read each other's items, unless the operator has decided."""
        if self.scope is None:
            self.warn_shared()

    def warn_shared(self) -> None:
        """Log once that users may read each other's items."""
        if not self._warned:
            self._warned = True
            logger.warning("store_shared_by_users", graph=self._graph, remedy=_SHARED.format(graph=self._graph))


def warn_if_shared(graph: Pregel[Any, Any, Any, Any]) -> None:
    """At the start: log it if the code of a graph refers to the store, and its scope is not decided."""
    store = graph.store
    if isinstance(store, GraphStore) and uses_store(graph):
        store.warn_undecided()
