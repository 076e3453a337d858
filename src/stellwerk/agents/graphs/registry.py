"""Registry of the operator's graphs: found by name, made by a factory, compiled with our saver.

State, nodes and sub-graphs are not changed. Only the saver and the store are ours, so that
checkpoints are fenced and types in the state are restored as themselves.
"""

import copy
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph

# Private, but the only way to compile a graph with a default error handler twice; a canary test pins it.
from langgraph.graph.state import _DEFAULT_ERROR_HANDLER_NODE, CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

# Private, but what a factory written for LangGraph's own server may ask for; a canary test pins it.
from langgraph_sdk.runtime import _ExecutionRuntime

from stellwerk.agents.graphs.import_reference import load_all, load_reference, operator_code
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.graphs.state_types import state_types
from stellwerk.errors import BrokenReference, NotFound
from stellwerk.spec.messages import Suggestions

Builder = StateGraph[Any, Any, Any, Any]
Saver = BaseCheckpointSaver[Any]

ENTRY_POINTS = "stellwerk.graphs"
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


class Graphs:
    """The graphs that agents of kind ``graph`` may name."""

    def __init__(self, entries: Iterable[GraphEntry] = ()) -> None:
        self._entries: dict[str, GraphEntry] = {}
        for entry in entries:
            other = self._entries.setdefault(entry.name, entry)
            if other is not entry:
                problem = f"the name {entry.name!r} is taken by {other.origin}; choose another one"
                raise BrokenReference(entry.origin, problem)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def find(self, name: str) -> GraphEntry:
        if name not in self._entries:
            otherwise = None if self._entries else "the operator has registered none"
            remedy = Suggestions().did_you_mean(name, self._entries, otherwise=otherwise)
            raise NotFound("graph", name, remedy=remedy)
        return self._entries[name]


def discover(
    references: Mapping[str, str], *, inputs: Mapping[str, str] | None = None, images: Collection[str] = ()
) -> Graphs:
    """Load the operator's graphs and those of installed packages.

    ``inputs`` names the input key of graphs that need it, ``images`` the graphs that take images.
    """
    keys = inputs or {}
    installed = [(point.name, point.value) for point in entry_points(group=ENTRY_POINTS)]

    def entry(named: tuple[str, str]) -> GraphEntry:
        name, origin = named
        return GraphEntry(name, load_reference(origin), origin, keys.get(name), name in images)

    graphs = Graphs(load_all([*references.items(), *installed], entry))
    for name in [*keys, *images]:
        graphs.find(name)
    return graphs


async def open_graph(entry: GraphEntry, resources: AsyncExitStack, *, store: BaseStore) -> Graph | Builder:
    """The graph itself; a factory is called once, and what it opens is closed with ``resources``.

    Raises:
        BrokenReference: the factory failed, has unknown parameters, or returns no graph.
    """
    made = entry.source
    if callable(made) and not isinstance(made, Pregel | StateGraph):
        arguments = _arguments(entry, made, store)
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


def adopted(graph: Graph | Builder, *, name: str, saver: Saver | None, store: BaseStore) -> Graph:
    """The graph with our saver and store; sub-graphs inherit both when they run.

    Without a saver it uses that of the graph that it runs in. It is compiled again from its
    builder, because compiling makes LangGraph allow the types of its schema in stored state. A
    graph of the functional API has no builder and is copied.
    """
    compiled = _compilable(graph).compile() if isinstance(graph, StateGraph) else graph
    saver = with_types_of([compiled], saver)
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
        transformers=compiled.stream_transformers,
    )
    compiled_again.step_timeout = compiled.step_timeout
    compiled_again.retry_policy = compiled.retry_policy
    return compiled_again.with_config(compiled.config) if compiled.config else compiled_again


def with_types_of(graphs: Iterable[Graph], saver: Saver | None) -> Saver | None:
    """The saver, allowed to restore the types in the states of these graphs."""
    if saver is None:
        return None
    return saver.with_allowlist({found for graph in graphs for found in state_types(graph)})


def _nodes(names: Any) -> list[str] | Literal["*"]:
    return "*" if names == "*" else list(names)


def _compilable(builder: Builder) -> Builder:
    """A copy without the node of ``set_node_defaults(error_handler=…)``, which compiling adds."""
    fresh = copy.copy(builder)
    fresh.nodes = dict(builder.nodes)
    fresh.nodes.pop(_DEFAULT_ERROR_HANDLER_NODE, None)
    return fresh


def _arguments(entry: GraphEntry, factory: Callable[..., Any], store: BaseStore) -> dict[str, Any]:
    """The arguments that LangGraph's server passes to a factory, by annotation or name."""
    given: dict[str, Any] = {}
    for parameter in inspect.signature(factory).parameters.values():
        asked = f"{parameter.annotation} {parameter.name}"
        if "ServerRuntime" in asked or parameter.name == "runtime":
            given[parameter.name] = _ExecutionRuntime(access_context="threads.create_run", store=store)
        elif "RunnableConfig" in asked or parameter.name == "config":
            given[parameter.name] = {"configurable": {}}
        elif parameter.default is parameter.empty and parameter.kind not in _OPTIONAL:
            takes = "nothing, or config: RunnableConfig, or runtime: ServerRuntime"
            problem = f"asks for {parameter.name!r}, which we cannot give; a factory takes {takes}"
            raise BrokenReference(entry.origin, problem)
    return given
