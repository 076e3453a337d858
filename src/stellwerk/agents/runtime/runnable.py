"""RunnableAgent: a compiled graph that can be run, and emits a fact for all that happens in it.

The server runs it with ``drive`` and stores the facts. As a library it needs no server: ``run``
returns the answer, ``envelopes`` the whole run.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel._loop import PregelLoop
from langgraph.types import Command, StreamMode

from stellwerk.agents.checkpoints.erasure import RewrittenStates, StateErasure
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.graphs import parameters as given_with
from stellwerk.agents.graphs.answer import FinishedRun, answer_facts
from stellwerk.agents.graphs.input import Graph, GraphInput, required_fields
from stellwerk.agents.graphs.parameters import FindSecret
from stellwerk.agents.graphs.registry import FactoryCall
from stellwerk.agents.graphs.repair import CLOSED, repair, results_in
from stellwerk.agents.runtime import context, conversation, shapes
from stellwerk.agents.runtime.budget import spending
from stellwerk.agents.runtime.callback_handler import EmitFact, RunCallbackHandler
from stellwerk.agents.runtime.conversation import (
    NO_PARAMETERS,
    GivenParameters,
    RunParameters,
    Turn,
    files_of,
    text_of,
)
from stellwerk.agents.runtime.images import NOT_SHOWN, ImageInput, message_with_images
from stellwerk.agents.runtime.langgraph_features import CAN_DRAIN, HAS_PARTS, GraphDrained, as_part
from stellwerk.agents.runtime.library_run import LibraryRun, QuestionAnswer
from stellwerk.agents.runtime.run_config import RunOrigin, effective, factory_call, run_config
from stellwerk.agents.runtime.saved_states import StatesElsewhere
from stellwerk.agents.runtime.write_ahead import call_gate
from stellwerk.dialects import chunks
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, Message, RunEnd
from stellwerk.envelope.payloads import FilePart
from stellwerk.errors import InvalidField, InvalidInput, Paused, StellwerkError
from stellwerk.ids import Clock
from stellwerk.spec.model import ChatMessage, Quotas
from stellwerk.stream.facts import Declined, Fact, Interrupted, MessageReturned, NodeUpdated, StateDecides, Warned
from stellwerk.views.questions import GoOn

Conversation = str | Sequence[ChatMessage]
"""A message of the user, or a conversation that ends with one."""
MESSAGES = GraphInput("messages", "messages", own_graph=False)
USER_REMEDY = (
    "its sessions share what it keeps under the default of its user_id; "
    "send user_id with POST /sessions, or give each user an API key or token of their own"
)
_UNDONE = ("__error__", "__interrupt__", "__resume__")
"""Channels that a task writes to before it is done."""
_ASKS = "the agent asks its user; use envelopes() with a session_id, and answer"
_KINDS: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}


class _Stored:
    """The checkpoint LangGraph waits for: a future in a thread, an awaitable on the event loop."""

    def result(self) -> None:
        return None

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


# Allows ``durability="sync"`` where some graphs have no checkpointer. Private; a test pins it.
PregelLoop._put_checkpoint_fut = _Stored()  # type: ignore[assignment]


GraphOfRun = Callable[[FactoryCall], AbstractAsyncContextManager[tuple[Graph, GraphInput]]]
"""Makes the graph of one run, with a factory that asks for the run's config."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Settings of an agent system that apply to whole runs."""

    window: float | None = None
    quotas: Quotas = Quotas()
    store_prompts: bool = False
    images: ImageInput = ImageInput()
    idempotent_tools: frozenset[str] = frozenset()
    """Tools that the operator declares repeatable, beside those that say it themselves."""
    non_idempotent_nodes: frozenset[str] = frozenset()
    """Nodes that the operator declares not repeatable."""
    find_secret: FindSecret = lambda name: None
    defaults: RunParameters = NO_PARAMETERS
    """Input, config and context of its runs, where the message has none."""
    of_run: GraphOfRun | None = None


