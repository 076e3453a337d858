"""The log is the truth: the state of a hand-written graph can be rebuilt from it, after every step."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.channels.base import BaseChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from stellwerk.agents.build.models import chat_model
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs.registry import adopted
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.agents.runtime.conversation import Turn
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.database.port import Database, Operation
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.model import Envelope, Message, SubgraphCheckpoint, ToolStart, Update
from stellwerk.envelope.payloads import TextPart
from stellwerk.envelope.results import ToolResult
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.facts import CheckpointSaved, Fact
from tests.agents.agent_runs import say, scripted
from tests.samples import SteadyClock


class Shop(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    basket: Annotated[list[str], operator.add]
    total: Annotated[float, operator.add]
    owner: str
    notes: dict[str, Any]


class Till(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    total: Annotated[float, operator.add]
    discount: float


def collect(state: Shop) -> Shop:
    return {"basket": ["tea", "milk"], "total": 4.5, "owner": "Ada", "notes": {"gift": True, "tags": ["a", "b"]}}


def discount(state: Till) -> Till:
    return {"total": -0.5, "discount": 0.5}


async def thank(state: Till) -> Till:
    model = chat_model(scripted(say("thank you")), providers={}, keys=Resources().keys)
    return {"messages": [await model.ainvoke(state["messages"])]}


def pack(state: Shop) -> Shop:
    return {"messages": [AIMessage("packed", id=f"packed-{len(state['basket'])}")], "notes": {"packed": True}}


def shop() -> Any:
    till = StateGraph(Till)
    till.add_node("discount", discount)
    till.add_node("thank", thank)
    till.add_edge(START, "discount")
    till.add_edge("discount", "thank")
    builder = StateGraph(Shop)
    builder.add_node("collect", collect)
    builder.add_node("till", till.compile())
    builder.add_node("pack", pack)
    builder.add_edge(START, "collect")
    builder.add_edge("collect", "till")
    builder.add_edge("till", "pack")
    return builder


class Teller:
    """Drives a graph as the server does: what is told, and checkpoints with it, in order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.log: list[Envelope] = []
        self.adapter = StreamAdapter(trace_id="t", run_id="r", agent="shop")

    def tell(self, fact: Fact) -> None:
        self.log += self.adapter.feed(fact)

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        await self._database.submit(operation, item)
        if fact is not None:
            self.tell(fact)

    async def stored(self) -> None:
        """Nothing waits here."""

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        raise AssertionError("nothing here is that large")


def rebuilt(graph: Any, log: Sequence[Envelope]) -> dict[str, Any]:
    """The state as the log tells it: updates through the graph's own reducers, messages as they were said."""
    channels: dict[str, BaseChannel[Any, Any, Any]] = {
        name: channel.copy() for name, channel in graph.channels.items() if name in Shop.__annotations__
    }
    for envelope in log:
        if isinstance(envelope, Update) and not envelope.payload.namespace:
            for name, value in envelope.payload.delta.items():
                channels[name].update([value])
    values = {name: channel.get() for name, channel in channels.items() if channel.is_available()}
    said = [envelope.payload for envelope in log if isinstance(envelope, Message)]
    texts = [(one.message_id, "".join(p.text for p in one.content if isinstance(p, TextPart))) for one in said]
    return {**values, "messages": texts}


def seen(values: dict[str, Any]) -> dict[str, Any]:
    """The graph's own state in the same form; what the user said is told by whoever accepted it."""
    return {**values, "messages": [(m.id, m.text) for m in values["messages"] if m.type == "ai"]}


@pytest.mark.requirement("002.adapter.root-agent-with-nested-graphs")
async def test_the_state_rebuilt_from_the_log_equals_the_graphs_after_every_step(
    saver: DurableSaver, database: Database
) -> None:
    graph = adopted(shop(), name="shop", saver=saver, store=Resources().store)
    teller = Teller(database)
    config: Any = {"configurable": {"thread_id": "s1"}}
    with running_in(RunContext(journal=teller)):
        await RunnableAgent("shop", graph).drive(Turn("s1", message_id="m1", text="hello"), teller.tell, SteadyClock())
    teller.log += teller.adapter.finish()

    steps = {s.config["configurable"]["checkpoint_id"]: s.values async for s in graph.aget_state_history(config)}
    compared = 0
    for number, envelope in enumerate(teller.log):
        if isinstance(envelope, SubgraphCheckpoint) and envelope.payload.checkpoint_id in steps:
            values = steps[envelope.payload.checkpoint_id]
            if "messages" in values:
                state, told = seen(values), rebuilt(graph, teller.log[: number + 1])
                # A message that may still turn out to be the last is told when that is known.
                assert {**told, "messages": None} == {**state, "messages": None}
                assert told["messages"] == state["messages"][: len(told["messages"])]
                compared += 1
    assert compared == 5, "before and after the input, and after each of the three nodes"
    assert rebuilt(graph, teller.log) == seen((await graph.aget_state(config)).values)


async def test_a_graph_inside_a_graph_is_a_call_of_its_own(saver: DurableSaver, database: Database) -> None:
    graph = adopted(shop(), name="shop", saver=saver, store=Resources().store)
    teller = Teller(database)
    with running_in(RunContext(journal=teller)):
        await RunnableAgent("shop", graph).drive(Turn("s1", message_id="m1", text="hello"), teller.tell, SteadyClock())
    (start,) = [e for e in teller.log if isinstance(e, ToolStart)]
    assert start.payload.kind == "graph"
    inside = [e for e in teller.log if e.parent_id == start.call_id]
    assert {type(e).__name__ for e in inside} == {"LlmStart", "LlmToken", "LlmEnd"}


async def test_old_messages_that_a_node_returns_are_not_recorded_again(saver: DurableSaver, database: Database) -> None:
    graph = adopted(shop(), name="shop", saver=saver, store=Resources().store)
    agent = RunnableAgent("shop", graph)
    told = []
    for number in (1, 2):
        teller = Teller(database)
        with running_in(RunContext(journal=teller)):
            await agent.drive(Turn("s1", message_id=f"m{number}", text="hello"), teller.tell, SteadyClock())
        told.append([e.payload.message_id for e in [*teller.log, *teller.adapter.finish()] if isinstance(e, Message)])
    assert len(told[0]) == 2, "the sub-graph's answer, and what the last node says"
    assert not set(told[0]) & set(told[1])
