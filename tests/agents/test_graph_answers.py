"""The answer of an operator's own graph is what its state ends with, whichever model of it spoke last."""

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt
from msgspec.structs import replace
from pydantic import BaseModel

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.dialects import chunks, events
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, LlmEnd, Message
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.endings import interrupted_ending
from stellwerk.stream.facts import MessageReturned, StateDecides
from tests.agents.agent_runs import Conversation, asks, ended, result, text

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
    assert messages(told) == [("It is sunny.", "last")]


async def test_a_model_that_judges_in_the_same_node_does_not_answer() -> None:
    async def judged(state: MessagesState) -> dict[str, Any]:
        answer = await model("It is sunny.").ainvoke(state["messages"])
        await model("fine").ainvoke("is it?")
        return {"messages": [answer]}

    told = await served(steps(MessagesState, ("judged", judged))).send("weather?")
    assert answers(told) == {"It is sunny."}
    assert messages(told) == [("It is sunny.", "last")]


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
    assert [status for _, status in messages(told)] == ["last"]


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


async def test_the_transcript_has_what_is_in_the_state_and_no_text_of_an_inner_model_call() -> None:
    async def classify(state: MessagesState) -> dict[str, Any]:
        await model('{"kind": "weather"}').ainvoke("which kind?")
        return {}

    told = await served(steps(MessagesState, ("classify", classify), ("reply", reply), ("note", note))).send("weather?")
    assert messages(told) == [("It is sunny.", "last")]
    assert (answers(told), text(told).count("sunny")) == ({"It is sunny."}, 1)
    assert '{"kind": "weather"}' in text(told), "the text belongs to its call"


async def test_map_steps_leave_no_message_behind() -> None:
    def fan_out(state: MessagesState) -> list[Send]:
        return [Send("part", {"messages": []}) for _ in range(20)]

    async def part(state: MessagesState) -> dict[str, Any]:
        await model("a part").ainvoke("do it")
        return {}

    builder = Builder(MessagesState).add_node("part", part).add_node("reply", reply)
    builder.add_conditional_edges(START, fan_out, ["part"]).add_edge("part", "reply")
    told = await served(builder).send("weather?")
    assert messages(told) == [("It is sunny.", "last")]


async def test_the_text_of_a_model_that_a_node_returns_under_another_id_is_there_once() -> None:
    async def again(state: MessagesState) -> dict[str, Any]:
        said = await model("It is sunny.").ainvoke(state["messages"])
        return {"messages": [AIMessage(said.content, id="mine")]}

    told = await served(steps(MessagesState, ("again", again), ("note", note))).send("weather?")
    assert messages(told) == [("It is sunny.", "last")]


async def test_a_live_reader_sees_every_token_and_what_did_not_become_a_message_is_taken_back() -> None:
    async def again(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage((await model("It is sunny.").ainvoke(state["messages"])).content)]}

    told = await served(steps(MessagesState, ("again", again), ("note", note))).send("weather?")
    lines = [line for _, line in translate(chunks.LIVE.translator("s1"), list(enumerate(told, 1)))]
    shown: dict[str, str] = {}
    for line in lines:
        if line["type"] == "text_delta":
            shown[line["message_id"]] = shown.get(line["message_id"], "") + line["data"]
    assert list(shown.values()) == ["It is sunny.", "The user asks about the weather."]
    final = {line["message_id"] for line in lines if line["type"] == "text_final"}
    taken_back = {line["message_id"] for line in lines if line["type"] == "aborted"}
    assert [final, taken_back] == [{each} for each in shown]


async def test_a_message_that_a_node_changed_is_recorded_as_the_state_has_it() -> None:
    async def changed(state: MessagesState) -> dict[str, Any]:
        said = await model("it is sunny").ainvoke(state["messages"])
        return {"messages": [said.model_copy(update={"content": "It is sunny."})]}

    assert messages(await served(steps(MessagesState, ("changed", changed))).send("?")) == [("It is sunny.", "last")]


