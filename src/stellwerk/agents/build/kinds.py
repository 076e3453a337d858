"""Kinds of agents whose graph is not ``create_agent``: ``deep``, and those that plug-ins build.

Deep Agents of LangChain have files in their state and sub-agents behind one ``task`` tool. Files never
reach the host: the only backend is the graph's state. The package is an extra, imported when the first
deep agent is built.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from stellwerk import plugins
from stellwerk.agents.build.subagent import BuiltAgent
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.middleware.request import prompt_of
from stellwerk.agents.middleware.types import Middleware
from stellwerk.agents.tools.call import SaveFiles
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentAsTool, CompleteAgent, Effect

if TYPE_CHECKING:
    from deepagents import CompiledSubAgent

ALL_EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))


@dataclass(frozen=True, slots=True)
class KindParts:
    """What the graph of an agent is made of, beside its description."""

    model: BaseChatModel
    tools: Sequence[BaseTool] = ()
    middleware: Sequence[Middleware] = ()
    guards: Sequence[Middleware] = ()
    """Middleware without the settings for its answer, for agents that have its tools, limits and approvals."""
    below: Sequence[tuple[AgentAsTool, BuiltAgent]] = ()
    """The agents that it may use."""
    effects: frozenset[Effect] = ALL_EFFECTS
    """Effects of the tools that it may have."""
    asked: frozenset[Effect] = frozenset()
    """Effects of the tools whose calls the user approves once something untrusted was read."""
    keep: SaveFiles | None = None
    """Stores the files that tools return."""
    saver: BaseCheckpointSaver[Any] | None = None
    store: BaseStore | None = None


AgentKind = Callable[[CompleteAgent, KindParts], Graph]
"""Builds the graph of an agent. Its entry point has the name of the kind."""


def agent_kind(name: str) -> AgentKind:
    """
    Raises:
        SpecError: no installed package brings this kind.
    """
    found: AgentKind | None = build_deep if name == "deep" else plugins.loaded(plugins.AGENT_KINDS).get(name)
    if found is None:
        raise SpecError(f"no installed package has agents of kind {name!r}; install one, or reinstall stellwerk")
    return found


def build_deep(agent: CompleteAgent, parts: KindParts) -> Graph:
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
    return create_deep_agent(
        parts.model,
        list(parts.tools),
        system_prompt=prompt_of(agent.config) or None,
        middleware=list(parts.middleware),
        # By default the library gives this sub-agent the agent's tools without the agent's middleware.
        subagents=[
            {**GENERAL_PURPOSE_SUBAGENT, "middleware": list(parts.guards)},
            *(_deep_subagent(use, built) for use, built in parts.below),
        ],
        backend=StateBackend(),
        checkpointer=parts.saver,
        store=parts.store,
        name=agent.name,
    )


def _deep_subagent(use: AgentAsTool, built: BuiltAgent) -> "CompiledSubAgent":
    name = use.name or use.agent.name
    if "messages" not in built.graph.output_channels:
        raise SpecError(
            f"the graph of the sub-agent {name!r} does not return 'messages', so its caller would get no answer; "
            "add them to its output schema"
        )
    return {"name": name, "description": use.agent.description, "runnable": built.graph}
