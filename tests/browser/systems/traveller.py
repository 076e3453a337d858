"""A graph that asks for more than a word: its question has a schema."""

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

SCHEMA = {
    "type": "object",
    "required": ["name", "age", "address"],
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "age": {"type": "integer", "title": "Age", "minimum": 18, "description": "In years."},
        "class": {"enum": ["first", "second"], "title": "Class", "default": "second"},
        "window": {"type": "boolean", "title": "At the window"},
        "address": {
            "type": "object",
            "title": "Address",
            "required": ["city"],
            "properties": {"city": {"type": "string", "title": "City"}},
        },
    },
}


def ask(state: MessagesState) -> MessagesState:
    told = interrupt({"question": "Who travels?", "schema": SCHEMA})
    return {"messages": [AIMessage(f"{told['name']}, {told['age']}, goes to {told['address']['city']}.")]}


graph = StateGraph(MessagesState).add_node(ask).add_edge(START, "ask").compile()
