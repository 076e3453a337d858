"""Map and reduce: structured output fans out with Send, and the answer is in a key of its own. No messages."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph
from langgraph.types import Send
from pydantic import BaseModel


class Subjects(BaseModel):
    subjects: list[str]


class Best(BaseModel):
    id: int


class Topic(TypedDict):
    topic: str


class State(Topic):
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]
    best_joke: str


class Joke(TypedDict):
    subject: str


def find_subjects(state: State) -> dict[str, Any]:
    found = ChatOpenAI(model="small").with_structured_output(Subjects).invoke(f"Subjects near {state['topic']}?")
    return {"subjects": found.subjects}  # type: ignore[union-attr]


def tell(state: Joke) -> dict[str, Any]:
    return {"jokes": [ChatOpenAI(model="small").invoke(f"A joke about {state['subject']}!").text]}


def choose(state: State) -> dict[str, Any]:
    best = ChatOpenAI(model="small").with_structured_output(Best).invoke("\n".join(state["jokes"]))
    return {"best_joke": state["jokes"][best.id]}  # type: ignore[union-attr]


def each(state: State) -> list[Send]:
    return [Send("tell", {"subject": subject}) for subject in state["subjects"]]


graph = (
    StateGraph(State, input_schema=Topic)
    .add_node(find_subjects)
    .add_node(tell)
    .add_node(choose)
    .set_entry_point("find_subjects")
    .add_conditional_edges("find_subjects", each, ["tell"])
    .add_edge("tell", "choose")
    .set_finish_point("choose")
    .compile()
)
