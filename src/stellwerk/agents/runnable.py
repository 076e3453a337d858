"""RunnableAgent: a compiled graph that can be driven, and that tells what happens in it."""

from dataclasses import dataclass
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from stellwerk.agents.checkpoints import EPOCH
from stellwerk.agents.source import Tap, Tell, messages_returned
from stellwerk.ids import Clock


@dataclass(frozen=True, slots=True)
class Turn:
    """What one run is asked to do, and under whose lease."""

    session_id: str
    epoch: int
    message_id: str
    text: str


class RunnableAgent:
    def __init__(self, name: str, graph: "CompiledStateGraph[Any, Any, Any, Any]") -> None:
        self.name, self.graph = name, graph

    async def drive(self, turn: Turn, tell: Tell, clock: Clock) -> None:
        """Run the graph for one turn and tell every fact; returns when the graph has ended."""
        config: RunnableConfig = {
            "configurable": {"thread_id": turn.session_id, EPOCH: turn.epoch},
            "callbacks": [Tap(tell, clock)],
        }
        message = HumanMessage(turn.text, id=turn.message_id)
        parts = self.graph.astream(
            {"messages": [message]}, config, stream_mode=["custom", "updates"], subgraphs=True, version="v2",
            durability="sync",
        )  # fmt: skip
        async for part in parts:
            if part["type"] == "updates" and not part["ns"]:
                for fact in messages_returned(part["data"], clock, self.name):
                    tell(fact)
