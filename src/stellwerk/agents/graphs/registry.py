"""Registry of the operator's graphs: found by name, made by a factory, compiled with our saver.

State, nodes and sub-graphs are not changed. Only the saver and the store are ours, so that
checkpoints are fenced and types in the state are restored as themselves.
"""

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.graph import state as graph_state
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.graphs.import_reference import load_all, load_reference, operator_code
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.graphs.state_types import AllowedType, state_types
from stellwerk.agents.graphs.worker_settings import WorkerSettings
from stellwerk.agents.runtime.session_user import SessionUser
from stellwerk.errors import BrokenReference, NotFound
from stellwerk.logs import get_logger
from stellwerk.spec.messages import Suggestions
from stellwerk.spec.operator import ALL_GRAPHS, Operator, of_graph

logger = get_logger(__name__)

Builder = StateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any]
Made = TypeVar("Made")

# Private, but the only way to compile a graph with a default error handler twice; a canary test pins it. LangGraph
# before 1.2 has none.
_ERROR_HANDLER = getattr(graph_state, "_DEFAULT_ERROR_HANDLER_NODE", "")

ENTRY_POINTS = "stellwerk.graphs"
_REFILL = "write the items from a node or tool, to get_store() or runtime.store: that is the server's store"
_OPTIONAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """A registered graph, as the operator wrote it."""

    name: str
    source: Any
    """A compiled graph, a StateGraph, or a function that makes one."""
    origin: str
    """Its reference, for error messages."""
    input_key: str | None = None
    """The key of its input that takes the user's message; found automatically by default."""
    images: bool = False
    """Whether its messages may hold images."""
    state_types: frozenset[AllowedType] = frozenset()
    """Types that its stored state may hold beside those that its schemas name."""
    idempotent_tools: frozenset[str] = frozenset()
    """Tools in it that may be repeated after a crash."""
    non_idempotent_nodes: frozenset[str] = frozenset()
    """Nodes of it that must not be repeated after a crash."""
    problem: str | None = None
    """Why it could not be imported."""
    worker: WorkerSettings | None = None
    """How its own process is started; None if it runs in the server's."""
    type_references: tuple[str, ...] = ()
    """``state_types`` of a graph in its own process, as the operator wrote them."""


