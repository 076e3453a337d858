"""The operator's own graphs: registered by name, made by a factory if need be, recompiled with our saver and store.

A graph stays what it is: its state, its nodes and the graphs inside it are
not touched. Only where it stores is ours, so that its checkpoints are fenced
and its types come back as themselves.
"""

import copy
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from difflib import get_close_matches
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

from stellwerk.agents.graph_types import state_types
from stellwerk.agents.references import Blaming, each, load_reference
from stellwerk.errors import BrokenReference, NotFound

Graph = Pregel[Any, Any, Any, Any]
Builder = StateGraph[Any, Any, Any, Any]

ENTRY_POINTS = "stellwerk.graphs"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """A graph under a name, as its owner wrote it."""

    name: str
    source: Any
    """A compiled graph, a StateGraph, or a function that makes one."""
    origin: str
    """Where it was found, for messages."""
    input_key: str | None = None
    """The key of its input that takes the user's message; found by itself if nothing is said."""
    images: bool = False
    """Whether its messages may hold images."""


class Graphs:
    """The graphs that agents of kind ``graph`` may name."""

    def __init__(self, entries: Iterable[GraphEntry] = ()) -> None:
        self._entries: dict[str, GraphEntry] = {}
        for entry in entries:
            if other := self._entries.get(entry.name):
                raise BrokenReference(
                    entry.origin, f"the name {entry.name!r} is taken by {other.origin}; choose another one"
                )
            self._entries[entry.name] = entry

    def names(self) -> list[str]:
        return sorted(self._entries)

    def find(self, name: str) -> GraphEntry:
        """
        Raises:
            NotFound: no graph has this name.
        """
        if name not in self._entries:
            near = get_close_matches(name, self._entries, n=1)
            known = f"known are: {', '.join(self.names())}" if self._entries else "the operator has registered none"
            raise NotFound("graph", name, remedy=f"did you mean {near[0]!r}?" if near else known)
        return self._entries[name]


def discover(
    references: Mapping[str, str], *, inputs: Mapping[str, str] | None = None, images: Collection[str] = ()
) -> Graphs:
    """Load the graphs that the operator names, and those that installed packages bring.

    ``inputs`` names the input key of graphs that need it, ``images`` the graphs whose messages may hold images.

    Raises:
        BrokenReference: references cannot be loaded, or two graphs have one name.
        NotFound: ``inputs`` or ``images`` name a graph that is not there.
    """
    keys = dict(inputs or {})
    installed = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    named = [*references.items(), *installed.items()]

    def entry(one: tuple[str, str]) -> GraphEntry:
        name, origin = one
        return GraphEntry(name, load_reference(origin), origin, keys.get(name), name in images)

    graphs = Graphs(each(named, entry))
    for name in [*keys, *images]:
        graphs.find(name)
    return graphs


async def open_graph(entry: GraphEntry, resources: AsyncExitStack, *, store: BaseStore) -> Graph | Builder:
    """The graph itself; a factory is called, once, and what it opens is closed with ``resources``.

    Raises:
        BrokenReference: the factory failed, asks for what we cannot give, or gives no graph.
    """
    made = entry.source
    if callable(made) and not isinstance(made, Pregel | StateGraph):
        arguments = _arguments(entry, made, store)
        with Blaming(entry.origin, "making the graph"):
            made = made(**arguments)
            if inspect.isawaitable(made):
                made = await made
            if isinstance(made, AbstractAsyncContextManager):
                made = await resources.enter_async_context(made)
            elif isinstance(made, AbstractContextManager):
                made = resources.enter_context(made)
    if not isinstance(made, Pregel | StateGraph):
        raise BrokenReference(
            entry.origin,
            f"is of type {type(made).__name__}; a compiled graph, a StateGraph or a function making one is needed",
        )
    return made


def adopted(graph: Graph | Builder, *, name: str, saver: BaseCheckpointSaver[Any] | None, store: BaseStore) -> Graph:
    """The same graph, storing with our saver and store; sub-graphs inherit both when they run.

    Without a saver it stores with the graph that it runs in. It is compiled anew from its builder, because
    that is what makes LangGraph allow the types of its schema in stored state. A graph of the functional
    API has no builder and is copied.
    """
    compiled = _compilable(graph).compile() if isinstance(graph, StateGraph) else graph
    if saver is not None:
        saver = saver.with_allowlist(state_types(compiled))
    if not isinstance(compiled, CompiledStateGraph):
        return compiled.copy({"checkpointer": saver, "store": store, "name": name})
    anew: Graph = _compilable(compiled.builder).compile(
        saver,
        store=store,
        cache=compiled.cache,
        interrupt_before=_nodes(compiled.interrupt_before_nodes),
        interrupt_after=_nodes(compiled.interrupt_after_nodes),
        debug=compiled.debug,
        name=name,
        transformers=compiled.stream_transformers,
    )
    anew.step_timeout, anew.retry_policy = compiled.step_timeout, compiled.retry_policy
    return anew.with_config(compiled.config) if compiled.config else anew


def _nodes(names: Any) -> list[str] | Literal["*"]:
    return "*" if names == "*" else list(names)


def _compilable(builder: Builder) -> Builder:
    """Compiling puts the node for ``set_node_defaults(error_handler=…)`` into the builder, and fails if it is there."""
    fresh = copy.copy(builder)
    fresh.nodes = {name: node for name, node in builder.nodes.items() if name != _DEFAULT_ERROR_HANDLER_NODE}
    return fresh


def _arguments(entry: GraphEntry, factory: Callable[..., Any], store: BaseStore) -> dict[str, Any]:
    """What LangGraph's server would hand to the factory, told by annotation or name."""
    given: dict[str, Any] = {}
    for parameter in inspect.signature(factory).parameters.values():
        asked = f"{parameter.annotation} {parameter.name}"
        if "ServerRuntime" in asked or parameter.name == "runtime":
            given[parameter.name] = _ExecutionRuntime(access_context="threads.create_run", store=store)
        elif "RunnableConfig" in asked or parameter.name == "config":
            given[parameter.name] = {"configurable": {}}
        elif _must_be_given(parameter):
            raise BrokenReference(
                entry.origin,
                f"asks for {parameter.name!r}, which we cannot give; a factory takes nothing, "
                "or config: RunnableConfig, or runtime: ServerRuntime",
            )
    return given


def _must_be_given(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )
