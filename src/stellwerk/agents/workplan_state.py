"""What a workplan remembers: the state of its graph, and what is looked up in it."""

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from langchain_core.messages import AnyMessage, BaseMessage, ToolMessage
from langgraph.graph import add_messages

from stellwerk.agents.documents import Known
from stellwerk.agents.middleware.conversation import since_input
from stellwerk.agents.middleware.reading import FILES_READ, read_so_far
from stellwerk.agents.workplan_plan import Workplan
from stellwerk.views.status import TASK


class WorkplanState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    """What was said; among it, as tool messages, what came of each task."""
    plan: NotRequired[dict[str, Any]]
    plan_id: NotRequired[str]
    spent: NotRequired[dict[str, Any]]
    """What the round has cost before it had a plan."""
    refused: NotRequired[dict[str, str] | None]
    """A plan that did not fit, and why."""
    read: NotRequired[list[str]]
    """By what something untrusted has come into the conversation, if anything has; it stays, whatever is removed."""


class TaskState(TypedDict):
    """What one task is given."""

    number: int
    """Its place in the order of work, from 1."""
    count: int
    id: str
    """Of its call, and of the message that tells what came of it."""
    agent: str
    args: dict[str, Any]
    spent: dict[str, Any]
    """What the round has cost before it."""
    read: NotRequired[list[str]]
    """By what something untrusted was read before it, if any was."""


def question(state: WorkplanState) -> BaseMessage:
    """What the user said last."""
    return state["messages"][len(state["messages"]) - len(since_input(state["messages"])) - 1]


def plan_in(state: WorkplanState) -> Workplan:
    return Workplan.model_validate(state["plan"])


def results_in(state: WorkplanState) -> dict[str, ToolMessage]:
    """What came of the tasks of this round, by their ids."""
    return {m.tool_call_id: m for m in since_input(state["messages"]) if isinstance(m, ToolMessage)}


def task_id(state: WorkplanState, n: int) -> str:
    return f"{TASK}{n + 1}-{state['plan_id']}"


def read_in(state: WorkplanState, known: Sequence[Known] = ()) -> list[str]:
    """By what something untrusted was read, up to now; of documents the planner reads names and summaries."""
    files = [FILES_READ] if known else []
    return list(dict.fromkeys([*state.get("read", ()), *read_so_far(state["messages"]), *files]))
