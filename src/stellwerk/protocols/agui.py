"""/ag-ui/{system}: agent systems as AG-UI agents, on threads that clients name.

A run that is posted goes on when its client is gone only if ``forwardedProps.onDisconnect`` is
``continue``: clients have no other way to stop it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.database.port import Transaction
from stellwerk.dialects.agui.dialect import DIALECT, AguiOptions
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import Conflict, InvalidField, NotFound, StellwerkError
from stellwerk.protocols.agui_requests import (
    NewMessages,
    Part,
    Resume,
    RunInput,
    Sent,
    answer_of,
    new_messages,
    parameters_of,
)
from stellwerk.protocols.protocol import Protocol
from stellwerk.protocols.requests import body_of, store_data_url
from stellwerk.protocols.run_streams import (
    FollowedRun,
    StoppedWithClient,
    run_of,
    stream_of_run,
    stream_of_session,
)
from stellwerk.protocols.threads import OpenThread, find_thread, open_thread
from stellwerk.runs.client_threads import LONGEST_ID
from stellwerk.runs.commands import Accepted
from stellwerk.runs.transactions import status_of
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.principals import Principal
from stellwerk.views.status import Status

_KEY = "ag-ui\n"
"""In front of a client's id of a run in an idempotency key; no Idempotency-Key has a line feed."""
_SHOWN = ("message", "llm_start", "llm_end", "tool_end")
_STORED = "/files/"


class InterruptUnknown(Exception):
    """The client learns it from its stream, as the protocol has it."""


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/ag-ui/{system}", include_in_schema=False)

    @router.post("")
    async def run(who: RequireRunTolerant, request: Request, system: str) -> Response:
        body = await body_of(request, RunInput)
        return await run_response(services, who, system, body, goes_on=False)

    @router.get("")
    async def capabilities(who: RequireReadTolerant, system: str) -> Response:
        await services.systems.newest(who.tenant, system)
        return Json(capabilities_of(system))

    @router.get("/{thread_id}")
    async def history(who: RequireReadTolerant, request: Request, system: str, thread_id: str) -> Response:
        thread = await find_thread(services, who, thread_id)
        if thread.session.agent_system_id != system:
            raise NotFound("thread", thread_id, remedy="the first message to a new id begins one")
        version = request.query_params.get("protocolVersion", "1.0")
        return await thread_response(services, who, thread, is_before_1=version.startswith("0"))

    return router


def problem(error: StellwerkError) -> Response:
    body = {"error": error.code, "message": error.message, **({"field": error.field} if error.field else {})}
    return Response(msgspec.json.encode(body), error.status, media_type="application/json")


def capabilities_of(system: str) -> dict[str, Any]:
    return {
        "identity": {"name": system, "type": "stellwerk"},
        "transport": {"streaming": True, "resumable": True},
        "tools": {"supported": True, "clientProvided": False},
        "state": {"snapshots": True, "deltas": True, "memory": True, "persistentState": True},
        "multiAgent": {"supported": True, "delegation": True},
        "reasoning": {"supported": True, "streaming": True},
        "multimodal": {"input": {"image": True, "audio": True, "video": True, "pdf": True, "file": True}},
        "humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True, "approveWithEdits": True},
    }


async def thread_response(services: Services, who: Principal, thread: OpenThread, *, is_before_1: bool) -> Response:
    """All runs of a thread, up to the end of the one under way."""
    options = AguiOptions(thread_id=thread.thread.id, is_before_1=is_before_1)
    return await stream_of_session(services, who, thread.session.id, replace(DIALECT, options=options))


async def run_response(services: Services, who: Principal, system: str, body: RunInput, *, goes_on: bool) -> Response:
    """Start a run, or find the one that was started by the same request, and stream it."""
    props = body.props
    if len(body.run_id) > LONGEST_ID:
        raise InvalidField(f"runId: this must have at most {LONGEST_ID} characters", field="runId")
    try:
        run = await (_resumed if body.resume else _sent)(services, who, system, body)
    except InterruptUnknown as error:
        frame = {"type": "RUN_ERROR", "message": str(error), "code": "interrupt_unknown"}
        return Response(b"data: %b\n\n" % msgspec.json.encode(frame), media_type=DIALECT.media_type)
    options = AguiOptions(
        thread_id=body.thread_id,
        run=(run.run_id, body.run_id),
        known=await _known(services, run, body),
        is_before_1=body.is_before_1,
    )
    response = await stream_of_run(services, run, replace(DIALECT, options=options))
    if props.on_disconnect == "continue" or (goes_on and props.on_disconnect is None):
        return response
    return StoppedWithClient(response, services, run)


async def run_named(services: Services, who: Principal, session_id: str, run_id: str) -> str | None:
    """The run to which a client gave this id; while its trace goes on after a question, the run that continues it."""
    accepted = await _recalled(services, who, session_id, run_id)
    if accepted is None:
        return None
    info = await services.sessions.run(who.tenant, session_id, run_of(accepted))
    status = await _status(services, who, session_id)
    return status.run_id if status.trace_id == info.trace_id else info.run_id


