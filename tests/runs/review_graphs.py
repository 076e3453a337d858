"""Graphs as operators write them that ask for a review: by LangChain's middleware, and in the form of Agent Inbox."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep


class Ledger:
    """A file that notes what was really done."""

    path = Path(__file__).with_name("ledger")


def note(line: str) -> str:
    with Ledger.path.open("a") as ledger:
        ledger.write(f"{line}\n")
    return line


@tool
def pay(to: str, amount: int) -> str:
    """Send money."""
    return note(f"paid {amount} to {to}")


@tool
def delete(path: str) -> str:
    """Delete a file."""
    return note(f"deleted {path}")


class StrictModel(ScriptedModel):
    """Rejects a tool call without a result, as providers do."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        wanted = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
        given = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
        if wanted != given:
            raise ValueError(f"tool_use ids were found without tool_result: {wanted - given}")
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


def calling(*calls: tuple[str, dict[str, Any]]) -> list[ScriptStep]:
    wanted = [ScriptCall(call=name, args=args) for name, args in calls]
    return [ScriptStep(calls=wanted), ScriptStep(say="Done: {result}")]


PAY = ("pay", {"to": "Ann", "amount": 5})
MODEL = StrictModel(
    script=[
        ScriptRule(when="pay", steps=calling(PAY)),
        ScriptRule(when="both", steps=calling(PAY, ("delete", {"path": "old.txt"}))),
        ScriptRule(when="delete", steps=calling(("delete", {"path": "old.txt"}))),
        ScriptRule(steps=[ScriptStep(say="I am here.")]),
    ]
)


def reviewed(**options: Any) -> Any:
    rules: Any = {"pay": True, "delete": {"allowed_decisions": ["approve", "reject"]}}
    return create_agent(MODEL, [pay, delete], middleware=[HumanInTheLoopMiddleware(rules, **options)])


hitl = reviewed()
per_call = reviewed(interrupt_mode="per_call")


def request(action: str, **allowed: bool) -> dict[str, Any]:
    config = {f"allow_{name}": allowed.get(name, False) for name in ("accept", "edit", "respond", "ignore")}
    return {
        "action_request": {"action": action, "args": {"subject": "Lunch", "to": "Ann"}},
        "config": config,
        "description": f"# {action}\nA mail to Ann.",
    }


EVERYTHING = {"accept": True, "edit": True, "respond": True, "ignore": True}


def decide(state: MessagesState) -> dict[str, Any]:
    """What the human said, as the graph received it."""
    word = state["messages"][-1].text
    if word == "mail":
        given = interrupt([request("send_mail", **EVERYTHING)])[0]
    elif word == "ask":
        given = interrupt([request("question", respond=True)])[0]
    elif word == "two":
        given = interrupt([request("send_mail", **EVERYTHING), request("book", accept=True, ignore=True)])
    elif word == "fragile":
        given = interrupt([request("send_mail", accept=True)])[0]["text"]  # there is no such field
    elif word == "bare":
        given = interrupt(request("send_mail", **EVERYTHING))
    else:
        return {"messages": [AIMessage("I am here.")]}
    return {"messages": [AIMessage(repr(given))]}


inbox: Any = StateGraph(MessagesState).add_node(decide).add_edge(START, "decide").compile()