class RunnableAgent:
    """``as_tool`` makes a tool of this agent, with fewer tools or another mission if wanted."""

    def __init__(
        self,
        name: str,
        graph: Graph | None,
        *,
        graph_input: GraphInput = MESSAGES,
        initial_state: Mapping[str, Any] | None = None,
        options: RunOptions | None = None,
        as_tool: Callable[[str | None, Sequence[str] | None, str | None], BaseTool] | None = None,
    ) -> None:
        self.name, self.graph_input = name, graph_input
        self.graph = cast(Graph, graph)
        """Of an agent in another process there is none here, and ``elsewhere`` is asked."""
        self.elsewhere: StatesElsewhere | None = None
        self.lag = 0.0
        """Seconds that its facts wait on their way from another process."""
        self.initial_state: Mapping[str, Any] = initial_state or {}
        self.options = options or RunOptions()
        self._as_tool = as_tool
        context_schema = None if graph is None else graph.context_schema
        required = graph_input.shape.required | required_fields(context_schema)
        is_plain = graph_input.form != "none" and not required and self.options.defaults.is_empty
        self.wants_more = not is_plain
        """Whether a text alone may not do."""

    async def run(
        self,
        messages: Conversation = (),
        *,
        session_id: str | None = None,
        **given: Unpack[GivenParameters],
    ) -> str:
        """The answer to the last message, unstreamed; a ``session_id`` keeps the conversation.

        ``input``, ``config`` and ``context`` are for graphs; with ``input`` there need be no message.

        Raises:
            StellwerkError: the run failed, or waits for an answer to a question.
        """
        envelopes = self.envelopes(messages, session_id=session_id, **given)
        [end] = [each.payload async for each in envelopes if isinstance(each, RunEnd)]
        if end.status != "completed":
            raise StellwerkError(end.reason or _ASKS)
        return end.result or ""

    def envelopes(
        self,
        messages: Conversation = (),
        *,
        session_id: str | None = None,
        answers: Mapping[str, QuestionAnswer] | None = None,
        history: Sequence[Envelope] = (),
        **given: Unpack[GivenParameters],
    ) -> AsyncGenerator[Envelope, None]:
        """One run, as the log has it: of a message, or of ``answers`` to questions in ``history``.

        ``history`` is all envelopes of this session so far. A run without a ``session_id`` is
        forgotten when it ends. Answers continue with the parameters of their message.
        """
        said = [ChatMessage(content=messages)] if isinstance(messages, str) else messages
        return LibraryRun(self, session_id, said, answers or {}, history, RunParameters(**given)).envelopes()

    async def outer_astream(
        self, messages: Conversation = (), *, session_id: str | None = None, **given: Unpack[GivenParameters]
    ) -> AsyncGenerator[bytes, None]:
        """The same run as NDJSON for a front end, with inner agents, StreamChunk by StreamChunk."""
        translator = chunks.DIALECT.translator(session_id or "")
        position = 0
        async with aclosing(self.envelopes(messages, session_id=session_id, **given)) as envelopes:
            async for envelope in envelopes:
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
            why = f"{self.name} was not built by the factory; build it from a CompleteAgent"
            raise StellwerkError(why)
        return self._as_tool(name, allowed_tools, mission_override)

    async def drive(self, turn: Turn, emit: EmitFact, clock: Clock) -> None:
        """Run the graph for one turn and emit every fact, until it ends or waits for the user."""
        if any(isinstance(given, GoOn) and not given.goes_on for given in turn.answers.values()):
            emit(Declined())
            return
        given = effective(turn.parameters, self.options.defaults, own_graph=self.graph_input.own_graph)
        if not given.is_empty:
            given = given_with.with_secrets(given, self.options.find_secret)
            turn = replace(turn, parameters=given)
        if self.options.of_run is None:
            await self._drive(turn, emit, clock)
            return
        call = factory_call(self.graph, given, _origin(turn))
        async with self.options.of_run(call) as (graph, graph_input):
            agent = RunnableAgent(
                self.name, graph, graph_input=graph_input, initial_state=self.initial_state, options=self.options
            )
            await agent._drive(turn, emit, clock)

    async def _drive(self, turn: Turn, emit: EmitFact, clock: Clock) -> None:
        if self.graph_input.own_graph and (self.graph_input.form == "messages" or self.graph.checkpointer):
            emit(StateDecides())
        is_new = not turn.answers and not turn.goes_on
        if is_new and self.initial_state:
            emit(NodeUpdated(clock.now(), "__start__", "", dict(self.initial_state)))
        options = self.options
        handler = RunCallbackHandler(emit, clock, prompts=options.store_prompts, pause=turn.pause)
        handler.idempotent_tools = options.idempotent_tools
        returned: set[str] = set()
        gate = call_gate(options.idempotent_tools, options.non_idempotent_nodes)
        with gate as gates, spending(quotas=options.quotas) as budget:
            config = run_config(turn.parameters, _origin(turn), [handler, *gates])
            if is_new:
                turn = replace(turn, unheard=await self._missing(turn, config))
                given = await self._new_input(turn, config, emit, clock)
            else:
                given = self._resume_input(turn)
            facts = self._facts(turn, given, config, handler, clock)
            try:
                # Always closed: a generator that is left to the garbage collector outlives the run.
                async with budget.in_time(), aclosing(facts):
                    async for fact in facts:
                        if isinstance(fact, MessageReturned):
                            returned.add(fact.message_id)
                        emit(fact)
            except GraphDrained as drained:
                await handler.all_over()
                raise Paused from drained
        if self.graph_input.own_graph and self.graph.checkpointer:
            await self._emit_answer(turn, emit, clock, handler.model_messages | returned)

    @property
    def _messages_key(self) -> str:
        """The state key of the conversation."""
        given = self.graph_input
        return given.key if given.key and given.form == "messages" else "messages"

    @property
    def _saver(self) -> BaseCheckpointSaver[Any] | None:
        saver = self.graph.checkpointer
        return saver if isinstance(saver, BaseCheckpointSaver) else None

    @property
    def wants_user_id(self) -> bool:
        """Whether the graph declares that it reads a user id."""
        return context.wants_user_id(self.graph)

    async def check(self, turn: Turn) -> None:
        """Check a message before it is accepted.

        Raises:
            InvalidField: text, input, config or context do not fit the graph.
            MissingSecret: config or context refer to a secret that is not stored.
        """
        if turn.parameters.is_empty and not self.wants_more:
            return
        for field, value in (("text", turn.text), ("documents", turn.files)):
            if value:
                given_with.check_text(self.graph_input, turn.parameters, field, name=self.name)
        given = turn.parameters.over(self.options.defaults)
        await self.check_given(given)
        has_user = turn.user_id is not None
        given_with.check_context_is_whole(self.graph, given, name=self.name, has_user=has_user)
        await self._check_required(replace(turn, parameters=given))

    async def check_given(self, given: RunParameters) -> None:
        """Check values that later messages may complete.

        Raises:
            InvalidField: one does not fit the graph.
            MissingSecret: one refers to a secret that is not stored.
        """
        if given.input is not None:
            given_with.check_input(self.graph_input, given.input, name=self.name)
        given_with.check_config(given)
        given_with.check_context(self.graph, given, name=self.name)
        given_with.with_secrets(given, self.options.find_secret)

    async def _check_required(self, turn: Turn) -> None:
        """Refuse input without a key that the graph needs and has not stored either."""
        given = turn.parameters.input
        keys = set(given) if isinstance(given, dict) else set()
        if turn.text or turn.files:
            keys.add(self.graph_input.key or "")
        missing = self.graph_input.shape.required - keys
        if missing and self._saver is not None:
            saved = await self._saver.aget_tuple({"configurable": {"thread_id": turn.session_id}})
            missing -= saved.checkpoint["channel_values"].keys() if saved else set()
        for key in self.graph_input.shape.fields or ():
            if key in missing:
                wanted = self.graph_input.wanted
                said = f"input.{key}: {self.name} needs this; send it in `input`, which takes: {wanted}"
                raise InvalidField(said, field=f"input.{key}")

    async def settled(self, session_id: str, checkpoints: Collection[str]) -> set[str]:
        """The tool calls whose results are stored as writes of a run's latest checkpoints."""
        found = set[str]()
        if self._saver is not None:
            config: RunnableConfig = {"configurable": {"thread_id": session_id}}
            listed = cast(AsyncGenerator[Any, None], self._saver.alist(config))
            async with aclosing(listed):
                async for saved in listed:
                    if saved.checkpoint["id"] not in checkpoints:
                        break  # newest first: the rest is older than the run
                    written = results_in(write for _, _, write in saved.pending_writes or ())
                    found |= {result.tool_call_id for result in written}
        return found

    async def why_not_repeatable(self, session_id: str) -> str | None:
        """Why a run that was cut off cannot continue: a node was at work that must not be repeated."""
        nodes = self.options.non_idempotent_nodes
        config: RunnableConfig = {"configurable": {"thread_id": session_id}}
        saved = await self._saver.aget_tuple(config) if nodes and self._saver is not None else None
        if saved is None:
            return None
        done = {task for task, channel, _ in saved.pending_writes or () if channel not in _UNDONE}
        state = await self.graph.aget_state(config)
        at_work = [task.name for task in state.tasks if task.name in nodes and task.id not in done]
        return f"the node {at_work[0]} was at work, and it is unknown how far it came" if at_work else None

    async def forget(self, session_id: str) -> None:
        """Delete the checkpoints of a session."""
        if self._saver is not None:
            await self._saver.adelete_thread(session_id)

    async def prepare_erasure(self, session_id: str, erasure: StateErasure) -> RewrittenStates | None:
        """Compute the changes to a session's checkpoints; the caller stores them."""
        if not isinstance(self._saver, DurableSaver):
            return None
        return await self._saver.prepare_erasure(session_id, erasure)

    def _resume_input(self, turn: Turn) -> Command[Any] | None:
        if turn.answers and not self.graph.checkpointer:
            why = f"{self.name} keeps no state, so it cannot go on; build it from Resources with a saver"
            raise InvalidInput(why)
        # A breakpoint takes no value: a value would answer the next question of the graph.
        given = turn.answers
        answers = {shapes.langgraph_id(each): given[each] for each in given if not isinstance(given[each], GoOn)}
        if turn.state_changed and len(answers) == 1:  # for the first question of the node that runs again
            return Command(resume=next(iter(answers.values())))
        return Command(resume=answers) if answers else None

    async def _new_input(self, turn: Turn, config: RunnableConfig, emit: EmitFact, clock: Clock) -> Any:
        """The messages that the state lacks, and the message of the turn, with their images."""
        repaired = await self._repaired(config, emit, clock)
        said = repaired.pop(self.graph_input.key or "", [])
        said += [_spoken(f"{turn.message_id}-{n}", message) for n, message in enumerate(turn.earlier)]
        left_out: list[str] = []
        for message in turn.unheard:
            if message.payload.role == "user":
                unheard = (text_of(message), message.payload.message_id, files_of(message))
                if unheard[0]:  # one with input only has no text
                    said.append(await self._user_message(*unheard, left_out))
            else:
                said.append(_spoken(message.payload.message_id, conversation.chat_message_of(message)))
        given = await self._input_of(turn, config)
        if turn.text or turn.files or given is None:
            if self.graph_input.form == "none":
                raise given_with.no_place("text", self.graph_input, name=self.name)
            said.append(await self._user_message(turn.text, turn.message_id, turn.files, left_out))
        if left_out and not turn.warned:
            why = "; ".join(f"The model is not shown {each}" for each in left_out)
            emit(Warned(clock.now(), NOT_SHOWN, why))
        given = self.graph_input.with_messages(given, turn.message_id)
        state = self.graph_input.to_input(said, given)
        for key, results in repaired.items():
            sent = state.get(key, [])
            state[key] = [*results, *(sent if isinstance(sent, list) else [sent])]
        return {**self.initial_state, **turn.state_changes, **state} if isinstance(state, dict) else state

    async def _input_of(self, turn: Turn, config: RunnableConfig) -> Any:
        """The message's input, and the default of each key that neither it nor the state has."""
        given, defaults = turn.parameters.input, self.options.defaults.input
        if not defaults or not (given is None or isinstance(given, dict)):
            return given
        saved = await self._saver.aget_tuple(config) if self._saver is not None else None
        held = {*saved.checkpoint["channel_values"]} if saved else set()
        if turn.text or turn.files:
            held.add(self.graph_input.key or "")
        missing = {key: value for key, value in defaults.items() if key not in held}
        return {**missing, **(given or {})} if missing or given is not None else None

    async def _user_message(
        self, text: str, message_id: str, files: Sequence[FilePart], left_out: list[str]
    ) -> HumanMessage:
        if not files:
            return HumanMessage(text, id=message_id)
        return await message_with_images(text, message_id, files, self.options.images, left_out)

    async def _repaired(self, config: RunnableConfig, emit: EmitFact, clock: Clock) -> dict[str, list[BaseMessage]]:
        """Results for dangling tool calls in an operator's graph, by state key, to go before the message."""
        if not self.graph_input.own_graph or self._saver is None:
            return {}
        repaired = repair(self.graph, self.graph_input, await self._saver.aget_tuple(config))
        for each in repaired.values():
            emit(Warned(clock.now(), CLOSED, each.warning))
        return {key: each.messages for key, each in repaired.items()}

    async def _facts(
        self, turn: Turn, given: Any, config: RunnableConfig, handler: RunCallbackHandler, clock: Clock
    ) -> AsyncGenerator[Fact, None]:
        options: dict[str, Any] = {"durability": "sync"} if self.graph.checkpointer else {}
        if turn.pause is not None and CAN_DRAIN:
            options["control"] = turn.pause
        if HAS_PARTS:
            options["version"] = "v2"
        given_context = turn.parameters.context
        if (graph_context := context.graph_context(self.graph, config, given_context)) is not None:
            options["context"] = graph_context
        modes = cast(list[StreamMode], list(shapes.MODES))
        parts = self.graph.astream(given, config, stream_mode=modes, subgraphs=True, **options)
        async with aclosing(cast(AsyncGenerator[Any, None], parts)):
            async for part in parts:
                for fact in shapes.facts_of(as_part(part), clock, self.name, self._messages_key):
                    if isinstance(fact, Interrupted):
                        fact = shapes.asked_next(fact, turn.answers)
                    if isinstance(fact, MessageReturned) and fact.message_id not in handler.model_messages:
                        # A node may return messages that were in its input.
                        if fact.message_id in await self._known(turn, config):
                            continue
                    yield fact

    async def _missing(self, turn: Turn, config: RunnableConfig) -> Sequence[Message]:
        """The unheard messages that the state lacks: their run ended before it stored them."""
        if not turn.unheard or self.graph_input.form != "messages" or self._saver is None:
            return ()
        saved = await self._saver.aget_tuple(config)
        if saved is None:
            return turn.unheard
        # By its id, because pending writes behind it are dropped when a new message comes.
        state = await self.graph.aget_state(saved.config)
        held = state.values
        if isinstance(held, dict):  # a function of the functional API returns any shape
            held = held.get(self.graph_input.key or "")
        known = {shapes.plain_id(m.id) for m in _messages(held)}
        # A message that a node made without an id was recorded under another one.
        answers = {str(m.text) for m in _messages(held) if isinstance(m, AIMessage)}
        unheard = [message for message in turn.unheard if message.payload.message_id not in known]
        return [m for m in unheard if m.payload.role != "assistant" or text_of(m) not in answers]

    async def _known(self, turn: Turn, config: RunnableConfig) -> set[str]:
        """Ids of messages in the state before this step, whose stored writes are not applied."""
        known = {f"{turn.message_id}-{n}" for n in range(len(turn.earlier))}
        known |= {message.payload.message_id for message in turn.unheard}
        saved = await self._saver.aget_tuple(config) if self._saver is not None else None
        values = saved.checkpoint["channel_values"] if saved else {}
        held = _messages(values.get(self._messages_key))
        for value in values.values():  # a function of the functional API returned it
            held += _messages(value.get(self._messages_key)) if isinstance(value, dict) else []
        return known | {shapes.plain_id(message.id) for message in held}

    async def _emit_answer(self, turn: Turn, emit: EmitFact, clock: Clock, messages: Collection[str]) -> None:
        """The answer in the final state of an operator's graph; nothing while interrupted."""
        state = await self.graph.aget_state({"configurable": {"thread_id": turn.session_id}})
        if not state.next:
            finished = FinishedRun(turn.message_id, messages, self.name, clock)
            for fact in answer_facts(self.graph, self.graph_input, state, finished):
                emit(fact)


def _messages(found: Any) -> list[BaseMessage]:
    return [each for each in found if isinstance(each, BaseMessage)] if isinstance(found, list) else []


def _origin(turn: Turn) -> RunOrigin:
    return RunOrigin(turn.session_id, turn.epoch, turn.from_checkpoint, turn.user_id)


def _spoken(message_id: str, said: ChatMessage) -> BaseMessage:
    # A message of an agent may quote untrusted content; the client's history has no taint marks.
    notes = conversation.taint_note([conversation.EARLIER_MESSAGES]) if said.role == "assistant" else {}
    return _KINDS[said.role](said.content, id=message_id, response_metadata=notes)