async def test_a_text_before_a_question_is_in_the_transcript_only_if_the_state_has_it() -> None:
    async def confirm(state: MessagesState) -> dict[str, Any]:
        await model("Shall I ask?").ainvoke("think")
        interrupt("Sure?")
        return {"messages": [AIMessage("Good.")]}

    session = served(steps(MessagesState, ("reply", reply), ("confirm", confirm)))
    (ask,) = asks(first := await session.send("weather?"))
    assert messages(first) == [("It is sunny.", "step")]
    assert messages(await session.answer({ask.payload.ask_id: "yes"})) == [("Good.", "last")]


class Chat(TypedDict):
    chat: Annotated[list[AnyMessage], add_messages]


async def test_the_conversation_may_have_another_key_than_messages() -> None:
    async def speak(state: Chat) -> dict[str, Any]:
        return {"chat": [await model("One.").ainvoke(state["chat"])]}

    async def more(state: Chat) -> dict[str, Any]:
        await model("an aside").ainvoke("think")
        return {"chat": [await model("Two.").ainvoke(state["chat"])]}

    graph = steps(Chat, ("speak", speak), ("more", more)).compile(checkpointer=InMemorySaver())
    session = Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own", key="chat")))
    assert messages(await session.send("go")) == [("One.", "step"), ("Two.", "last")]
    assert messages(await session.send("again")) == [("One.", "step"), ("Two.", "last")]


async def test_a_function_that_returns_its_whole_conversation_repeats_no_earlier_answer() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def chat(inputs: dict, *, previous: Any = None) -> Any:  # type: ignore[type-arg]
        said = [*(previous or {}).get("messages", []), *inputs["messages"]]
        return {"messages": [*said, await model(f"Answer {len(said)}.").ainvoke(said)]}

    session = served(chat)
    assert messages(await session.send("one")) == [("Answer 1.", "last")]
    assert messages(await session.send("two")) == [("Answer 3.", "last")]


class Verdict(BaseModel):
    kind: str
    sure: bool


class Judged(MessagesState):
    verdict: Verdict


@pytest.mark.parametrize("whole", [False, True], ids=["a graph", "a function"])
async def test_structured_output_is_the_answer_as_json(whole: bool) -> None:
    async def judge(state: Any) -> Any:
        await model('{"kind": "a", "sure": true}').ainvoke("judge")
        return {"verdict": Verdict(kind="a", sure=True)}

    graph = entrypoint(checkpointer=InMemorySaver())(judge) if whole else steps(Judged, ("judge", judge))
    told = await served(graph).send("judge it")
    assert answers(told) == {'{"verdict":{"kind":"a","sure":true}}'}
    assert [status for _, status in messages(told)] == ["last"]


async def test_a_function_that_answers_beside_its_messages_answers_with_that() -> None:
    @entrypoint(checkpointer=InMemorySaver())
    async def pipeline(inputs: dict) -> Any:  # type: ignore[type-arg]
        return {"messages": inputs["messages"], "answer": "yes"}

    assert answers(await served(pipeline).send("lamps")) == {'{"answer":"yes"}'}


async def test_a_run_that_is_cut_off_leaves_only_what_its_state_has() -> None:
    told = await served(steps(MessagesState, ("reply", reply), ("note", note))).send("weather?")
    (_, end) = [number for number, e in enumerate(told) if isinstance(e, LlmEnd)]
    (answer,) = [e for e in told if isinstance(e, Message) and e.payload.role == "assistant"]
    run_id = told[0].run_id or ""
    in_state = replace(answer, payload=replace(answer.payload, status="step"))
    cut_off = interrupted_ending(told[: end + 1], run_id=run_id, ts=0.0, waiting=[in_state])
    assert messages(cut_off) == [("It is sunny.", "step")]


async def test_a_run_that_goes_on_after_a_crash_knows_its_drafts() -> None:
    told = await served(steps(MessagesState, ("reply", reply))).send("weather?")
    (end,) = [number for number, e in enumerate(told) if isinstance(e, LlmEnd)]
    adapter = StreamAdapter(trace_id=told[0].trace_id or "", run_id=told[0].run_id or "", agent="own")
    adapter.seed(told[: end + 1])
    adapter.feed(StateDecides())
    list(adapter.feed(MessageReturned(1.0, "mine", "It is sunny.", "own", asks_for_tools=False)))
    (said,) = adapter.finish()
    assert isinstance(said, Message)
    assert (said.payload.text, said.payload.message_id) == ("It is sunny.", told[end].call_id)