class Graphs:
    """The graphs that agents of kind ``graph`` may name."""

    def __init__(self, entries: Iterable[GraphEntry] = ()) -> None:
        self._entries: dict[str, GraphEntry] = {}
        self._logged: set[str] = set()
        for entry in entries:
            other = self._entries.setdefault(entry.name, entry)
            if other is not entry:
                problem = f"the name {entry.name!r} is taken by {other.origin}; choose another one"
                raise BrokenReference(entry.origin, problem)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def broken(self) -> list[BrokenReference]:
        """Graphs that could not be imported; they have a name here, but cannot be opened."""
        return [BrokenReference(each.origin, each.problem) for each in self._entries.values() if each.problem]

    def log_replaced(self, name: str, graph: Graph | Builder) -> None:
        """Log once that a graph's own checkpointer or store is not used here.

        A store that has items or an index is a warning: the graph misses them.
        """
        if name in self._logged or not isinstance(graph, Pregel):
            return
        self._logged.add(name)
        saver, store = graph.checkpointer, graph.store
        if isinstance(saver, BaseCheckpointSaver):
            logger.info("checkpointer_replaced", graph=name, own=type(saver).__name__)
        if store is None:
            return
        if not_used := unused_parts(store):
            logger.warning("store_replaced", graph=name, own=type(store).__name__, not_used=not_used, remedy=_REFILL)
        else:
            logger.info("store_replaced", graph=name, own=type(store).__name__)

    def find(self, name: str) -> GraphEntry:
        if name not in self._entries:
            otherwise = None if self._entries else "the operator has registered none"
            remedy = Suggestions().did_you_mean(name, self._entries, otherwise=otherwise)
            raise NotFound("graph", name, remedy=remedy)
        return self._entries[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """What the operator's file says of graphs, by their names."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    """The input keys of graphs that need them."""
    images: Collection[str] = ()
    """Graphs that take images."""
    state_types: Mapping[str, Sequence[str]] = field(default_factory=dict)
    idempotent_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    non_idempotent_nodes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    scoped: Collection[str] = ()
    """Graphs whose store has a scope."""
    isolated: Collection[str] = ()
    """Graphs that run in processes of their own."""

    @staticmethod
    def of(operator: Operator) -> "GraphSettings":
        return GraphSettings(
            inputs=operator.graph_inputs,
            images=operator.graph_images,
            state_types=operator.state_types,
            idempotent_tools=operator.idempotent_tools,
            non_idempotent_nodes=operator.non_idempotent_nodes,
            scoped=operator.store.scope,
            isolated=operator.isolate,
        )

    def names(self) -> set[str]:
        by_graph = (self.inputs, self.images, self.state_types, self.idempotent_tools, self.non_idempotent_nodes)
        return {name for named in (*by_graph, self.scoped, self.isolated) for name in named} - {ALL_GRAPHS}

    def only(self, graphs: Collection[str]) -> "GraphSettings":
        """The same for some graphs: others are not loaded."""
        kept = {*graphs, ALL_GRAPHS}
        return GraphSettings(
            inputs={name: key for name, key in self.inputs.items() if name in graphs},
            images=[name for name in self.images if name in graphs],
            state_types={name: listed for name, listed in self.state_types.items() if name in kept},
            idempotent_tools={name: listed for name, listed in self.idempotent_tools.items() if name in kept},
            non_idempotent_nodes={name: each for name, each in self.non_idempotent_nodes.items() if name in graphs},
        )


_NO_SETTINGS = GraphSettings()


def discover(
    references: Mapping[str, str],
    settings: GraphSettings = _NO_SETTINGS,
    *,
    worker_of: Callable[[str, str], WorkerSettings | None] = lambda name, origin: None,
) -> Graphs:
    """Load the operator's graphs and those of installed packages.

    Those for which ``worker_of`` returns settings are loaded in a process of their own.

    One that cannot be imported is kept with its problem: it must not keep the others from being used.

    Raises:
        NotFound: the settings name a graph that is not there.
        BrokenReference: two graphs have one name, or a type of ``state_types`` cannot be imported.
    """
    installed = [(point.name, point.value) for point in entry_points(group=ENTRY_POINTS)]

    def entry(named: tuple[str, str]) -> GraphEntry:
        name, origin = named
        source = problem = None
        worker = worker_of(name, origin)
        try:
            source = load_reference(origin) if worker is None else None
        except BrokenReference as error:
            problem = error.problem
        return GraphEntry(
            name,
            source,
            origin,
            input_key=settings.inputs.get(name),
            images=name in settings.images,
            idempotent_tools=frozenset(of_graph(settings.idempotent_tools, name)),
            non_idempotent_nodes=frozenset(settings.non_idempotent_nodes.get(name, ())),
            problem=problem,
            worker=worker,
            type_references=() if worker is None else of_graph(settings.state_types, name),
        )

    entries = [entry(named) for named in [*references.items(), *installed]]
    graphs = Graphs(entries)
    for name in settings.names():
        graphs.find(name)
    # Behind the graphs: a type of theirs may be in a module that only they make importable.
    listed = {each.name: of_graph(settings.state_types, each.name) for each in entries if each.worker is None}
    named_types = dict.fromkeys(each for types in listed.values() for each in types)
    types = dict(zip(named_types, load_all(named_types, allowed_type), strict=True))
    allowed = {name: frozenset(types[one] for one in listed[name]) for name in listed}
    return Graphs(replace(each, state_types=allowed.get(each.name, frozenset())) for each in entries)


def allowed_type(reference: str) -> AllowedType:
    found = load_reference(reference)
    if not inspect.isclass(found):
        raise BrokenReference(reference, f"is of type {type(found).__name__}; state_types lists classes")
    if found.__qualname__ != found.__name__:
        raise BrokenReference(reference, "is inside another class or function; move it to the top of its module")
    return found.__module__, found.__name__


@dataclass(frozen=True, slots=True)
class FactoryCall:
    """What a factory is called for: a run, or only to learn what its graph looks like."""

    config: RunnableConfig = field(default_factory=lambda: RunnableConfig(configurable={}))
    context: Any = None
    user: SessionUser | None = None
    is_run: bool = True

    def runtime(self, store: BaseStore) -> Any:
        # Private, but what a factory written for LangGraph's own server may ask for; a canary test pins it. Not in the
        # environments of older projects.
        from langgraph_sdk.runtime import _ExecutionRuntime, _ReadRuntime

        if not self.is_run:
            return _ReadRuntime(access_context="assistants.read", store=store, user=self.user)
        return _ExecutionRuntime(access_context="threads.create_run", store=store, user=self.user, context=self.context)


def is_made_for_each_run(entry: GraphEntry) -> bool:
    """Whether it is a factory that asks for a config or a runtime; any other is called once."""
    return _is_factory(entry.source) and any(_asks_for(each) for each in _parameters(entry.source))


async def open_graph(
    entry: GraphEntry, resources: AsyncExitStack, *, store: BaseStore, call: FactoryCall | None = None
) -> Graph | Builder:
    """The graph itself; a factory is called, and what it opens is closed with ``resources``.

    Raises:
        BrokenReference: it could not be imported, its factory failed, has unknown parameters, or
            returns no graph.
    """
    if entry.problem is not None:
        raise BrokenReference(entry.origin, entry.problem)
    made = entry.source
    if _is_factory(made):
        arguments = _arguments(entry, store, call or FactoryCall())
        with operator_code(entry.origin, "making the graph"):
            made = made(**arguments)
            if inspect.isawaitable(made):
                made = await made
            if isinstance(made, AbstractAsyncContextManager):
                made = await resources.enter_async_context(made)
            elif isinstance(made, AbstractContextManager):
                made = resources.enter_context(made)
    if not isinstance(made, Pregel | StateGraph):
        needed = "a compiled graph, a StateGraph or a function making one is needed"
        raise BrokenReference(entry.origin, f"is of type {type(made).__name__}; {needed}")
    return made


async def inspect_graph(entry: GraphEntry, config: RunnableConfig, *, store: BaseStore) -> Graph | Builder:
    """A graph of a factory that makes one for each run. It does not run: what was opened for it is closed."""
    call = FactoryCall(config, is_run=False)
    async with AsyncExitStack() as opened_for_it:
        try:
            return await open_graph(entry, opened_for_it, store=store, call=call)
        except BrokenReference as error:
            if config.get("configurable") or error.__cause__ is None:
                raise
            remedy = "if it needs a config to make a graph, an agent system with `config` can give it one"
            raise BrokenReference(entry.origin, f"{error.problem}; {remedy}") from error.__cause__


@asynccontextmanager
async def graph_of_run(
    entry: GraphEntry, call: FactoryCall, *, store: BaseStore, adopt: Callable[[Graph | Builder], Made]
) -> AsyncIterator[Made]:
    """The graph that a factory makes for one run, adopted; what it opens is closed with the run."""
    async with AsyncExitStack() as opened_for_it:
        try:
            made = await open_graph(entry, opened_for_it, store=store, call=call)
        except BrokenReference as error:  # to be reported like an error of a node
            raise error.__cause__ or TypeError(error.problem) from error
        yield adopt(made)


def adopted(
    graph: Graph | Builder, *, name: str, saver: Saver | None, store: BaseStore, types: Iterable[AllowedType] = ()
) -> Graph:
    """The graph with our saver and store; sub-graphs inherit both when they run.

    ``types`` may be in its stored state beside those of its schemas.

    Without a saver it uses that of the graph that it runs in. It is compiled again from its
    builder, because compiling makes LangGraph allow the types of its schema in stored state. A
    graph of the functional API has no builder and is copied.
    """
    compiled = _compilable(graph).compile() if isinstance(graph, StateGraph) else graph
    saver = with_types_of([compiled], saver, types)
    if not isinstance(compiled, CompiledStateGraph):
        return compiled.copy({"checkpointer": saver, "store": store, "name": name})
    compiled_again: Graph = _compilable(compiled.builder).compile(
        saver,
        store=store,
        cache=compiled.cache,
        interrupt_before=_nodes(compiled.interrupt_before_nodes),
        interrupt_after=_nodes(compiled.interrupt_after_nodes),
        debug=compiled.debug,
        name=name,
        **_transformers(compiled),
    )
    compiled_again.step_timeout = compiled.step_timeout
    compiled_again.retry_policy = compiled.retry_policy
    return compiled_again.with_config(compiled.config) if compiled.config else compiled_again


def check_nodes(entry: GraphEntry, graph: Graph) -> None:
    """Check the names of nodes that the operator's file has of a graph.

    Raises:
        BrokenReference: the graph has no such node.
    """
    if unknown := entry.non_idempotent_nodes - graph.nodes.keys():
        remedy = Suggestions().did_you_mean(min(unknown), list(graph.nodes))
        raise BrokenReference(entry.origin, f"non_idempotent_nodes: it has no node {min(unknown)!r}; {remedy}")


def with_types_of(graphs: Iterable[Graph], saver: Saver | None, types: Iterable[AllowedType] = ()) -> Saver | None:
    """The saver, allowed to restore the types in the states of these graphs, and further ``types``."""
    if saver is None:
        return None
    return saver.with_allowlist({*types, *(found for graph in graphs for found in state_types(graph))})


def unused_parts(store: BaseStore) -> str:
    """What is lost when a graph's own store is replaced; empty if it has neither items nor an index."""
    lost: list[str] = []
    if not isinstance(store, InMemoryStore):
        lost.append("items in it")  # it outlives the process, and to ask it may take long
    elif store.search((), limit=1):
        lost.append("its items")
    if getattr(store, "index_config", None):
        lost.append("its index for semantic search")
    return " and ".join(lost)


def _transformers(compiled: CompiledStateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    found = getattr(compiled, "stream_transformers", None)  # LangGraph before 1.2 has none
    return {"transformers": found} if found else {}


def _nodes(names: Any) -> list[str] | Literal["*"]:
    return "*" if names == "*" else list(names)


def _compilable(builder: Builder) -> Builder:
    """A copy without the node of ``set_node_defaults(error_handler=…)``, which compiling adds."""
    fresh = copy.copy(builder)
    fresh.nodes = dict(builder.nodes)
    fresh.nodes.pop(_ERROR_HANDLER, None)
    return fresh


def _is_factory(source: Any) -> bool:
    return callable(source) and not isinstance(source, Pregel | StateGraph)


def _parameters(factory: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    return inspect.signature(factory).parameters.values()


def _asks_for(parameter: inspect.Parameter) -> Literal["config", "runtime"] | None:
    """What LangGraph's server passes for a parameter of a factory, by annotation or name."""
    asked = f"{parameter.annotation} {parameter.name}"
    if "ServerRuntime" in asked or parameter.name == "runtime":
        return "runtime"
    return "config" if "RunnableConfig" in asked or parameter.name == "config" else None


def _arguments(entry: GraphEntry, store: BaseStore, call: FactoryCall) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for parameter in _parameters(entry.source):
        asked = _asks_for(parameter)
        if asked is not None:
            given[parameter.name] = call.config if asked == "config" else call.runtime(store)
        elif parameter.default is parameter.empty and parameter.kind not in _OPTIONAL:
            takes = "nothing, or config: RunnableConfig, or runtime: ServerRuntime"
            problem = f"asks for {parameter.name!r}, which we cannot give; a factory takes {takes}"
            raise BrokenReference(entry.origin, problem)
    return given
