"""A graph of very many small steps, each of which leaves a line in a file."""

from operator import add
from pathlib import Path
from typing import Annotated

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

STEPS = 200


class State(MessagesState):
    done: Annotated[int, add]


async def step(state: State) -> dict[str, object]:
    with (Path(__file__).parent / "steps").open("a") as steps:
        steps.write("x")
    last = [AIMessage("All steps are done.")] if state.get("done", 0) + 1 == STEPS else []
    return {"done": 1, "messages": last}


def more(state: State) -> str:
    return "step" if state["done"] < STEPS else "__end__"


builder = StateGraph(State).add_node("step", step).add_edge(START, "step").add_conditional_edges("step", more)
graph = builder.compile().with_config(recursion_limit=STEPS + 10)
