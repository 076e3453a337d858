"""A run of LangGraph's API as a command of a session: message, answer, edit, regenerated answer, or stop."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.api.services import Services
from stellwerk.envelope.payloads import Answered
from stellwerk.envelope.to_json import PAYLOAD_DEPTH, canonical, clean_text
from stellwerk.errors import Conflict, InvalidField, NotFound
from stellwerk.protocols.langgraph.assistants import system_of
from stellwerk.protocols.langgraph.bodies import File, NewestMessage, ResumeCommand, RunBody, said_in
from stellwerk.protocols.langgraph.reading import ThreadStates, checkpoint_places
from stellwerk.protocols.requests import store_data_url
from stellwerk.protocols.run_streams import FollowedRun, run_of
from stellwerk.protocols.threads import find_session, open_thread
from stellwerk.runs.commands import Accepted, SendOptions
from stellwerk.runs.replacing import find_round, run_that_counts
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal
from stellwerk.views.questions import BREAKPOINT, NO, YES, Question

_END = "__end__"
_NO_QUESTION = "no question is open"


@dataclass(frozen=True, slots=True)
class StartedRun:
    run: FollowedRun
    thread_id: str
    system: str
    agents: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Request:
    who: Principal
    session: Session
    body: RunBody
    is_graph: bool


class Starting:
    def __init__(self, services: Services, states: ThreadStates) -> None:
        self._services = services
        self._states = states

    async def start(
        self, who: Principal, thread_id: str | None, body: RunBody, *, is_streamed: bool = False
    ) -> StartedRun:
        """Accept what the body asks for; without a thread, in a session of its own.

        Raises:
            LimitReached: too many streams are open. Clients send it again, so nothing is stored.
        """
        body.check_supported()
        self._services.webhooks.check(who.tenant, body.webhook)
        system = await self._system(who, thread_id, body)
        known = await self._states.about(who.tenant, system)
        is_ephemeral = thread_id is None and body.on_completion != "keep"
        async with open_thread(self._services, who, thread_id, system, is_ephemeral=is_ephemeral) as opened:
            if is_streamed:
                with self._services.quotas.stream(who.tenant, opened.session.id):
                    pass  # there is a place for one
            accepted = await self._accept(_Request(who, opened.session, body, known.is_graph))
        run = FollowedRun(who, opened.session.id, run_of(accepted), accepted.after)
        return StartedRun(run, opened.thread.id, system, known.agents)

    async def _system(self, who: Principal, thread_id: str | None, body: RunBody) -> str:
        """
        Raises:
            NotFound: there is no such thread, and it is not to be created.
        """
        if thread_id is not None:
            try:
                thread = await self._services.threads.find(who.tenant, thread_id)
            except NotFound:
                if body.if_not_exists != "create":
                    raise
            else:
                session = await find_session(self._services, who, thread)
                if session is not None and body.assistant_id is None:
                    return session.agent_system_id
        return await system_of(self._services, who.tenant, body.assistant_id)

    async def _accept(self, request: _Request) -> Accepted:
        body, session = request.body, request.session
        if body.command is not None:
            return await self._commanded(request, body.command)
        said, others = said_in(body.input)
        parameters = body.parameters(request.who, others if request.is_graph else None)
        if (wanted := body.wanted_checkpoint) is not None:
            replaced = await self._replaced_by(request, wanted, has_input=body.input is not None)
            if replaced is not None and body.input is None:
                return await self._services.sessions.regenerate(request.who.tenant, session.id, run_id=replaced)
            if replaced is not None:
                return await self._send(request, said, parameters, replaces=replaced)
        if body.input is None:
            return await self._go_on(request)
        if said is None and parameters.input is None:
            raise InvalidField("input: send a message of the user under messages", field="input.messages")
        if said is not None and session.awaiting_user_input and body.if_busy != "interrupt":
            return await self._typed_answer(request, said)
        replaces = None
        if body.multitask_strategy == "rollback" and session.status == "running":
            replaces = await self._run_under_way(request)
        return await self._send(request, said, parameters, replaces=replaces)

    async def _send(
        self,
        request: _Request,
        said: NewestMessage | None,
        parameters: RunParameters,
        *,
        replaces: str | None = None,
    ) -> Accepted:
        tenant, body = request.who.tenant, request.body
        if_busy = "reject" if replaces is not None and body.if_busy == "enqueue" else body.if_busy
        options = SendOptions(if_busy=if_busy, run=body.options(self._services.clock.now()))
        if said is not None:
            options["documents"] = [await stored_file(self._services, request.who, file) for file in said.files]
        if replaces is not None:
            options["replaces"] = replaces
        elif said is not None and said.message_id is not None:
            options["message_id"] = said.message_id
        text = "" if said is None else clean_text(said.text)
        return await self._services.sessions.send(tenant, request.session.id, text, parameters=parameters, **options)

    async def _run_under_way(self, request: _Request) -> str | None:
        """The run that a rollback takes back."""
        newest = await self._services.sessions.runs(request.who.tenant, request.session.id, limit=100)
        return next((run.run_id for run in newest if not run.is_enqueued), None)

    async def _replaced_by(self, request: _Request, checkpoint_id: str, *, has_input: bool) -> str | None:
        """The round that a submit at a checkpoint replaces; None at the newest one.

        A message at the end of a round replaces the one after it, in the middle of a round that one.

        Raises:
            Conflict: it is of a round that was replaced.
            InvalidField: nothing can be run there.
            NotFound: there is no such checkpoint.
        """
        tenant, session_id = request.who.tenant, request.session.id
        places = await checkpoint_places(self._services, tenant, session_id)
        ids = [saved.payload.checkpoint_id for _, saved in places]
        if checkpoint_id not in ids:
            remedy = f"POST /threads/{session_id}/history lists those that there are"
            raise NotFound("checkpoint", checkpoint_id, remedy=remedy)
        index = ids.index(checkpoint_id)
        if index == 0:
            return None
        position, saved = places[index]
        read = self._services.database.read
        run_id, trace_id = saved.run_id, saved.trace_id
        if run_id is not None and any(later.trace_id == trace_id for _, later in places[:index]):
            return await read(lambda tx: run_that_counts(tx, tenant, session_id, run_id))
        if not has_input:
            said = "checkpoint: the round was over there, so there is nothing to run; send input"
            raise InvalidField(said, field="checkpoint")
        if run_id is not None:
            await read(lambda tx: find_round(tx, tenant, session_id, run_id))
        row = await read(lambda tx: tx.row("first_run_behind", session_id, tenant, position))
        return None if row is None else str(row[0])

    async def _go_on(self, request: _Request) -> Accepted:
        """Without input, what was interrupted goes on: a breakpoint, or a run that failed or was stopped."""
        tenant, session = request.who.tenant, request.session
        if session.awaiting_user_input:
            questions = await self._questions(request)
            if len(questions) == 1 and questions[0].question == BREAKPOINT:
                return await self._services.sessions.answer(tenant, session.id, Answered(ask_id="", text=YES))
            said = "input: a question is open; answer it with command.resume"
            raise InvalidField(said, field="input")
        if session.status in ("failed", "stopped"):
            return await self._services.sessions.regenerate(tenant, session.id)
        raise InvalidField("input: there is nothing to go on with; send a message", field="input")

    async def _typed_answer(self, request: _Request, said: NewestMessage) -> Accepted:
        documents = [await stored_file(self._services, request.who, file) for file in said.files]
        answer = Answered(ask_id="", text=clean_text(said.text) or None)
        tenant = request.who.tenant
        return await self._services.sessions.answer(tenant, request.session.id, answer, documents=documents)

    async def _commanded(self, request: _Request, command: ResumeCommand) -> Accepted:
        tenant, session = request.who.tenant, request.session
        goes_to = [command.goto] if isinstance(command.goto, str | dict) else command.goto or []
        if command.update:
            said = "command.update: change the state with POST /threads/{thread_id}/state, then send the rest"
            raise InvalidField(said, field="command.update")
        if command.resume is not UNSET and not goes_to:
            return await self._resumed(request, command.resume)
        if goes_to != [_END]:
            raise InvalidField(f"command.goto: only {_END!r} is possible, at an open question", field="command.goto")
        if not session.awaiting_user_input:
            raise Conflict(f"command.goto: {_NO_QUESTION}", code="not_asked")
        stopped = await self._services.sessions.stop(tenant, session.id)
        run_id = stopped.run_id or ""
        after = (await self._services.sessions.run(tenant, session.id, run_id)).after
        return Accepted(round=stopped.round, run_id=run_id, position=stopped.position, after=after)

    async def _questions(self, request: _Request) -> tuple[Question, ...]:
        seen = await self._services.overviews.of(request.who.tenant, request.session.id)
        return seen.overview.questions

    async def _resumed(self, request: _Request, value: Any) -> Accepted:
        """Answer one question with a value, or several with values by the ids of their interrupts.

        Raises:
            Conflict: no question is open.
            InvalidField: several are open, and the value does not name them.
        """
        tenant, session_id = request.who.tenant, request.session.id
        asked = {each.interrupt_id or each.ask_id: each for each in await self._questions(request)}
        if not asked or not request.session.awaiting_user_input:
            raise Conflict(f"command.resume: {_NO_QUESTION}", code="not_asked")
        values = value if isinstance(value, dict) and value and value.keys() <= asked.keys() else None
        if values is None and len(asked) > 1:
            said = "command.resume: several interrupts are open; send {interrupt_id: value} with some of"
            raise InvalidField(f"{said} {', '.join(asked)}", field="command.resume")
        given: Mapping[str, Any] = {next(iter(asked)): value} if values is None else values
        accepted = None
        for interrupt_id, each in given.items():
            answer = answer_of(asked[interrupt_id], each)
            accepted = await self._services.sessions.answer(tenant, session_id, answer)
        assert accepted is not None
        return accepted


async def stored_file(services: Services, who: Principal, file: File) -> str:
    return file.document_id or await store_data_url(services, who, file.url or "", file.name)


def answer_of(question: Question, value: Any) -> Answered:
    ask_id = question.interrupt_id or question.ask_id
    if question.question == BREAKPOINT and isinstance(value, bool):
        value = YES if value else NO
    if isinstance(value, str):
        return Answered(ask_id=ask_id, text=clean_text(value))
    data = canonical(value, depth=PAYLOAD_DEPTH).value
    if data is None:
        return Answered(ask_id=ask_id, refused=True)
    return Answered(ask_id=ask_id, data=data)
