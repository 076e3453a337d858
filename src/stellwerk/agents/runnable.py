"""RunnableAgent: a compiled graph that can be driven, and that tells what happens in it.

The server drives it and stores what it tells. As a library it needs no server:
``run`` gives the answer, ``envelopes`` gives the whole story.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, StreamMode

from stellwerk.agents.checkpoints import EPOCH
from stellwerk.agents.graph_input import Graph, Intake
from stellwerk.agents.middleware.budget import spending
from stellwerk.agents.parts import MODES, facts_of, messages_of
from stellwerk.agents.source import Tap, Tell
from stellwerk.agents.state import CustomStateShared
from stellwerk.agents.story import Request, told
from stellwerk.agents.turn import Turn
from stellwerk.envelope.model import Envelope, RunEnd
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import StellwerkError
from stellwerk.ids import Clock
from stellwerk.spec.chat import ChatMessage
from stellwerk.spec.model import Quotas
from stellwerk.stream.facts import NodeUpdated

_KINDS: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
MESSAGES = Intake("messages", "messages")


@dataclass(frozen=True, slots=True)
class Habits:
    """What a system says about how its agent is run, beside what its agent does."""

    window: float | None = None
    quotas: Quotas = Quotas()
    store_prompts: bool = False


class RunnableAgent:
    """``narrowed`` builds the same agent with fewer tools or another mission, for its use as a tool."""

    def __init__(
        self,
        name: str,
        graph: Graph,
        *,
        intake: Intake = MESSAGES,
        initial_state: CustomStateShared | None = None,
        habits: Habits | None = None,
        as_tool: "Callable[[str | None, Sequence[str] | None, str | None], BaseTool] | None" = None,
    ) -> None:
        self.name, self.graph, self.intake = name, graph, intake
        self.initial_state: CustomStateShared = initial_state or cast(CustomStateShared, {})
        self.habits = habits or Habits()
        self._as_tool = as_tool

    async def run(self, messages: Sequence[ChatMessage], *, session_id: str = "library") -> str:
        """The answer to the last message, without streaming.

        Raises:
            StellwerkError: the run failed, or waits for an answer to a question.
        """
        async for envelope in self.envelopes(messages, session_id=session_id):
            if isinstance(envelope, RunEnd):
                end = envelope.payload
                if end.status != "completed":
                    raise StellwerkError(end.reason or "the agent asks something; use envelopes() and answer it")
                return end.result or ""
        raise StellwerkError("the run ended without a word")

    def envelopes(
        self,
        messages: Sequence[ChatMessage] = (),
        *,
        session_id: str = "library",
        answers: Mapping[str, Answered] | None = None,
        history: Sequence[Envelope] = (),
    ) -> AsyncIterator[Envelope]:
        """One run, as the log would hold it: of a message, or of ``answers`` to the questions in ``history``."""
        return told(self, Request(session_id, messages, answers or {}, history))

    def to_tool(
        self,
        name: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        mission_override: str | None = None,
    ) -> BaseTool:
        """This agent as a tool of another one; ``allowed_tools`` can only take tools away."""
        if self._as_tool is None:
            raise StellwerkError(f"{self.name} was not built by the factory; build it from a CompleteAgent")
        return self._as_tool(name, allowed_tools, mission_override)

    async def drive(self, turn: Turn, tell: Tell, clock: Clock) -> None:
        """Run the graph for one turn and tell every fact; returns when the graph has ended, or waits for the user."""
        tap = Tap(tell, clock, prompts=self.habits.store_prompts)
        config: RunnableConfig = {
            "configurable": {"thread_id": turn.session_id} | ({} if turn.epoch is None else {EPOCH: turn.epoch}),
            "callbacks": [tap],
        }
        if not turn.answers and self.initial_state:
            tell(NodeUpdated(clock.now(), "__start__", "", dict(self.initial_state)))
        with spending(quotas=self.habits.quotas):
            async for part in self._stream(turn, config):
                for fact in facts_of(part, clock):
                    tell(fact)
                for returned in messages_of(part, clock, self.name):
                    # A node that gives back what it was given says nothing new.
                    if returned.message_id in tap.spoken or returned.message_id not in await self._known(config):
                        tell(returned)

    def _stream(self, turn: Turn, config: RunnableConfig) -> AsyncIterator[Any]:
        if turn.answers and not self.graph.checkpointer:
            raise StellwerkError(f"{self.name} keeps no state, so it cannot go on; build it from a Pool with a saver")
        given: Any = Command(resume=dict(turn.answers)) if turn.answers else self._input(turn)
        options: dict[str, Any] = {"durability": "sync"} if self.graph.checkpointer else {}
        if self.graph.context_schema is not None:
            options["context"] = {}
        modes = cast(list[StreamMode], list(MODES))
        return self.graph.astream(given, config, stream_mode=modes, subgraphs=True, version="v2", **options)

    def _input(self, turn: Turn) -> Any:
        spoken: list[BaseMessage] = [_KINDS[m.role](m.content) for m in turn.earlier]
        given = self.intake.to_input([*spoken, HumanMessage(turn.text, id=turn.message_id)])
        return {**self.initial_state, **given} if isinstance(given, dict) else given

    async def _known(self, config: RunnableConfig) -> set[str]:
        """Ids of the messages that the state had before this step, whose writes are stored but not applied."""
        saver = self.graph.checkpointer
        saved = await saver.aget_tuple(config) if isinstance(saver, BaseCheckpointSaver) else None
        found = saved.checkpoint["channel_values"].get("messages", []) if saved else []
        return {m.id for m in found if isinstance(m, BaseMessage) and m.id} if isinstance(found, list) else set()
