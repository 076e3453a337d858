"""How a graph is spoken to, and what is published about it: any state will do, also one without a text."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from pydantic import BaseModel, create_model
from typing_extensions import TypedDict as ExtendedTypedDict

from stellwerk.agents.graphs.input import GraphInput, find_input
from stellwerk.agents.graphs.schemas import output_schema
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.errors import BrokenReference

SAID = [HumanMessage("first"), AIMessage("yes?"), HumanMessage("second")]


def graph_of(schema: Any, **options: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema, **options)
    builder.add_node("node", lambda state: {})
    builder.add_edge(START, "node")
    return builder.compile()


class Question(TypedDict):
    question: Annotated[Required[str], "asked by the user"]
    depth: int


class Both(TypedDict):
    question: str
    answer: NotRequired[str]


class Lines(TypedDict):
    lines: list[str]
    depth: int


class Report(BaseModel):
    topic: str | None = None
    words: int = 0


@dataclass
class Plain:
    text: str
    count: int = 0


class Talk(TypedDict):
    talk: Annotated[list[AnyMessage], add_messages]


class Asked(TypedDict):
    question: str


class Counted(TypedDict):
    counts: dict[str, int]


class Nested(TypedDict):
    reports: list[Report]
    style: Literal["a.b", "c"]


class Untyped(TypedDict):
    anything: Any


@entrypoint()
async def shout(text: str) -> str:
    return text.upper()


@entrypoint()
async def converse(given: dict[str, Any]) -> Any:
    return given


@entrypoint()
async def ask(given: Question) -> Any:
    return given


@entrypoint()
async def count(given: int) -> Any:
    return given


@entrypoint()
async def model(given: Report) -> Any:
    return given


class Talking(ExtendedTypedDict):
    messages: list[AnyMessage]


@entrypoint()
async def talk(given: Talking) -> Any:
    return given


@pytest.mark.parametrize(
    ("graph", "key", "given"),
    [
        (graph_of(MessagesState), None, {"messages": SAID}),
        (create_agent(ScriptedModel(script=[]), []), None, {"messages": SAID}),
        (graph_of(Question), None, {"question": "second"}),
        (graph_of(Report), None, {"topic": "second"}),
        (graph_of(Plain), None, {"text": "second"}),
        (graph_of(Both, input_schema=Asked), None, {"question": "second"}),
        (graph_of(Both), "question", {"question": "second"}),
        (graph_of(Lines), "lines", {"lines": ["second"]}),
        (graph_of(Talk), "talk", {"talk": SAID}),
        (graph_of(Untyped), "anything", {"anything": "second"}),
        (graph_of(Annotated[list[AnyMessage], add_messages]), None, SAID),
        (shout, None, "second"),
        (converse, None, {"messages": SAID}),
        (ask, None, {"question": "second"}),
        (talk, None, {"messages": SAID}),
        (model, None, Report(topic="second")),
    ],
)
def test_the_message_goes_where_the_graph_takes_it(graph: Any, key: str | None, given: Any) -> None:
    assert find_input(graph, name="desk", key=key).to_input(SAID) == given


@pytest.mark.parametrize(
    ("schema", "key", "says"),
    [
        (Both, "query", r"the input key 'query' is not a field of its input; fields are: question \(str\)"),
        (Question, "depth", "the input key 'depth' cannot take a message; .*graph_inputs in the operator's file"),
    ],
)
def test_a_key_that_takes_no_message_is_refused_with_what_there_is(schema: Any, key: str, says: str) -> None:
    with pytest.raises(BrokenReference, match=f"^desk: .*{says}"):
        find_input(graph_of(schema), name="desk", key=key)


@pytest.mark.parametrize(
    ("graph", "wanted"),
    [
        (graph_of(Both), "question (str), answer (str)"),
        (graph_of(Untyped), "anything (Any)"),
        (graph_of(Counted), "counts (dict[str, int])"),
        (graph_of(Nested), "reports (list[Report]), style (Literal['a.b', 'c'])"),
        (graph_of(dict), "a value of type dict"),
        (count, "a value of type int"),
    ],
)
def test_a_graph_without_a_place_for_a_text_says_what_it_takes_instead(graph: Any, wanted: str) -> None:
    found = find_input(graph, name="desk")
    assert (found.form, found.wanted) == ("none", wanted)


def test_an_input_is_joined_by_the_message_and_what_came_before_it() -> None:
    talk = find_input(graph_of(MessagesState), name="desk")
    assert talk.to_input(SAID, {}) == {"messages": SAID}
    assert talk.to_input([], {}) == {}
    given = talk.with_messages({"messages": [{"role": "user", "content": "third"}]}, "m1")
    assert talk.to_input(SAID[:2], given) == {"messages": [*SAID[:2], HumanMessage("third", id="m1")]}
    question = find_input(graph_of(Question), name="desk")
    assert question.to_input(SAID, {"depth": 2}) == {"question": "second", "depth": 2}
    assert question.to_input([], {"depth": 2}) == {"depth": 2}
    assert find_input(model, name="desk").to_input(SAID, {"words": 2}) == Report(topic="second", words=2)


_NAMES = st.from_regex(r"[a-z]{3,8}", fullmatch=True).filter(lambda name: name not in ("messages", "model"))
_TYPES = st.sampled_from([int, float, bool, list[int], dict[str, str], bytes])


@given(st.dictionaries(_NAMES, _TYPES, max_size=5), _NAMES.map(lambda name: f"{name}_text"))
def test_the_one_text_field_is_found_among_any_others(others: dict[str, Any], text: str) -> None:
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in [*others.items(), (text, str)]}
    state = create_model("State", **fields)
    assert find_input(graph_of(state), name="desk") == GraphInput(text, "text")


class Priced(TypedDict):
    price: int
    report: Report
    odd: object
    messages: list[BaseMessage]


def test_the_final_state_of_a_graph_has_a_schema() -> None:
    graph = graph_of(Priced, input_schema=Question, output_schema=Priced)
    published = output_schema(graph)
    assert published is not None
    assert published["properties"]["price"] == {"type": "integer"}
    assert published["properties"]["report"]["properties"]["words"]["type"] == "integer"
    assert published["properties"]["messages"] == {"type": "array", "description": "Messages of the conversation."}
    assert output_schema(shout) == {"type": "string"}
    assert output_schema(graph.builder) == published, "before it is compiled, too"


def test_a_schema_that_refers_to_others_carries_them() -> None:
    class Several(TypedDict):
        reports: list[Report]

    published = output_schema(graph_of(Several))
    assert published is not None
    assert published["properties"]["reports"]["items"] == {"$ref": "#/$defs/Report"}
    assert set(published["$defs"]) == {"Report"}


def test_a_huge_schema_is_cut_down_to_its_names() -> None:
    fields: dict[str, Any] = {f"field_{n}": (int, ...) for n in range(5000)}
    huge = create_model("Huge", **fields)

    class State(TypedDict):
        field: huge

    assert output_schema(graph_of(State)) == {"type": "object", "properties": {"field": {}}}


@dataclass
class Filed:
    docs: list[str]
    reply: str = ""


class Replied(TypedDict):
    docs: list[str]
    reply: str


class Given(TypedDict):
    docs: list[str]


class Reply(TypedDict):
    reply: str


class MayReply(TypedDict):
    docs: list[str]
    reply: NotRequired[str]


class Optional(TypedDict, total=False):
    docs: list[str]
    topic: str


@pytest.mark.parametrize(
    ("graph", "key"),
    [
        (graph_of(Replied, output_schema=Reply), None),
        (graph_of(Replied, input_schema=Given, output_schema=Reply), None),
        (graph_of(Filed), None),
        (graph_of(MayReply), None),
        (graph_of(Replied, input_schema=Reply), "reply"),
        (graph_of(Optional), "topic"),
        (graph_of(Reply), "reply"),
    ],
)
def test_a_text_does_not_go_into_a_field_for_the_answer(graph: Any, key: str | None) -> None:
    found = find_input(graph, name="desk")
    assert (found.key, found.form) == (key, "none" if key is None else "text")
