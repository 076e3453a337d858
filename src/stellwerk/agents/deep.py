"""Agents of kind ``deep``: LangChain's Deep Agents, with files in their state and sub-agents behind one ``task`` tool.

Its files never touch the host: the only backend is the graph's own state. The
package is an extra and is imported when the first deep agent is built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

from stellwerk.agents.graph_types import state_types
from stellwerk.agents.middleware.kinds import Middleware
from stellwerk.agents.middleware.prompt import prompt_of
from stellwerk.errors import SpecError
from stellwerk.spec.model import CompleteAgent

if TYPE_CHECKING:
    from deepagents import CompiledSubAgent

Graph = Pregel[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True)
class SubAgentGraph:
    """A compiled graph that the ``task`` tool offers; it takes and returns ``messages``."""

    name: str
    description: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class DeepParts:
    """What a deep agent is put together from, beside its description."""

    model: BaseChatModel
    tools: Sequence[BaseTool] = ()
    subagents: Sequence[SubAgentGraph] = ()
    middleware: Sequence[Middleware] = ()
    """Of the agent itself."""
    guards: Sequence[Middleware] = ()
    """Of the general-purpose sub-agent, which has the same tools: the agent's limits and approvals bind it, too."""


def build_deep(
    agent: CompleteAgent, parts: DeepParts, *, saver: BaseCheckpointSaver[Any] | None, store: BaseStore | None = None
) -> Graph:
    """Build the graph of a deep agent.

    Raises:
        SpecError: the extra is not installed, or a sub-agent has no ``messages`` to answer with.
    """
    try:
        from deepagents import create_deep_agent
        from deepagents.backends import StateBackend
        from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
    except ImportError as error:
        raise SpecError(
            f"the agent {agent.name!r} is of kind deep, which needs a package: pip install 'path/to/stellwerk[deep]'"
        ) from error
    allowed = {found for sub in parts.subagents for found in state_types(sub.graph)}
    return create_deep_agent(
        parts.model,
        list(parts.tools),
        system_prompt=prompt_of(agent.config) or None,
        middleware=list(parts.middleware),
        # Left to itself, the library gives this one the agent's tools without the agent's middleware.
        subagents=[{**GENERAL_PURPOSE_SUBAGENT, "middleware": list(parts.guards)}, *map(_offered, parts.subagents)],
        backend=StateBackend(),
        checkpointer=None if saver is None else saver.with_allowlist(allowed),
        store=store,
        name=agent.name,
    )


def _offered(sub: SubAgentGraph) -> "CompiledSubAgent":
    if "messages" not in sub.graph.output_channels:
        raise SpecError(
            f"the graph of the sub-agent {sub.name!r} does not return 'messages', so nobody would hear its answer; "
            "add them to its output schema"
        )
    return {"name": sub.name, "description": sub.description, "runnable": sub.graph}
