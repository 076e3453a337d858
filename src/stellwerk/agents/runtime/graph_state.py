"""The state of a session's graph, outside of a run: LangGraph's ``get_state`` and ``update_state``.

Reducers and edges are the graph's own. An update is only prepared here: the rows that it would
store are collected, and the caller commits them together with the envelopes that record it.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.constants import END, START
from langgraph.errors import InvalidUpdateError
from langgraph.types import StateSnapshot

from stellwerk.agents.checkpoints.saver import EPOCH
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.runtime.saved_states import (
    PendingInterrupt,
    PendingTask,
    PreparedUpdate,
    SavedState,
    StateUpdate,
)
from stellwerk.errors import InvalidField

_ROOT = "__root__"
_REJECTIONS = (InvalidUpdateError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError)
"""What reducers and edges of a graph raise for values that they cannot take."""


async def read_state(agent: RunnableAgent, session_id: str, checkpoint_id: str | None = None) -> SavedState | None:
    """The state now, or at a checkpoint; None if there is no such checkpoint."""
    if agent.elsewhere is not None:
        return await agent.elsewhere.read_state(session_id, checkpoint_id)
    found = await agent.graph.aget_state(_config(session_id, checkpoint_id))
    if found.created_at is None:
        return SavedState({}) if checkpoint_id is None else None
    return _saved_state(found)


async def state_history(
    agent: RunnableAgent, session_id: str, *, before: str | None, limit: int
) -> AsyncIterator[SavedState]:
    """States from the newest to the oldest, one at a time: a long history does not fit into memory."""
    if agent.elsewhere is not None:
        async for state in agent.elsewhere.state_history(session_id, before=before, limit=limit):
            yield state
        return
    for _ in range(limit):
        cursor = None if before is None else _config(session_id, before)
        found = [each async for each in agent.graph.aget_state_history(_config(session_id), before=cursor, limit=1)]
        if not found:
            return
        state = _saved_state(found[0])
        yield state
        before = state.checkpoint_id


async def prepare_update(agent: RunnableAgent, session_id: str, epoch: int, update: StateUpdate) -> PreparedUpdate:
    """Apply the update with the graph's reducers and edges, and store nothing.

    Raises:
        InvalidField: a key or a node is unknown, or the graph does not accept the values.
    """
    if agent.elsewhere is not None:
        return await agent.elsewhere.prepare_update(session_id, epoch, update)
    graph = agent.graph
    config = _config(session_id, update.checkpoint_id, epoch)
    node = update.as_node or await _last_node(graph, config)
    if node is None:
        said = f"as_node: several nodes ran last; say whose change this is: {', '.join(nodes_of(graph))}"
        raise InvalidField(said, field="as_node")
    _check_node(graph, node, update.values)
    _check_keys(graph, node, update.values)
    prepared = PreparedUpdate(node)
    try:
        with running_in(RunContext(journal=prepared)):
            await graph.aupdate_state(config, update.values, as_node=node)
    except _REJECTIONS as error:
        said = f"values: the graph does not accept them: {type(error).__name__}: {str(error)[:300]}"
        raise InvalidField(said, field="values") from error
    return prepared


def nodes_of(graph: Graph) -> list[str]:
    return [name for name in graph.nodes if name != START]


def keys_of(graph: Graph, node: str) -> list[str] | None:
    """The keys that a change as this node may have; None for a graph without keys."""
    builder = getattr(graph, "builder", None)
    if builder is None or _ROOT in builder.channels:
        return None
    known = builder.schemas[builder.input_schema] if node == START else builder.channels
    return [key for key in known if key in builder.channels and not key.startswith("__")]


def _check_node(graph: Graph, node: str, values: Any) -> None:
    if node in graph.nodes or (node == END and values is None):
        return
    listed = ", ".join([START, *nodes_of(graph)])
    end = f"; {END} takes no values" if node == END else ""
    raise InvalidField(f"as_node: this graph has no node {node[:80]!r}; there are: {listed}{end}", field="as_node")


def _check_keys(graph: Graph, node: str, values: Any) -> None:
    known = keys_of(graph, node)
    if known is None or values is None:
        return
    if not isinstance(values, dict):
        raise InvalidField(f"values: send an object with keys of the state: {', '.join(known)}", field="values")
    unknown = [key for key in values if key not in known]
    if unknown:
        place = f"values.{unknown[0][:80]}"
        said = f"{place}: the state of this graph has no such key; there are: {', '.join(known)}"
        if node == START:
            said = f"{place}: as {START} only keys of the graph's input can be changed: {', '.join(known)}; name a node"
        raise InvalidField(said, field=place)


async def _last_node(graph: Graph, config: RunnableConfig) -> str | None:
    """The node that ``update_state`` takes by default. Private there; a test pins it."""
    saved = await graph.checkpointer.aget_tuple(config)  # type: ignore[union-attr]
    seen = {} if saved is None else saved.checkpoint["versions_seen"]
    infer = getattr(graph, "_infer_as_node", None) or partial(_infer_as_node, graph)
    node: str | None = infer(seen)
    return node


def _infer_as_node(graph: Graph, seen: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The same for LangGraph before 1.2, which has no such function."""
    newest = sorted((version, node) for node in seen.keys() & graph.nodes.keys() for version in seen[node].values())
    if not newest or len(graph.nodes) == 1:
        return next(iter(graph.nodes))
    is_alone = len(newest) == 1 or newest[-1][0] != newest[-2][0]
    return newest[-1][1] if is_alone else None


def _saved_state(found: StateSnapshot) -> SavedState:
    metadata = found.metadata or {}
    created_at = None if found.created_at is None else datetime.fromisoformat(found.created_at).timestamp()
    return SavedState(
        values=found.values,
        next=found.next,
        tasks=[
            PendingTask(
                task.id,
                task.name,
                None if task.error is None else type(task.error).__name__,
                [PendingInterrupt(asked.id, asked.value) for asked in task.interrupts],
            )
            for task in found.tasks
        ],
        checkpoint_id=_checkpoint_id(found.config),
        parent_id=_checkpoint_id(found.parent_config),
        created_at=created_at,
        source=metadata.get("source"),
        step=metadata.get("step"),
    )


def _checkpoint_id(config: RunnableConfig | None) -> str | None:
    return None if config is None else config["configurable"].get("checkpoint_id")


def _config(session_id: str, checkpoint_id: str | None = None, epoch: int | None = None) -> RunnableConfig:
    given = {"checkpoint_id": checkpoint_id, EPOCH: epoch}
    return {"configurable": {"thread_id": session_id, **{key: each for key, each in given.items() if each is not None}}}
