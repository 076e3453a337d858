"""Graphs that want more than a text: other keys, a config, a context; and graphs that have no place for a text."""

import operator
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

HERE = Path(__file__).parent


class Mail(TypedDict):
    email_input: dict[str, Any]
    priority: int
    answer: str


class MailInput(TypedDict):
    email_input: dict[str, Any]
    priority: int


class MailOutput(TypedDict):
    answer: str


def triage(state: Mail) -> dict[str, Any]:
    return {"answer": f"{state['email_input']['author']} wrote ({state.get('priority', 0)})"}


mail: Any = (
    StateGraph(Mail, input_schema=MailInput, output_schema=MailOutput)
    .add_node(triage)
    .add_edge(START, "triage")
    .compile()
)


class TwoTexts(TypedDict):
    left: str
    right: str


def join(state: TwoTexts) -> dict[str, Any]:
    return {"left": state["left"] + state["right"]}


pair: Any = StateGraph(TwoTexts).add_node(join).add_edge(START, "join").compile()


@dataclass(kw_only=True)
class Enrichment:
    topic: str
    extraction_schema: dict[str, Any]
    seen: Annotated[list[str], operator.add] = field(default_factory=list)


@dataclass(kw_only=True)
class Enriched(Enrichment):
    info: str = ""


def enrich(state: Enrichment) -> dict[str, Any]:
    return {"seen": [state.topic], "info": f"{state.topic}: {', '.join(state.extraction_schema)}; {len(state.seen)}"}


enrichment: Any = StateGraph(Enriched, input_schema=Enrichment).add_node(enrich).add_edge(START, "enrich").compile()


class Order(BaseModel):
    item: str
    count: int = Field(ge=1)


class Taken(Order):
    note: str = ""


def take(state: Order) -> dict[str, Any]:
    return {"note": f"{state.count} x {state.item}"}


order: Any = StateGraph(Taken, input_schema=Order).add_node(take).add_edge(START, "take").compile()


@dataclass
class Desk:
    language: str
    token: str = ""
    user_id: str = "nobody"


def settings_of(config: RunnableConfig, runtime: Runtime[Desk]) -> str:
    configurable = config.get("configurable", {})
    desk = runtime.context
    return f"{configurable.get('style')} {desk.language} {desk.user_id}"


def reply(state: MessagesState, config: RunnableConfig, runtime: Runtime[Desk]) -> dict[str, Any]:
    said = str(state["messages"][-1].text)
    if said == "ask":
        said = f"answered {interrupt('Which one?')}"
    if said == "wait":
        (HERE / "reached").touch()
        while not (HERE / "gate").exists():
            time.sleep(0.01)
    with (HERE / "tokens").open("a") as file:
        file.write(f"{runtime.context.token} {config['configurable'].get('password')}\n")
    return {"messages": [AIMessage(f"{said}: {settings_of(config, runtime)}")]}


def prepare(state: MessagesState) -> dict[str, Any]:
    return {}


steps: list[Any] = [prepare, reply]
desk: Any = StateGraph(MessagesState, context_schema=Desk).add_sequence(steps).add_edge(START, "prepare").compile()


class TypedSettings(TypedDict):
    language: str


def tell(state: MessagesState, config: RunnableConfig, runtime: Runtime[TypedSettings]) -> dict[str, Any]:
    context: Any = runtime.context  # None without any value, whatever LangGraph's types say
    language = (context or {}).get("language", "English")
    parts = [language, *sorted(config.get("tags") or []), str((config.get("metadata") or {}).get("team"))]
    return {"messages": [AIMessage(" ".join(parts))]}


telling: Any = tell
settings: Any = (
    StateGraph(MessagesState, context_schema=TypedSettings).add_node("tell", telling).add_edge(START, "tell").compile()
)


def loop(state: MessagesState) -> dict[str, Any]:
    return {}


endless: Any = (
    StateGraph(MessagesState)
    .add_node(loop)
    .add_edge(START, "loop")
    .add_conditional_edges("loop", lambda state: "loop")
    .compile()
)
