"""Graphs that ask for reviews as LangChain's middleware and Agent Inbox do, and one that takes a text and fields."""

from typing import Any, Literal

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

MAIL = {"to": "ann@example.com", "subject": "The offer", "body": "Dear Ann,\n\nhere it is.", "urgent": False}


def ask(state: MessagesState) -> dict[str, Any]:
    """The request of HumanInTheLoopMiddleware, for two calls."""
    decisions = interrupt(
        {
            "action_requests": [
                {"name": "send_mail", "args": MAIL, "description": "The mail goes to a customer."},
                {"name": "book_room", "args": {"room": "Blue", "seats": 4, "from": {"day": "Monday", "hour": 9}}},
            ],
            "review_configs": [
                {"action_name": "send_mail", "allowed_decisions": ["approve", "edit", "reject"]},
                {"action_name": "book_room", "allowed_decisions": ["approve", "reject"]},
            ],
        }
    )
    return {"messages": [AIMessage(str([one["type"] for one in decisions["decisions"]]))]}


def inbox(state: MessagesState) -> dict[str, Any]:
    """The request of Agent Inbox."""
    config = {"allow_accept": True, "allow_edit": True, "allow_ignore": True, "allow_respond": True}
    request = {
        "action_request": {"action": "send_mail", "args": MAIL},
        "config": config,
        "description": "# Draft\n\nA mail from **Ann** wants an answer:\n\n> Where is the offer?",
    }
    response = interrupt([request])[0]
    return {"messages": [AIMessage(f"{response['type']}: {response['args']}")]}


middleware: Any = StateGraph(MessagesState).add_node(ask).add_edge(START, "ask").compile()
agent_inbox: Any = StateGraph(MessagesState).add_node(inbox).add_edge(START, "inbox").compile()


class Both(MessagesState):
    tone: Literal["friendly", "formal"]
    tags: list[str]


class Settings(TypedDict, total=False):
    language: str


def reply(state: Both) -> dict[str, Any]:
    said = state["messages"][-1].text if state["messages"] else "nothing"
    return {"messages": [AIMessage(f"{said}, {state.get('tone')}, {', '.join(state.get('tags', []))}")]}


both: Any = StateGraph(Both, context_schema=Settings).add_node(reply).add_edge(START, "reply").compile()
only_chat: Any = StateGraph(MessagesState).add_node("reply", reply).add_edge(START, "reply").compile()
