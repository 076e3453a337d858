"""A trip planner as a plain LangGraph graph whose input is a form, not a chat.

The web console makes the form from the schemas. It needs no API key.
"""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

NIGHT = {"simple": 60, "comfortable": 140}


class Traveller(BaseModel):
    name: str
    age: int = Field(ge=0, le=120)


class Budget(BaseModel):
    amount: float = Field(gt=0)
    currency: Literal["EUR", "CHF", "GBP"] = "EUR"


class TripRequest(BaseModel):
    """What a user asks for."""

    origin: str
    destination: str
    days: int = Field(ge=1, le=30, description="nights in a hotel, 1 to 30")
    style: Literal["simple", "comfortable"] = "simple"
    by_train: bool = True
    travellers: list[Traveller] = Field(default_factory=list)
    budget: Budget | None = None
    wishes: dict[str, Any] = Field(default_factory=dict, description="anything else, as JSON")


class Trip(TripRequest):
    steps: Annotated[list[str], operator.add] = Field(default_factory=list)
    cost: float = 0


class Plan(TypedDict):
    steps: list[str]
    cost: float


@dataclass
class Settings:
    """Settings of a run, sent as its context."""

    language: Literal["English", "German"] = "English"


def travel(state: Trip, runtime: Runtime[Settings]) -> dict[str, Any]:
    """The journey there."""
    words = ("by train", "by plane") if runtime.context.language == "English" else ("mit der Bahn", "mit dem Flugzeug")
    return {"steps": [f"{state.origin} – {state.destination} {words[0] if state.by_train else words[1]}"]}


def stay(state: Trip) -> dict[str, Any]:
    """The nights, and what they cost."""
    people = max(1, len(state.travellers))
    return {"steps": [f"{state.days} × {state.style}"], "cost": state.days * NIGHT[state.style] * people}


builder: Any = StateGraph(Trip, input_schema=TripRequest, output_schema=Plan, context_schema=Settings)
builder.add_node(travel)
builder.add_node(stay)
builder.add_edge(START, "travel")
builder.add_edge("travel", "stay")
builder.add_edge("stay", END)

graph = builder.compile()
