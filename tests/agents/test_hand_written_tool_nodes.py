"""A tool node written by hand: what it calls with arguments only is the call that the model asked for, once."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.envelope.model import Envelope, LlmEnd
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.views import usage
from tests.agents.agent_runs import Conversation, asks, call, calls, ended, ends, say, starts

MAIL = {"to": "ann", "text": "hi"}
EDITED = {"to": "bob", "text": "hi"}


@tool
def send(to: str, text: str) -> str:
    """Send a mail."""
    if to == "nobody":
        raise LookupError("there is no such address")
    return f"sent to {to}"


@tool
def confirm(question: str) -> str:
    """Ask the user."""
    return str(interrupt(question))


def served(node: Any, *steps: ScriptStep) -> Conversation:
    """A graph of a model, and of a tool node that gets one requested call after the other."""
    model = ScriptedModel(script=[ScriptRule(steps=[*steps, say("Done.")])])

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def act(state: MessagesState) -> dict[str, Any]:
        asked = state["messages"][-1]
        assert isinstance(asked, AIMessage)
        answers = [(each["id"], node(each)) for each in asked.tool_calls]
        return {"messages": [ToolMessage(answer, tool_call_id=call_id) for call_id, answer in answers]}

    def goes_on(state: MessagesState) -> str:
        return "act" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder: Any = StateGraph(MessagesState).add_node("speak", speak).add_node("act", act)
    builder.add_edge(START, "speak").add_conditional_edges("speak", goes_on).add_edge("act", "speak")
    graph = builder.compile(checkpointer=InMemorySaver())
    return Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))


def requested(told: Sequence[Envelope]) -> list[str]:
    asked = [each for e in told if isinstance(e, LlmEnd) for each in e.payload.tool_calls or ()]
    return [each.tool_call_id for each in asked]


def recorded(told: Sequence[Envelope]) -> list[tuple[str, Any, str, Any]]:
    """Every call of a tool: its id, its arguments, how it ended and with what."""
    ended_calls = {e.call_id: e.payload for e in ends(told)}
    found: list[tuple[str, Any, str, Any]] = []
    for start in starts(told):
        end = ended_calls[start.call_id]
        result = end.result.as_text() if end.result else end.error.message if end.error else None
        found.append((start.payload.tool_call_id, start.payload.args, end.status, result))
    return found


def tool_calls(told: Sequence[Envelope]) -> int:
    found = usage.UsageTotals()
    for envelope in told:
        found = usage.fold(found, envelope)
    return found.tool_calls


async def test_a_tool_that_gets_the_arguments_only_is_the_call_that_the_model_requested() -> None:
    told = await served(lambda asked: send.invoke(asked["args"]), call("send", **MAIL)).send("go")
    assert recorded(told) == [(requested(told)[0], MAIL, "ok", "sent to ann")]
    assert (tool_calls(told), ended(told)) == (1, "completed")


async def test_a_tool_that_gets_the_whole_call_is_one_call_as_well() -> None:
    told = await served(lambda asked: send.invoke(asked).content, call("send", **MAIL)).send("go")
    assert recorded(told) == [(requested(told)[0], MAIL, "ok", "sent to ann")]


async def test_several_calls_of_a_tool_are_told_apart_by_their_arguments() -> None:
    several = calls(("send", MAIL), ("send", EDITED))
    told = await served(lambda asked: send.invoke(asked["args"]), several).send("go")
    first, second = requested(told)
    assert recorded(told) == [(first, MAIL, "ok", "sent to ann"), (second, EDITED, "ok", "sent to bob")]


async def test_a_call_that_the_user_edited_has_the_arguments_that_ran() -> None:
    def edited(asked: Any) -> Any:
        return send.invoke({**asked["args"], "to": interrupt("To whom?")})

    session = served(edited, call("send", **MAIL))
    (ask,) = asks(first := await session.send("go"))
    told = await session.answer({ask.payload.ask_id: "bob"})
    assert recorded(told) == [(requested(first)[0], EDITED, "ok", "sent to bob")]
    assert tool_calls([*first, *told]) == 1


async def test_one_of_two_calls_is_refused_and_the_other_edited() -> None:
    def judged(asked: Any) -> Any:
        return "refused" if asked["args"] == MAIL else send.invoke({"to": "eve", "text": "hi"})

    told = await served(judged, calls(("send", MAIL), ("send", EDITED))).send("go")
    ran = [each for each in recorded(told) if each[1]]
    assert [each[1:] for each in ran] == [({"to": "eve", "text": "hi"}, "ok", "sent to eve")]
    assert [each for each in recorded(told) if not each[1]] == [(requested(told)[0], {}, "ok", "refused")]
    assert [e.payload.written_by_node for e in ends(told)] == [False, True]


async def test_a_tool_that_raises_has_failed_whatever_its_node_answers() -> None:
    def caught(asked: Any) -> Any:
        try:
            return send.invoke(asked["args"])
        except LookupError:
            return "never mind"

    told = await served(caught, call("send", to="nobody", text="")).send("go")
    ((call_id, args, status, why),) = recorded(told)
    assert (call_id, args, status) == (requested(told)[0], {"to": "nobody", "text": ""}, "error")
    assert why == "there is no such address"


async def test_a_result_that_the_node_made_up_is_no_call_of_the_tool() -> None:
    told = await served(lambda asked: "the user said no", call("send", **MAIL)).send("go")
    assert recorded(told) == [(requested(told)[0], {}, "ok", "the user said no")]
    (end,) = ends(told)
    assert end.payload.written_by_node


async def test_a_tool_that_asks_its_user_goes_on_as_the_same_call() -> None:
    def twice(asked: Any) -> Any:
        return confirm.invoke(asked["args"])

    session = served(twice, calls(("confirm", {"question": "One?"}), ("confirm", {"question": "Two?"})))
    told = await session.send("go")
    ids = requested(told)
    for answer in ("yes", "no"):
        (ask,) = asks(told)
        told = await session.answer({ask.payload.ask_id: answer})
    assert {each[0]: each[3] for each in recorded(session.log)} == dict(zip(ids, ("yes", "no"), strict=True))
    assert ended(told) == "completed"


async def test_calls_of_a_node_that_no_model_requested_stay_calls_of_their_own() -> None:
    def looks_up(asked: Any) -> Any:
        confirmed = [send.invoke({"to": each, "text": ""}) for each in ("x", "y")]
        return ", ".join(confirmed)

    told = await served(looks_up, call("other")).send("go")
    direct = [each for each in recorded(told) if each[0].startswith("direct_")]
    assert [each[3] for each in direct] == ["sent to x", "sent to y"]
    assert len({each[0] for each in direct}) == 2
