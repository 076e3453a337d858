"""Structured output, images and removed messages of an operator's graph in the log and in each dialect."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState
from pydantic import BaseModel

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.dialects import chunks, events
from stellwerk.dialects.agui.dialect import DIALECT as AGUI
from stellwerk.dialects.base import Dialect, translate
from stellwerk.envelope.model import Document, Envelope, Message
from stellwerk.envelope.payloads import FilePart, Said, TextPart
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.views import transcript
from tests.agents.agent_runs import ended, result
from tests.agents.test_graph_answers import Research, Topic, messages, model, reply, research, served, steps

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(20)


class Weather(BaseModel):
    sky: str
    degrees: int


def last(told: Sequence[Envelope]) -> Said:
    (said,) = [e.payload for e in told if isinstance(e, Message) and e.payload.status == "last"]
    return said


def lines(dialect: Dialect, told: Sequence[Envelope]) -> list[dict[str, Any]]:
    return [line for _, line in translate(dialect.translator("s1"), list(enumerate(told, 1)))]


def shown(told: Sequence[Envelope]) -> list[Any]:
    """The structured output, as every place has it in which it is shown."""
    entries = [transcript.entry(transcript.Hidden(), n, e) for n, e in enumerate(told, 1)]
    return [
        last(told).output,
        *(each.data for each in entries if each is not None and each.status == "last"),
        *(line["data"] for line in lines(chunks.DIALECT, told) if line["type"] == "output"),
        *(line["payload"]["data"] for line in lines(events.DIALECT, told) if line["type"] == "output"),
        *(line["value"] for line in lines(AGUI, told) if line.get("name") == "output"),
    ]


async def test_the_structured_response_of_an_agent_is_the_answer_as_text_and_as_data() -> None:
    look = ScriptStep(say="Let me see.", call="Weather", args={"sky": "blue", "degrees": 21})
    scripted = ScriptedModel(script=[ScriptRule(steps=[look])])
    agent = create_agent(scripted, response_format=ToolStrategy(Weather), checkpointer=InMemorySaver())
    told = await served(agent).send("weather?")
    assert (ended(told), result(told)) == ("completed", '{"sky":"blue","degrees":21}')
    assert shown(told) == [{"sky": "blue", "degrees": 21}] * 5


class Answered(MessagesState):
    structured_response: Weather


async def test_an_agent_that_also_speaks_keeps_its_text_and_has_the_data_beside_it() -> None:
    async def speak(state: Answered) -> dict[str, Any]:
        return {"messages": [AIMessage("Blue.")], "structured_response": Weather(sky="blue", degrees=21)}

    told = await served(steps(Answered, ("speak", speak))).send("weather?")
    assert result(told) == "Blue."
    assert shown(told) == [{"sky": "blue", "degrees": 21}] * 5


async def test_the_output_of_a_graph_without_messages_is_there_as_data() -> None:
    told = await served(steps(Research, ("research", research), input_schema=Topic)).send("lamps")
    assert shown(told) == [{"topic": "lamps", "notes": ["raw notes"], "summary": "Lamps are bright."}] * 5


class Summary(TypedDict):
    summary: str


async def test_an_output_that_is_a_text_has_no_data_beside_it() -> None:
    told = await served(steps(Research, ("research", research), input_schema=Topic, output_schema=Summary)).send("x")
    assert (result(told), shown(told)) == ("Lamps are bright.", [None, None])


async def test_an_image_in_a_message_is_in_the_content_of_the_transcript() -> None:
    image = {"type": "image", "base64": b64encode(PIXEL).decode(), "mime_type": "image/png"}
    text = {"type": "text", "text": "Here it is."}
    drawn = ("draw", lambda state: {"messages": [AIMessage([text, image])]})
    told = await served(steps(MessagesState, drawn)).send("draw")
    (document,) = [e.payload for e in told if isinstance(e, Document)]
    file = FilePart(document_id=document.document_id, filename="image.png", mime="image/png")
    assert last(told).content == [TextPart(text="Here it is."), file]
    assert (last(told).documents, document.size) == ([document.document_id], len(PIXEL))
    assert document.message_id == last(told).message_id


async def test_a_message_of_an_image_alone_is_the_answer() -> None:
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PIXEL).decode()}"}}
    drawn = ("draw", lambda state: {"messages": [AIMessage([url])]})
    told = await served(steps(MessagesState, drawn)).send("draw")
    assert [type(part) for part in last(told).content] == [FilePart]
    assert messages(told) == [("", "last")]


async def test_a_message_that_the_graph_takes_back_at_once_is_not_in_the_transcript() -> None:
    def take_back(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=state["messages"][-1].id or ""), AIMessage("Better.")]}

    told = await served(steps(MessagesState, ("reply", reply), ("take_back", take_back))).send("weather?")
    assert messages(told) == [("Better.", "last")]


async def test_messages_that_a_graph_removes_to_shorten_its_state_stay_in_the_transcript() -> None:
    def shorten(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id=each.id or "") for each in state["messages"][:-1]]}

    async def second(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model("And dry.").ainvoke(state["messages"])]}

    graph = steps(MessagesState, ("reply", reply), ("second", second), ("shorten", shorten))
    assert messages(await served(graph).send("weather?")) == [("It is sunny.", "step"), ("And dry.", "last")]
