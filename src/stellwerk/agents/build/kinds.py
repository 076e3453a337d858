"""Kinds of agents: ``react``, ``deep`` and those of plug-ins; and an agent as a tool of another.

Deep Agents of LangChain have files in their state and sub-agents behind one ``task`` tool. Files
never reach the host: the only backend is the graph's state. The package is an extra, imported when
the first deep agent is built. LangChain's agents, too, are imported when the first one is built: a
server of graphs needs none of it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.prebuilt import ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.types import Command
from pydantic import BaseModel, Field

from stellwerk import plugins
from stellwerk.agents.build.checklist_tools import has_checklist, shared_checklist
from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.graphs.state_types import AllowedType
from stellwerk.agents.runtime.context import graph_context
from stellwerk.agents.runtime.images import ImageInput
from stellwerk.agents.runtime.runnable import GraphOfRun
from stellwerk.agents.tools.call import SaveFiles
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.results import Text, ToolResult
from stellwerk.envelope.to_json import canonical, to_result
from stellwerk.errors import SpecError
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent, Effect
from stellwerk.views.checklist import NAME as CHECKLIST

if TYPE_CHECKING:
    from stellwerk.agents.middleware.types import Middleware

ALL_EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))


@dataclass(frozen=True, slots=True)
class BuiltAgent:
    """The graph of an agent, and the form of its input."""

    graph: Graph
    graph_input: GraphInput
    untrusted: bool
    """Whether it may read untrusted content."""
    images: ImageInput = ImageInput()
    state_types: frozenset[AllowedType] = frozenset()
    """Types that the operator allows in the stored state of graphs in it."""
    idempotent_tools: frozenset[str] = frozenset()
    """Tools of graphs in it that may be repeated after a crash."""
    non_idempotent_nodes: frozenset[str] = frozenset()
    """Nodes of its graph that must not be repeated after a crash."""
    of_run: GraphOfRun | None = None
    """Makes the graph of one run, if its factory asks for the run's config."""


@dataclass(frozen=True, slots=True)
class KindParts:
    """What the graph of an agent is made of, beside its description."""

    model: BaseChatModel
    tools: Sequence[BaseTool] = ()
    middleware: "Sequence[Middleware]" = ()
    guards: "Sequence[Middleware]" = ()
    """Middleware without the answer settings, for agents that share its tools and limits."""
    below: Sequence[tuple[AgentAsTool, BuiltAgent]] = ()
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
    ours: dict[str, AgentKind] = {"react": build_react, "deep": build_deep}
    found = ours.get(name) or plugins.loaded(plugins.AGENT_KINDS).get(name)
    if found is None:
        remedy = "install one, or reinstall stellwerk"
        raise SpecError(f"no installed package has agents of kind {name!r}; {remedy}")
    return found


def prompt_of(config: AgentConfig) -> str:
    """The system prompt, followed by the mission; empty if there is neither."""
    parts = [config.system_prompt, f"# Mission\n\n{config.mission}" if config.mission else ""]
    return "\n\n".join(part for part in parts if part)


def build_react(agent: CompleteAgent, parts: KindParts) -> Graph:
    """LangChain's ``create_agent``; each sub-agent is a tool."""
    from langchain.agents import create_agent

    from stellwerk.agents.middleware.types import CustomStateShared

    below = [_as_tool(agent, use, built) for use, built in parts.below]
    return create_agent(
        parts.model,
        [*parts.tools, *below],
        system_prompt=prompt_of(agent.config) or None,
        middleware=list(parts.middleware),
        state_schema=CustomStateShared,
        checkpointer=parts.saver,
        store=parts.store,
        name=agent.name,
    )


def _as_tool(agent: CompleteAgent, use: AgentAsTool, built: BuiltAgent) -> BaseTool:
    async def inner() -> BuiltAgent:
        return built

    shared = has_checklist(agent) and has_checklist(use.agent)
    return agent_tool(use.agent, name=name_of(use), inner=inner, shares_checklist=shared)


def name_of(use: AgentAsTool) -> str:
    return use.name or use.agent.name


def build_deep(agent: CompleteAgent, parts: KindParts) -> Graph:
    try:
        from deepagents import create_deep_agent
        from deepagents.backends import StateBackend
        from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
    except ImportError as error:
        remedy = "pip install 'path/to/stellwerk[deep]'"
        problem = f"the agent {agent.name!r} is of kind deep, which needs a package: {remedy}"
        raise SpecError(problem) from error
    return create_deep_agent(
        parts.model,
        list(parts.tools),
        system_prompt=prompt_of(agent.config) or None,
        middleware=list(parts.middleware),
        # By default the library gives this sub-agent the agent's tools without its middleware.
        subagents=[
            {**GENERAL_PURPOSE_SUBAGENT, "middleware": list(parts.guards)},
            *(_deep_subagent(use, built) for use, built in parts.below),
        ],
        backend=StateBackend(),
        checkpointer=parts.saver,
        store=parts.store,
        name=agent.name,
    )


def _deep_subagent(use: AgentAsTool, built: BuiltAgent) -> Any:
    name = name_of(use)
    if "messages" not in built.graph.output_channels:
        problem = "does not return 'messages', so its caller would get no answer"
        remedy = "add them to its output schema"
        raise SpecError(f"the graph of the sub-agent {name!r} {problem}; {remedy}")
    return {"name": name, "description": use.agent.description, "runnable": built.graph}


class _Task(BaseModel):
    task: Annotated[
        str,
        Field(description="What is to be done, with everything the agent has to know for it."),
    ]


def agent_tool(
    agent: CompleteAgent, *, name: str, inner: Callable[[], Awaitable[BuiltAgent]], shares_checklist: bool = False
) -> BaseTool:
    """An agent as a tool: it runs inside the tool, and its last message is the result.

    Its checkpoints, interrupts and events belong to the caller's run. ``inner`` is awaited at each
    call, so the agent can be built when it is first needed.
    """

    async def call(task: str, runtime: ToolRuntime[Any, Any]) -> ToolMessage | Command[Any]:
        built = await inner()
        call_id = runtime.tool_call_id or ""
        given = built.graph_input.to_input([HumanMessage(task)])
        if shares_checklist:
            given = {**given, **shared_checklist(runtime.state, call_id)}
        left = await built.graph.ainvoke(given, context=graph_context(built.graph, runtime.config))
        result = answer_of(left)
        artifact = {ARTIFACT_KEY: 1, "result": msgspec.to_builtins(result)}
        message = ToolMessage(result.as_text(), tool_call_id=call_id, name=name, artifact=artifact)
        if shares_checklist and left.get(CHECKLIST):
            return Command(update={CHECKLIST: left[CHECKLIST], "messages": [message]})
        return message

    return StructuredTool(
        name=name,
        description=agent.description or f"Hands a task to the agent {agent.name}.",
        args_schema=_Task,
        coroutine=call,
        metadata={ARTIFACT_KEY: {"agent": agent.name, "signal": agent.config.completion_signal}},
    )


def answer_of(left: Any) -> ToolResult:
    """The result for the caller: the text of the last message, or the whole output without one."""
    messages = left.get("messages") if isinstance(left, Mapping) else None
    if isinstance(messages, list):
        said = [m for m in messages if isinstance(m, AIMessage) and m.text]
        last = said[-1] if said else messages[-1] if messages else None
        return Text(text=str(last.text) if isinstance(last, BaseMessage) else "")
    result, _, _ = to_result(canonical(left).value)
    return result
