"""AG-UI and LangGraph clients end with the messages of the graph's state, as the transcript has them."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState
from langgraph.types import interrupt

from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.dialects.langgraph import runs, threads
from stellwerk.envelope.model import Envelope
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import asks
from tests.agents.test_graph_answers import messages, model, note, reply, served, steps
from tests.dialects.agui_rules import Client, problems
from tests.dialects.agui_streams import translated
from tests.dialects.langgraph_clients import Hook, received


def shown_by_agui(log: Sequence[Envelope]) -> list[str]:
    told = translated(log)
    assert problems(told) == []
    shown = Client().read(told).messages.values()
    return [each.get("content", "") for each in shown if each["role"] == "assistant"]


def shown_by_langgraph(log: Sequence[Envelope]) -> list[str]:
    values = Hook().read(received(runs.DIALECT, log)).values
    events = [part.data["params"] for part in received(threads.DIALECT, log) if part.event == "values"]
    last = [event["data"] for event in events if not event["namespace"]][-1]
    assert last["messages"] == values["messages"]
    return [each["content"] for each in values["messages"] if each["type"] == "ai"]


async def test_a_note_of_a_model_is_not_left_among_the_messages() -> None:
    session = served(steps(MessagesState, ("reply", reply), ("note", note)))
    await session.send("weather?")
    assert shown_by_agui(session.log) == shown_by_langgraph(session.log) == ["It is sunny."]


async def test_a_text_that_a_node_keeps_under_another_id_is_shown_once() -> None:
    async def again(state: MessagesState) -> dict[str, Any]:
        said = await model("It is sunny.").ainvoke(state["messages"])
        return {"messages": [AIMessage(said.content)]}

    session = served(steps(MessagesState, ("again", again)))
    await session.send("weather?")
    assert shown_by_agui(session.log) == shown_by_langgraph(session.log) == ["It is sunny."]


@tool
def look(place: str) -> str:
    """Look at the sky."""
    return f"sunny in {place}"


def asking_for(name: str) -> ScriptedModel:
    return ScriptedModel(script=[ScriptRule(steps=[ScriptStep(call=name, args={"place": "Ulm"})])])


async def test_a_request_for_a_tool_stays_if_the_tool_runs_and_goes_if_nothing_runs_it() -> None:
    async def ask(state: MessagesState) -> dict[str, Any]:
        await asking_for("Report").ainvoke("structured output is a tool call that nothing runs")
        return {"messages": [await asking_for("look").ainvoke(state["messages"])]}

    def act(state: MessagesState) -> dict[str, Any]:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": [look.invoke(call), AIMessage("Sunny.")]}

    session = served(steps(MessagesState, ("ask", ask), ("act", act)))
    await session.send("weather?")
    assert shown_by_agui(session.log) == ["", "Sunny."]
    assert shown_by_langgraph(session.log) == ["", "Sunny."]


async def test_a_request_for_a_tool_stays_while_the_user_is_asked() -> None:
    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await asking_for("look").ainvoke(state["messages"])]}

    def act(state: MessagesState) -> dict[str, Any]:
        (call,) = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        if interrupt("Look?") != "yes":
            return {"messages": [ToolMessage("no", tool_call_id=call["id"]), AIMessage("As you like.")]}
        return {"messages": [look.invoke(call), AIMessage("Sunny.")]}

    session = served(steps(MessagesState, ("ask", ask), ("act", act)))
    (asked,) = asks(await session.send("weather?"))
    assert shown_by_agui(session.log) == shown_by_langgraph(session.log) == [""]
    await session.answer({asked.payload.ask_id: "yes"})
    assert shown_by_agui(session.log) == shown_by_langgraph(session.log) == ["", "Sunny."]


async def test_a_message_from_before_a_question_stands_before_it() -> None:
    def confirm(state: MessagesState) -> dict[str, Any]:
        interrupt("Sure?")
        return {}

    session = served(steps(MessagesState, ("reply", reply), ("confirm", confirm)))
    told = await session.send("weather?")
    assert messages(told) == [("It is sunny.", "step")]
    kinds = [e.__struct_config__.tag for e in told]
    assert kinds.index("message", 2) < kinds.index("ask_user")
