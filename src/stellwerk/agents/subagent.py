"""An agent as a tool of another one.

The agent runs inside the tool, in the caller's graph run: its checkpoints, its
questions and its events are the caller's. What it says last is what the caller
reads.
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

from stellwerk.agents.checklist import lent
from stellwerk.agents.graph_input import Graph, Intake
from stellwerk.agents.images import ImageInput
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.agents.user_context import context_of
from stellwerk.envelope.canonical import canonical
from stellwerk.envelope.results import Text, ToolResult, to_result
from stellwerk.spec.model import CompleteAgent
from stellwerk.views.checklist import NAME as CHECKLIST


class Task(BaseModel):
    task: Annotated[str, Field(description="What is to be done, with everything the agent has to know for it.")]


@dataclass(frozen=True, slots=True)
class Built:
    """The graph of an agent, and how it is spoken to."""

    graph: Graph
    intake: Intake
    untrusted: bool
    """Whether it may come to read what strangers have written."""
    images: ImageInput = ImageInput()


def agent_tool(
    agent: CompleteAgent, *, name: str, inner: Callable[[], Awaitable[Built]], shares_checklist: bool = False
) -> BaseTool:
    """``inner`` is asked at each call, so that an agent may be built when it is first needed."""

    async def call(task: str, runtime: ToolRuntime[Any, Any]) -> ToolMessage | Command[Any]:
        built = await inner()
        call_id = runtime.tool_call_id or ""
        given = built.intake.to_input([HumanMessage(task)])
        if shares_checklist:
            given = {**given, **lent(runtime.state, call_id)}
        left = await built.graph.ainvoke(given, context=context_of(built.graph, runtime.config))
        result = answer_of(left)
        artifact = {ARTIFACT_KEY: 1, "result": msgspec.to_builtins(result)}
        message = ToolMessage(result.as_text(), tool_call_id=call_id, name=name, artifact=artifact)
        if shares_checklist and left.get(CHECKLIST):
            return Command(update={CHECKLIST: left[CHECKLIST], "messages": [message]})
        return message

    return StructuredTool(
        name=name,
        description=agent.description or f"Hands a task to the agent {agent.name}.",
        args_schema=Task,
        coroutine=call,
        metadata={ARTIFACT_KEY: {"agent": agent.name, "signal": agent.config.completion_signal}},
    )


def answer_of(left: Any) -> ToolResult:
    """What the agent leaves for its caller: its last words, or its whole output if it has none."""
    messages = left.get("messages") if isinstance(left, Mapping) else None
    if isinstance(messages, list):
        said = [m for m in messages if isinstance(m, AIMessage) and m.text]
        last = said[-1] if said else messages[-1] if messages else None
        return Text(text=str(last.text) if isinstance(last, BaseMessage) else "")
    result, _, _ = to_result(canonical(left).value)
    return result
