"""A desk for letters: a dict goes in, a router decides, and each tool call waits for a human in the Agent Inbox form.

The node runs the tools itself, with the arguments only, and possibly with those that the human edited.
"""

from typing import Any, Literal, TypedDict

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel


class Route(BaseModel):
    kind: Literal["ignore", "respond"]


class Letter(TypedDict):
    letter: dict[str, str]


class State(MessagesState):
    letter: dict[str, str]


@tool
def send_letter(to: str, text: str) -> str:
    """Send a letter."""
    return f"sent to {to}: {text}"


@tool
def done() -> str:
    """Call this when nothing is left to do."""
    return "done"


TOOLS = {"send_letter": send_letter, "done": done}


def route(state: State) -> Command[Literal["write", "__end__"]]:
    text = f"From {state['letter']['author']}: {state['letter']['text']}"
    routed = ChatOpenAI(model="small").with_structured_output(Route).invoke(text)
    if routed.kind == "ignore":  # type: ignore[union-attr]
        return Command(goto="__end__")
    return Command(goto="write", update={"messages": [{"role": "user", "content": f"Answer this letter. {text}"}]})


def write(state: State) -> dict[str, Any]:
    model = ChatOpenAI(model="small").bind_tools(list(TOOLS.values()), tool_choice="any")
    return {"messages": [model.invoke(state["messages"])]}


def act(state: State) -> Command[Literal["write", "__end__"]]:
    results = []
    for call in state["messages"][-1].tool_calls:  # type: ignore[union-attr]
        if call["name"] == "done":
            return Command(goto="__end__")
        request = {
            "action_request": {"action": call["name"], "args": call["args"]},
            "config": {"allow_accept": True, "allow_edit": True, "allow_ignore": True, "allow_respond": False},
            "description": "A letter is about to be sent.",
        }
        said = interrupt([request])[0]
        args = said["args"]["args"] if said["type"] == "edit" else call["args"]
        content = "not sent" if said["type"] == "ignore" else TOOLS[call["name"]].invoke(args)
        results.append(ToolMessage(content, tool_call_id=call["id"]))
    return Command(goto="write", update={"messages": results})


graph = (
    StateGraph(State, input_schema=Letter)
    .add_node(route)
    .add_node(write)
    .add_node(act)
    .set_entry_point("route")
    .add_edge("write", "act")
    .compile()
)