async def _status(services: Services, who: Principal, session_id: str) -> Status:
    return await services.database.read(lambda tx: status_of(tx, who.tenant, session_id))


async def _recalled(services: Services, who: Principal, session_id: str, key: str) -> Accepted | None:
    place = (who.tenant, session_id, f"input {_KEY}{key}")
    row = await services.database.read(lambda tx: tx.row("recall_answer", *place))
    return None if row is None else msgspec.json.decode(row[1], type=Accepted)


async def _earlier(services: Services, who: Principal, thread: OpenThread, body: RunInput) -> Accepted | None:
    """What the same message led to before.

    Raises:
        Conflict: its run id came with something else.
    """
    accepted = await _recalled(services, who, thread.session.id, body.run_id)
    if accepted is None or accepted.ask_id is not msgspec.UNSET:
        return accepted
    messages = {message.id: message for message in body.messages}
    found = messages.get(accepted.message_id) if isinstance(accepted.message_id, str) else None
    if found is None or not await _is_said(services, who, thread.session.id, found):
        raise Conflict("this runId was used with another request; take a new one", code="run_id_used")
    return accepted


async def _earlier_answers(services: Services, who: Principal, thread: OpenThread, body: RunInput) -> Accepted | None:
    """What the same answers led to before. CopilotKit answers under the id of the run that asked."""
    asks = [entry.interrupt_id for entry in body.resume or ()]
    for key in (f"{body.run_id}\n{asks[-1]}", body.run_id):
        accepted = await _recalled(services, who, thread.session.id, key)
        if accepted is not None and accepted.ask_id in asks:
            return accepted
    return None


async def _is_said(services: Services, who: Principal, session_id: str, message: Sent) -> bool:
    stored = await _stored(services, who, session_id, message.id)
    return stored is None or stored.payload.text.endswith(message.text)


async def _stored(services: Services, who: Principal, session_id: str, message_id: str) -> m.Message | None:
    """The message with this id, if the log has it."""
    place = (session_id, 2**62, message_id, who.tenant)
    rows = await services.database.read(lambda tx: tx.rows("messages_naming", *place))
    for (body,) in rows:
        found = m.decode(body)
        if isinstance(found, m.Message) and found.payload.message_id == message_id:
            return None if found.payload.action == "removed" else found
    return None


async def _resumed(services: Services, who: Principal, system: str, body: RunInput) -> FollowedRun:
    try:
        thread = await find_thread(services, who, body.thread_id)
    except NotFound as error:
        raise InterruptUnknown(error.message) from error
    if thread.session.agent_system_id != system:
        raise InterruptUnknown(f"this thread is a session of another agent system than {system!r}")
    accepted = await _earlier_answers(services, who, thread, body)
    if accepted is None:
        accepted = await _all_answered(services, who, thread, body)
    return FollowedRun(who, thread.session.id, run_of(accepted), accepted.after)


async def _all_answered(services: Services, who: Principal, thread: OpenThread, body: RunInput) -> Accepted:
    """Answer all open questions, and so start the run that goes on.

    Raises:
        InterruptUnknown: one of them was never asked, or is answered.
    """
    session_id, given = thread.session.id, body.resume or []
    status = await _status(services, who, session_id)
    open_asks = status.open_asks if status.awaiting_user_input else ()
    unknown = [each.interrupt_id for each in given if each.interrupt_id not in status.asked or not open_asks]
    if unknown:
        said = f"the interrupt {unknown[0]!r} is not open; open are: {', '.join(open_asks) or 'none'}"
        raise InterruptUnknown(said)
    missing = set(open_asks) - {each.interrupt_id for each in given}
    if missing:
        said = f"resume: one entry for every open interrupt; missing are: {', '.join(sorted(missing))}"
        raise InvalidField(said, field="resume")
    asked = await _questions(services, who, session_id)
    answers = [answer_of(each, asked.get(each.interrupt_id)) for each in given]
    return await _answered(services, who, session_id, answers, body.run_id)


async def _answered(
    services: Services, who: Principal, session_id: str, answers: Sequence[Answered], run_id: str
) -> Accepted:
    accepted: Accepted | None = None
    is_used = await _recalled(services, who, session_id, run_id) is not None
    for number, answer in enumerate(answers, 1):
        is_named = number == len(answers) and not is_used
        key = f"{_KEY}{run_id}" if is_named else f"{_KEY}{run_id}\n{answer.ask_id}"
        try:
            accepted = await services.sessions.answer(who.tenant, session_id, answer, key=key)
        except Conflict as error:
            raise InterruptUnknown(error.message) from error
    assert accepted is not None
    return accepted


async def _questions(services: Services, who: Principal, session_id: str) -> dict[str, Asked]:
    rows = await services.database.read(lambda tx: tx.rows("questions_of", session_id, who.tenant))
    asked = (m.decode(body) for (body,) in rows)
    return {each.payload.ask_id: each.payload for each in asked if isinstance(each, m.AskUser)}


