"""The answer of an operator's own graph is what its state ends with, whichever model of it spoke last."""

from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, Message
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import Conversation, asks, ended, result

Builder = StateGraph[Any, Any, Any, Any]


def model(say: str) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=[ScriptStep(say=say)])])


def served(graph: Any) -> Conversation:
    if isinstance(graph, StateGraph):
        graph = graph.compile(checkpointer=InMemorySaver())
    return Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))


def steps(schema: type, *nodes: tuple[str, Any], **schemas: Any) -> Builder:
    return Builder(schema, **schemas).add_sequence(list(nodes)).add_edge(START, nodes[0][0])


def messages(told: Sequence[Envelope]) -> list[tuple[str, str]]:
    said = [e.payload for e in told if isinstance(e, Message)]
    return [(one.text, one.status) for one in said if one.role == "assistant"]


def answers(told: Sequence[Envelope]) -> set[str]:
    """The answer, as every place has it in which one is shown."""
    placed = list(enumerate(told, 1))
    lines = [line for _, line in translate(chunks.DIALECT.translator("s1"), placed)]
    final = "".join(line["data"] for line in lines if line["type"] == "text_final")
    texts = [line for _, line in translate(events.DIALECT.translator("s1"), placed) if line["type"] == "text_message"]
    last = [text for text, status in messages(told) if status == "last"]
    return {result(told), final, "".join(line["payload"]["text"] for line in texts), *last}


async def reply(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model("It is sunny.").ainvoke(state["messages"])]}


async def note(state: MessagesState) -> dict[str, Any]:
    await model("The user asks about the weather.").ainvoke("note it")
    return {}


async def test_a_note_that_a_model_takes_after_the_answer_is_not_the_answer() -> None:
    told = await served(steps(MessagesState, ("reply", reply), ("note", note))).send("weather?")
    assert answers(told) == {"It is sunny."}
    assert messages(told) == [("The user asks about the weather.", "step"), ("It is sunny.", "last")]


async def test_a_model_that_judges_in_the_same_node_does_not_answer() -> None:
    async def judged(state: MessagesState) -> dict[str, Any]:
        answer = await model("It is sunny.").ainvoke(state["messages"])
        await model("fine").ainvoke("is it?")
        return {"messages": [answer]}

    told = await served(steps(MessagesState, ("judged", judged))).send("weather?")
    assert answers(told) == {"It is sunny."}
    assert messages(told) == [("fine", "step"), ("It is sunny.", "last")]


async def test_a_message_that_a_node_made_is_the_answer_although_a_model_speaks_behind_it() -> None:
    made = ("made", lambda state: {"messages": [AIMessage("Booked.")]})
    told = await served(steps(MessagesState, made, ("note", note))).send("book it")
    assert answers(told) == {"Booked."}
    assert messages(told)[0] == ("Booked.", "step"), "it was shown before the model began"


async def test_two_agents_that_alternate_are_recorded_in_order() -> None:
    async def second(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model("And dry.").ainvoke(state["messages"])]}

    told = await served(steps(MessagesState, ("note", note), ("reply", reply), ("second", second))).send("weather?")
    assert messages(told) == [
        ("The user asks about the weather.", "step"),
        ("It is sunny.", "step"),
        ("And dry.", "last"),
    ]


async def test_an_answer_of_the_round_before_is_not_given_again() -> None:
    async def once(state: MessagesState) -> dict[str, Any]:
        return await reply(state) if len(state["messages"]) == 1 else {}

    session = served(steps(MessagesState, ("once", once)))
    assert answers(await session.send("weather?")) == {"It is sunny."}
    told = await session.send("and?")
    assert (ended(told), result(told), messages(told)) == ("completed", "", [])


async def test_a_message_that_the_graph_takes_back_is_not_the_answer() -> None:
    def take_back(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=state["messages"][-1].id or "")]}

    first = ("first", lambda state: {"messages": [AIMessage("Kept.")]})
    told = await served(steps(MessagesState, first, ("reply", reply), ("take_back", take_back))).send("weather?")
    assert answers(told) == {"Kept."}


async def test_a_graph_that_asks_answers_with_its_state_as_well() -> None:
    def confirm(state: MessagesState) -> dict[str, Any]:
        interrupt("Sure?")
        return {}

    session = served(steps(MessagesState, ("reply", reply), ("confirm", confirm), ("note", note)))
    (ask,) = asks(first := await session.send("weather?"))
    assert messages(first) == [("It is sunny.", "step")]
    told = await session.answer({ask.payload.ask_id: "yes"})
    assert (ended(told), answers(told)) == ("completed", {"It is sunny."})


class Topic(TypedDict):
    topic: str


class Research(TypedDict, total=False):
    topic: str
    notes: list[str]
    summary: str


class Summary(TypedDict):
    summary: str


async def research(state: Research) -> dict[str, Any]:
    return {"notes": [str((await model("raw notes").ainvoke(state["topic"])).text)], "summary": "Lamps are bright."}


async def reflect(state: Research) -> dict[str, Any]:
    await model("I could look further.").ainvoke("reflect")
    return {}


async def test_a_graph_without_messages_answers_with_its_output_and_not_with_what_its_models_said() -> None:
    told = await served(steps(Research, ("research", research), ("reflect", reflect), input_schema=Topic)).send("lamps")
    assert answers(told) == {'{"topic":"lamps","notes":["raw notes"],"summary":"Lamps are bright."}'}
    assert [status for _, status in messages(told)] == ["step", "step", "last"]


async def test_an_output_of_one_text_is_that_text() -> None:
    graph = steps(Research, ("research", research), ("reflect", reflect), input_schema=Topic, output_schema=Summary)
    assert answers(await served(graph).send("lamps")) == {"Lamps are bright."}


async def test_an_output_that_equals_a_model_message_is_recorded_once() -> None:
    async def sum_up(state: Research) -> dict[str, Any]:
        return {"summary": str((await model("Short.").ainvoke(state["topic"])).text)}

    told = await served(steps(Research, ("sum_up", sum_up), input_schema=Topic, output_schema=Summary)).send("lamps")
    assert (answers(told), messages(told)) == ({"Short."}, [("Short.", "last")])


class Filed(MessagesState):
    answer: str


async def test_a_graph_that_takes_messages_may_answer_under_another_key() -> None:
    async def elsewhere(state: Filed) -> dict[str, Any]:
        await model("thinking").ainvoke("hm")
        return {"answer": f"about {state['messages'][-1].text}"}

    assert answers(await served(steps(Filed, ("elsewhere", elsewhere))).send("lamps")) == {"about lamps"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"answer": "yes"}, '{"answer":"yes"}'),
        ("plain", "plain"),
        ({"messages": [HumanMessage("x", id="h"), AIMessage("said", id="a")]}, "said"),
        ([AIMessage("said", id="a")], "said"),
        (AIMessage("said", id="a"), "said"),
    ],
    ids=["a dict", "a text", "a state", "messages", "a message"],
)
async def test_a_function_as_a_graph_answers_with_what_it_returns(given: Any, wanted: str) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def pipeline(inputs: dict) -> Any:  # type: ignore[type-arg]
        await model("thinking").ainvoke("hm")
        return given

    assert answers(await served(pipeline).send("lamps")) == {wanted}
