"""Sub-agents: an agent as a tool of another one.

The sub-agent runs inside the tool, in the caller's graph run: checkpoints, interrupts and events
belong to the caller's run. Its last message is the tool result.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, Field

from stellwerk.agents.build.checklist import shared_checklist
from stellwerk.agents.graphs.input import Graph, GraphInput
from stellwerk.agents.runtime.context import graph_context
from stellwerk.agents.runtime.images import ImageInput
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.results import Text, ToolResult
from stellwerk.envelope.to_json import canonical, to_result
from stellwerk.spec.model import CompleteAgent
from stellwerk.views.checklist import NAME as CHECKLIST


class _Task(BaseModel):
    task: Annotated[str, Field(description="What is to be done, with everything the agent has to know for it.")]


@dataclass(frozen=True, slots=True)
class BuiltAgent:
    """The graph of an agent, and the form of its input."""

    graph: Graph
    graph_input: GraphInput
    untrusted: bool
    """Whether it may read untrusted content."""
    images: ImageInput = ImageInput()


def agent_tool(
    agent: CompleteAgent, *, name: str, inner: Callable[[], Awaitable[BuiltAgent]], shares_checklist: bool = False
) -> BaseTool:
    """``inner`` is awaited at each call, so the agent can be built when it is first needed."""

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
    """The result for the caller: the text of the agent's last message, or its whole output if it has none."""
    messages = left.get("messages") if isinstance(left, Mapping) else None
    if isinstance(messages, list):
        said = [m for m in messages if isinstance(m, AIMessage) and m.text]
        last = said[-1] if said else messages[-1] if messages else None
        return Text(text=str(last.text) if isinstance(last, BaseMessage) else "")
    result, _, _ = to_result(canonical(left).value)
    return result
