"""A breakpoint of a graph (`interrupt_before`, `interrupt_after`) asks whether to go on, and takes no for an answer."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from stellwerk.agents.graphs.input import find_input
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.envelope.model import Envelope, RunEnd
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.views.questions import BREAKPOINT, check_answer
from tests.agents.agent_runs import Conversation, asks, ended, result


class Desk:
    """Notes which of its nodes ran."""

    def __init__(self, *, asks: bool = False, **compiled: Any) -> None:
        self.ran: list[str] = []
        self._asks = asks
        builder: Any = StateGraph(MessagesState)
        builder.add_sequence([("draft", self._draft), ("send", self._send)]).add_edge(START, "draft")
        graph = builder.compile(checkpointer=InMemorySaver(), **compiled)
        self.session = Conversation(RunnableAgent("own", graph, graph_input=find_input(graph, name="own")))

    def _draft(self, state: MessagesState) -> dict[str, Any]:
        self.ran.append("draft")
        return {"messages": [AIMessage("a draft")]}

    def _send(self, state: MessagesState) -> dict[str, Any]:
        colour = interrupt({"question": "Which colour?"}) if self._asks else "black"
        self.ran.append("send")
        return {"messages": [AIMessage(f"sent in {colour}")]}


def over(told: list[Envelope]) -> tuple[str, str | None, str | None]:
    (end,) = [e.payload for e in told if isinstance(e, RunEnd)]
    return end.status, end.code, end.reason


@pytest.mark.parametrize("answer", [{"text": "no"}, {"refused": True}, {"data": "no"}], ids=["no", "refused", "data"])
@pytest.mark.parametrize(
    "where", [{"interrupt_before": ["send"]}, {"interrupt_after": ["draft"]}], ids=["before", "after"]
)
async def test_no_stops_the_run_before_the_node(where: dict[str, Any], answer: dict[str, Any]) -> None:
    desk = Desk(**where)
    (ask,) = asks(await desk.session.send("write"))
    assert ask.payload.options == ["yes", "no"]
    told = await desk.session.reply(Answered(ask_id=ask.payload.ask_id, **answer))
    assert over(told) == ("stopped", "stopped", "the answer at the breakpoint was no")
    assert desk.ran == ["draft"]
    (again,) = asks(await desk.session.send("write again"))
    assert desk.ran == ["draft", "draft"], "the next message starts the graph from its beginning"
    assert result(await desk.session.answer({again.payload.ask_id: "yes"})) == "sent in black"


async def test_yes_at_a_breakpoint_answers_no_question_behind_it() -> None:
    desk = Desk(asks=True, interrupt_before=["send"])
    (pause,) = asks(await desk.session.send("write"))
    told = await desk.session.answer({pause.payload.ask_id: "yes"})
    assert (ended(told), [ask.payload.question for ask in asks(told)]) == ("awaiting_user", ["Which colour?"])
    (ask,) = asks(told)
    assert result(await desk.session.answer({ask.payload.ask_id: "blue"})) == "sent in blue"


@pytest.mark.parametrize("given", [{"text": "perhaps"}, {"text": "No way"}, {"data": False}, {"data": {"ok": True}}])
@pytest.mark.parametrize("options", [["yes", "no"], None], ids=["asked now", "asked by an earlier version"])
def test_anything_but_yes_and_no_is_refused_with_the_options(given: dict[str, Any], options: list[str] | None) -> None:
    question = Asked(ask_id="a", question=BREAKPOINT, options=options, default="yes")
    with pytest.raises(InvalidField, match="choose one of: yes, no"):
        check_answer(question, Answered(ask_id="a", **given))
    check_answer(question, Answered(ask_id="a", text="no"))