async def _sent(services: Services, who: Principal, system: str, body: RunInput) -> FollowedRun:
    async with open_thread(services, who, body.thread_id, system) as thread:
        accepted = await _earlier(services, who, thread, body)
        if accepted is None:
            accepted = await _accepted(services, who, thread, body)
    return FollowedRun(who, thread.session.id, run_of(accepted), accepted.after)


async def _accepted(services: Services, who: Principal, thread: OpenThread, body: RunInput) -> Accepted:
    new = new_messages(body.messages)
    session_id = thread.session.id
    known = [each for each in new.user if await _stored(services, who, session_id, each.id) is not None]
    if known and known[-1] is new.user[-1]:
        return await _again(services, who, session_id, known[-1], body.run_id)
    user = [each for each in new.user if each not in known]
    if not user and new.results:
        answer = await _answer_by_tool(services, who, session_id, new.results)
        if answer is not None:
            return await _answered(services, who, session_id, [answer], body.run_id)
    if not user and body.props.input is None:
        said = "the list ends without a new message of the user; send one with an id of its own, or resume"
        raise InvalidField(f"messages: {said}", field="messages")
    return await _message(services, who, thread, replace(new, user=user), body)


async def _message(
    services: Services, who: Principal, thread: OpenThread, new: NewMessages, body: RunInput
) -> Accepted:
    tenant, session_id, props = who.tenant, thread.session.id, body.props
    documents = [await _file(services, who, part) for part in new.files]
    version = await services.systems.newest(tenant, thread.session.agent_system_id)
    agent = await services.systems.agent(tenant, thread.session.agent_system_id, version)
    options: Any = {
        "parameters": parameters_of(body, props, agent.graph_input),
        "documents": documents,
        "key": f"{_KEY}{body.run_id}",
        "message_id": (new.user[-1].id or None) if new.user else None,
    }
    accepted: Accepted
    if thread.is_new and new.conversation:
        whole = [*new.conversation, ChatMessage(role="user", content=new.text)]
        accepted = await services.sessions.send_conversation(tenant, session_id, whole, **options)
    else:
        accepted = await services.sessions.send(tenant, session_id, new.text, if_busy=props.if_busy, **options)
    return accepted


async def _again(services: Services, who: Principal, session_id: str, message: Sent, run_id: str) -> Accepted:
    """A message that the log has: its run, if that is under way or waits for the user; else another answer."""
    status = await _status(services, who, session_id)
    if status.message_id != message.id or status.run_id is None:
        said = f"the message {message.id[:60]!r} was answered in an earlier round; send a new one"
        raise Conflict(said, code="message_id_used")
    if status.status == "running":
        run = await services.sessions.run(who.tenant, session_id, status.run_id)
        return Accepted(round=status.round, run_id=run.run_id, position=run.position, after=run.after)
    return await services.sessions.regenerate(who.tenant, session_id, key=f"{_KEY}{run_id}")


async def _answer_by_tool(
    services: Services, who: Principal, session_id: str, results: Sequence[Sent]
) -> Answered | None:
    """The answer to a question whose tool call the front end has answered."""
    by_call = {each.tool_call_id: each for each in results if each.tool_call_id}
    for ask_id, asked in (await _questions(services, who, session_id)).items():
        if asked.tool_call_id in by_call:
            return answer_of(Resume(interrupt_id=ask_id, payload=by_call[asked.tool_call_id].text), asked)
    return None


async def _file(services: Services, who: Principal, part: Part) -> str:
    """The id of a stored file; a file inside of the message is stored."""
    _, stored, document_id = part.address.partition(_STORED)
    if stored and not part.address.startswith("data:"):
        return document_id
    return await store_data_url(services, who, part.address, part.name)


async def _known(services: Services, run: FollowedRun, body: RunInput) -> frozenset[str] | None:
    """The ids of the client's messages; None if it has the end of what was said before this run.

    Only the last trace is looked at: that a client has the end and lacks what was before is its own choice.
    """

    def shown(tx: Transaction) -> list[tuple[int, bytes]]:
        row = tx.row("start_of_trace", run.session_id, run.who.tenant, run.after)
        if row is None or row[0] is None:
            return []
        types = msgspec.json.encode(_SHOWN).decode()
        return tx.rows("events_of_types", run.session_id, row[0] - 1, types, run.who.tenant, 10_000)

    known = body.known
    found = [m.decode(bytes_) for position, bytes_ in await services.database.read(shown) if position <= run.after]
    return None if _has_end(found, known) else known


def _has_end(shown: Sequence[m.Envelope], known: frozenset[str]) -> bool:
    streamed: dict[str, str] = {}
    names: dict[str, str] = {}
    last = ""
    for envelope in shown:
        match envelope:
            case m.LlmStart(payload=called):
                streamed[envelope.call_id] = called.message_id
            case m.LlmEnd(payload=ended):
                names[ended.message_id] = streamed.get(envelope.call_id, ended.message_id)
            case m.Message(payload=said) if said.role in ("user", "assistant") and said.text:
                last = names.get(said.message_id, said.message_id)
            case m.ToolEnd():
                last = f"{envelope.call_id}.result"
    return last in known


PROTOCOL = Protocol(prefix="/ag-ui", routes=routes, problem=problem)
