"""RunnableAgent: a compiled graph that can be driven, and that tells what happens in it.

The server drives it and stores what it tells. As a library it needs no server:
``run`` gives the answer, ``envelopes`` gives the whole story.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphDrained
from langgraph.types import Command, StreamMode

from stellwerk.agents.announcing import announcing
from stellwerk.agents.checkpoint_forgetting import Forgetting, Rewritten
from stellwerk.agents.checkpoints import EPOCH, DurableSaver
from stellwerk.agents.durability import allow_graphs_without_checkpoints
from stellwerk.agents.graph_answer import Round, answer_facts
from stellwerk.agents.graph_input import Graph, Intake
from stellwerk.agents.graph_repair import CLOSED, Repair, results_in
from stellwerk.agents.images import NOT_SHOWN, Attached, ImageInput, attached
from stellwerk.agents.metering import counted_alone, metered
from stellwerk.agents.middleware.budget import spending
from stellwerk.agents.middleware.reading import SAID_BEFORE, reading_note
from stellwerk.agents.middleware.speech import listening
from stellwerk.agents.parts import MODES, facts_of, messages_of
from stellwerk.agents.shapes import plain_id
from stellwerk.agents.source import Tap, Tell
from stellwerk.agents.state import CustomStateShared
from stellwerk.agents.story import Answer, Request, told
from stellwerk.agents.turn import Turn, UnheardMessage
from stellwerk.agents.user_context import USER_ID, context_of, wants_user_id
from stellwerk.dialects import chunks
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, RunEnd
from stellwerk.envelope.payloads import RunEnded
from stellwerk.errors import InvalidInput, Paused, StellwerkError
from stellwerk.ids import Clock
from stellwerk.spec.chat import ChatMessage
from stellwerk.spec.model import Quotas
from stellwerk.stream.facts import Declined, NodeUpdated, StateDecides, Warned
from stellwerk.views.answering import GoOn

_KINDS: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
MESSAGES = Intake("messages", "messages", own_graph=False)
PARALLEL = 100
"""Tasks of one run that work at the same time; a model may ask for any number of tools."""

allow_graphs_without_checkpoints()


@dataclass(frozen=True, slots=True)
class Habits:
    """What a system says about how its agent is run, beside what its agent does."""

    window: float | None = None
    quotas: Quotas = Quotas()
    store_prompts: bool = False
    images: ImageInput = ImageInput()


class RunnableAgent:
    """``as_tool`` makes a tool of the same agent, perhaps with fewer tools or another mission."""

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

    async def run(self, messages: str | Sequence[ChatMessage], *, session_id: str | None = None) -> str:
        """The answer to the last message, without streaming. With a ``session_id`` the conversation is remembered.

        Raises:
            StellwerkError: the run failed, or waits for an answer to a question.
        """
        end: RunEnded | None = None
        async for envelope in self.envelopes(messages, session_id=session_id):
            if isinstance(envelope, RunEnd):
                end = envelope.payload
        if end is None or end.status != "completed":
            reason = end.reason if end else None
            raise StellwerkError(reason or "the agent asks its user; use envelopes() with a session_id, and answer")
        return end.result or ""

    def envelopes(
        self,
        messages: str | Sequence[ChatMessage] = (),
        *,
        session_id: str | None = None,
        answers: Mapping[str, Answer] | None = None,
        history: Sequence[Envelope] = (),
    ) -> AsyncIterator[Envelope]:
        """One run, as the log would hold it: of a message, or of ``answers`` to the questions in ``history``.

        ``history`` is everything that was told of this session so far. A run without a ``session_id`` is forgotten
        when it ends.
        """
        given = [ChatMessage(content=messages)] if isinstance(messages, str) else messages
        return told(self, Request(session_id, given, answers or {}, history))

    async def outer_astream(
        self, messages: str | Sequence[ChatMessage], *, session_id: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The same run as NDJSON for a front end, inner agents included: one StreamChunk after the other."""
        translator = chunks.DIALECT.translator(session_id or "")
        position = 0
        async with aclosing(
            cast(AsyncGenerator[Envelope, None], self.envelopes(messages, session_id=session_id))
        ) as told:
            async for envelope in told:
                position += 1
                for cursor, chunk in translate(translator, [(position, envelope)]):
                    yield chunks.DIALECT.frame(cursor, chunk)

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
        tap = Tap(tell, clock, prompts=self.habits.store_prompts, meter=counted_alone(), pause=turn.pause)
        told: set[str] = set()
        if any(isinstance(given, GoOn) and not given.goes_on for given in turn.answers.values()):
            tell(Declined())
            return
        if self.intake.own_graph and self.intake.form == "messages":
            tell(StateDecides())
        if not turn.answers and not turn.goes_on and self.initial_state:
            tell(NodeUpdated(clock.now(), "__start__", "", dict(self.initial_state)))
        with announcing() as holding, spending(quotas=self.habits.quotas) as budget, listening(tap.first_words):
            config = _config(turn, metered(tap, *holding))
            before = [] if turn.answers or turn.goes_on else await self._repair(config, tell, clock)
            turn = replace(turn, unheard=await self._missing(turn, config))
            given = [(each.message_id, each.files) for each in turn.unheard] + [(turn.message_id, turn.files)]
            files = {message_id: await attached(parts, self.habits.images) for message_id, parts in given}
            left_out = [reason for found in files.values() for reason in found.left_out]
            if left_out and not turn.warned:
                tell(Warned(clock.now(), NOT_SHOWN, Attached(left_out=left_out).warning))
            # Closed in any case: a generator that is left to the garbage collector ends when the run is long over.
            async with budget.in_time(), _pausing(tap), aclosing(self._stream(turn, files, config, before)) as parts:
                async for part in parts:
                    for fact in facts_of(part, clock):
                        tell(fact)
                    for returned in messages_of(part, clock, self.name):
                        # A node that gives back what it was given says nothing new.
                        if returned.message_id in tap.spoken or returned.message_id not in await self._known(
                            turn, config
                        ):
                            told.add(returned.message_id)
                            tell(returned)
        if self.intake.own_graph and self.graph.checkpointer:
            await self._tell_answer(turn, tell, clock, tap.spoken | told)

    @property
    def wants_user_id(self) -> bool:
        """Whether its graph declares that it reads a user id."""
        return wants_user_id(self.graph)

    async def settled(self, session_id: str, checkpoints: Collection[str]) -> set[str]:
        """The tool calls whose results are among what was written since these checkpoints, the latest of a run."""
        saver, found = self.graph.checkpointer, set[str]()
        if isinstance(saver, BaseCheckpointSaver):
            listed = cast(AsyncGenerator[Any, None], saver.alist({"configurable": {"thread_id": session_id}}))
            async with aclosing(listed):
                async for saved in listed:
                    if saved.checkpoint["id"] not in checkpoints:
                        break  # newest first: the rest is older than the run
                    written = results_in(write for _, _, write in saved.pending_writes or ())
                    found |= {result.tool_call_id for result in written}
        return found

    async def forget(self, session_id: str) -> None:
        """Drop what is remembered of a session."""
        if isinstance(saver := self.graph.checkpointer, BaseCheckpointSaver):
            await saver.adelete_thread(session_id)

    async def without(self, session_id: str, forgetting: Forgetting) -> Rewritten | None:
        """What is remembered of a session, without something; to be stored by whoever asks."""
        saver = self.graph.checkpointer
        return await saver.without(session_id, forgetting) if isinstance(saver, DurableSaver) else None

    async def _repair(self, config: RunnableConfig, tell: Tell, clock: Clock) -> list[BaseMessage]:
        """What goes in front of a message, so that no tool call in the conversation of an own graph lacks a result."""
        saver = self.graph.checkpointer
        if not self.intake.own_graph or not isinstance(saver, BaseCheckpointSaver):
            return []
        repair = Repair(self.graph, self.intake, await saver.aget_tuple(config))
        if repair.messages:
            tell(Warned(clock.now(), CLOSED, repair.warning))
        return repair.messages

    def _stream(
        self, turn: Turn, files: Mapping[str, Attached], config: RunnableConfig, before: Sequence[BaseMessage]
    ) -> AsyncGenerator[Any, None]:
        if turn.answers and not self.graph.checkpointer:
            raise InvalidInput(f"{self.name} keeps no state, so it cannot go on; build it from a Pool with a saver")
        # A breakpoint takes no value: one that was given would answer the next question of the graph.
        answers = {ask_id: given for ask_id, given in turn.answers.items() if not isinstance(given, GoOn)}
        given: Any = Command(resume=answers) if answers else None
        if not turn.answers and not turn.goes_on:
            given = self._input(turn, files, before)
        options: dict[str, Any] = {"durability": "sync"} if self.graph.checkpointer else {}
        if turn.pause is not None:
            options["control"] = turn.pause
        if (context := context_of(self.graph, config)) is not None:
            options["context"] = context
        modes = cast(list[StreamMode], list(MODES))
        parts = self.graph.astream(given, config, stream_mode=modes, subgraphs=True, version="v2", **options)
        return cast(AsyncGenerator[Any, None], parts)

    def _input(self, turn: Turn, files: Mapping[str, Attached], before: Sequence[BaseMessage]) -> Any:
        """``files`` are the images of the turn's message and of each unheard one, by message_id."""
        form = self.habits.images.form
        earlier = [_spoken(f"{turn.message_id}-{n}", said) for n, said in enumerate(turn.earlier)]
        unheard = [
            files[message_id].message(said.content, message_id, form)
            if said.role == "user"
            else _spoken(message_id, said)
            for message_id, said, _ in turn.unheard
        ]
        message = files[turn.message_id].message(turn.text, turn.message_id, form)
        given = self.intake.to_input([*before, *earlier, *unheard, message])
        return {**self.initial_state, **given} if isinstance(given, dict) else given

    async def _missing(self, turn: Turn, config: RunnableConfig) -> Sequence[UnheardMessage]:
        """Those messages of the conversation that the state lacks: a run was cut off before it stored them."""
        saver = self.graph.checkpointer
        if not turn.unheard or self.intake.form != "messages" or not isinstance(saver, BaseCheckpointSaver):
            return ()
        saved = await saver.aget_tuple(config)
        if saved is None:
            return turn.unheard
        # By its id, as what tasks wrote behind it is dropped when a new message comes.
        state = await self.graph.aget_state(saved.config)
        # What a function of the functional API returned has any shape.
        held = state.values.get(self.intake.key or "") if isinstance(state.values, dict) else state.values
        held_messages = [m for m in held if isinstance(m, BaseMessage)] if isinstance(held, list) else []
        known = {plain_id(m.id) for m in held_messages}
        # A message that a node made without an id was told under another one.
        known_answers = {str(m.text) for m in held_messages if isinstance(m, AIMessage)}
        return [
            message
            for message in turn.unheard
            if message.message_id not in known
            and not (message.said.role == "assistant" and message.said.content in known_answers)
        ]

    async def _known(self, turn: Turn, config: RunnableConfig) -> set[str]:
        """Ids of the messages that the state had before this step, whose writes are stored but not applied."""
        given = {f"{turn.message_id}-{n}" for n in range(len(turn.earlier))}
        given |= {message.message_id for message in turn.unheard}
        saver = self.graph.checkpointer
        saved = await saver.aget_tuple(config) if isinstance(saver, BaseCheckpointSaver) else None
        found = saved.checkpoint["channel_values"].get("messages", []) if saved else []
        held = found if isinstance(found, list) else []
        return given | {plain_id(message.id) for message in held if isinstance(message, BaseMessage)}

    async def _tell_answer(self, turn: Turn, tell: Tell, clock: Clock, told: Collection[str]) -> None:
        """What the state of the operator's own graph ends with; nothing while it is not at its end."""
        state = await self.graph.aget_state({"configurable": {"thread_id": turn.session_id}})
        if not state.next:
            over = Round(turn.message_id, told, self.name, clock)
            for fact in answer_facts(self.graph, self.intake, state, over):
                tell(fact)


def _spoken(message_id: str, said: ChatMessage) -> BaseMessage:
    # What an agent said elsewhere may repeat what it had read there; its notes are not with it.
    notes = reading_note([SAID_BEFORE]) if said.role == "assistant" else {}
    return _KINDS[said.role](said.content, id=message_id, response_metadata=notes)


def _config(turn: Turn, callbacks: list[BaseCallbackHandler]) -> RunnableConfig:
    where: dict[str, Any] = {} if turn.epoch is None else {EPOCH: turn.epoch}
    if turn.from_checkpoint is not None:
        where["checkpoint_id"] = turn.from_checkpoint
    if turn.user_id is not None:
        where[USER_ID] = turn.user_id
    return {
        "configurable": {"thread_id": turn.session_id, **where},
        "callbacks": callbacks,
        "max_concurrency": PARALLEL,
    }


@asynccontextmanager
async def _pausing(tap: Tap) -> AsyncIterator[None]:
    try:
        yield
    except GraphDrained as drained:
        await tap.all_over()
        raise Paused from drained
