"""/ai-sdk: agent systems as chat endpoints of the AI SDK (``useChat``), with resumable streams and history.

A chat is a session. Of the messages that a client sends, its whole list, only the last one is read: a
message of the user, or one of the assistant whose questions and approvals the client has answered.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import TEXT_LIMIT, Json
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import WHOLE
from stellwerk.database.port import Transaction
from stellwerk.dialects.ai_sdk.messages import UIMessages
from stellwerk.dialects.ai_sdk.stream import DIALECT, UIStreamOptions
from stellwerk.dialects.ai_sdk.texts import message_of, text_end
from stellwerk.dialects.base import Cursor, Dialect, translate
from stellwerk.envelope.model import Envelope, RunEnd, RunStart, decode
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import Conflict, InvalidField, NotFound, StellwerkError
from stellwerk.protocols.protocol import Protocol
from stellwerk.protocols.requests import body_of, store_data_url
from stellwerk.protocols.run_streams import FollowedRun, run_of, stream_of_run
from stellwerk.protocols.threads import find_thread, open_thread
from stellwerk.runs.commands import Accepted
from stellwerk.runs.replacing import said_as
from stellwerk.tenants.principals import Principal

HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "Cache-Control": "no-cache"}
RESUMABLE = 600
"""Seconds after its end in which a message can still be resumed: a client that lost its connection does not
know whether what it has is the whole."""

_CHANGED = "."
"""Between the id of a message and the end of the id of the run that it replaced: until its next reload, a client
keeps the id of a message that it changes."""
_Range = Sequence[tuple[int, Envelope]]
_ENDS = ("text-end", "reasoning-end")
_TEXTS = ("text-start", "text-delta", "reasoning-start", "reasoning-delta")


class Approval(msgspec.Struct):
    id: str
    approved: bool | None = None
    reason: str | None = None


class UIPart(msgspec.Struct):
    """Of a message; which fields it has depends on its type."""

    type: str
    text: str = ""
    url: str = ""
    media_type: str = msgspec.field(default="", name="mediaType")
    filename: str | None = None
    tool_call_id: str = msgspec.field(default="", name="toolCallId")
    state: str = ""
    output: Any = None
    error_text: str | None = msgspec.field(default=None, name="errorText")
    approval: Approval | None = None


class UIMessage(msgspec.Struct):
    id: str
    role: Literal["system", "user", "assistant"]
    parts: list[UIPart] = []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.type == "text" and part.text)

    @property
    def files(self) -> list[UIPart]:
        return [part for part in self.parts if part.type == "file"]


class ChatRequest(msgspec.Struct):
    id: str
    messages: list[msgspec.Raw] = []
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = msgspec.field(default=None, name="messageId")
    decisions: dict[str, Any] = {}
    """Beside approvals: another decision than yes or no, by approval id."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The message of the assistant that a session has last, as far as it is stored."""

    session_id: str
    envelopes: _Range
    run: RunStart | None
    """Its last run."""
    end: RunEnd | None
    """Of that run."""

    @property
    def runs(self) -> set[str]:
        """Its runs but the first, whose id it has itself."""
        return {each.call_id for _, each in self.envelopes if isinstance(each, RunStart)} - {
            self.envelopes[0][1].trace_id
        }

    @property
    def head(self) -> int:
        """The position that it reaches to."""
        return self.envelopes[-1][0] if self.envelopes else 0


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/ai-sdk/{system}/chat", include_in_schema=False)
    _add_commands(router, services)
    _add_reads(router, services)
    return router


def _add_commands(router: APIRouter, services: Services) -> None:
    @router.post("")
    async def chat(who: RequireRunTolerant, request: Request, system: str) -> Response:
        body = await body_of(request, ChatRequest)
        message = _last(body)
        dialect = _dialect(request)
        is_changed = message.role == "user" and body.message_id == message.id
        if body.trigger == "regenerate-message" or is_changed:
            run = await _once_more(services, who, system, body, message, _options(request).files)
            return await stream_of_run(services, run, dialect, headers=HEADERS)
        if message.role == "assistant":
            return await _answered(services, who, system, body, message, dialect)
        run, is_answer = await _sent(services, who, system, body, message, _options(request).files)
        if is_answer:
            dialect = _dialect_apart(dialect, run.run_id)
        return await stream_of_run(services, run, dialect, headers=HEADERS)

    @router.post("/{chat_id}/stop")
    async def stop(who: RequireRunTolerant, system: str, chat_id: str) -> Response:
        session_id = await _session(services, who, system, chat_id)
        stopped = await services.sessions.stop(who.tenant, session_id)
        return Json({"status": stopped.status})


def _add_reads(router: APIRouter, services: Services) -> None:
    @router.get("/{chat_id}/stream")
    async def resume(who: RequireReadTolerant, request: Request, system: str, chat_id: str) -> Response:
        try:
            session_id = await _session(services, who, system, chat_id)
        except NotFound:
            return Response(status_code=204)  # a new chat: nothing has been sent yet
        trace = await _trace(services, who, session_id)
        if trace.run is None or (trace.end is not None and trace.end.ts < services.clock.now() - RESUMABLE):
            return Response(status_code=204)
        return await _whole(services, who, trace, _dialect(request))

    @router.get("/{chat_id}")
    async def history(who: RequireReadTolerant, request: Request, system: str, chat_id: str) -> Response:
        session_id = await _session(services, who, system, chat_id)
        messages = UIMessages(_options(request))
        for position, envelope in enumerate(await services.log.envelopes(who.tenant, session_id), 1):
            messages.feed(position, envelope)
        return Json(messages.messages())


def problem(error: StellwerkError) -> Response:
    """An error as text: front ends show the body as it is."""
    return PlainTextResponse(error.message, error.status)


def _options(request: Request) -> UIStreamOptions:
    return UIStreamOptions(files=f"{request.base_url}files/")


def _dialect(request: Request) -> Dialect:
    return replace(DIALECT, options=_options(request))


def _dialect_apart(dialect: Dialect, run_id: str) -> Dialect:
    return replace(dialect, options=replace(dialect.options, apart=run_id))


def _last(body: ChatRequest) -> UIMessage:
    if not body.messages:
        raise InvalidField("messages: it is empty; send the messages of the chat", field="messages")
    try:
        return msgspec.json.decode(body.messages[-1], type=UIMessage)
    except msgspec.ValidationError as error:
        raise InvalidField(f"messages: the last one: {error}", field="messages") from error


async def _session(services: Services, who: Principal, system: str, chat_id: str) -> str:
    """
    Raises:
        NotFound: there is no such chat with this agent system.
    """
    found = await find_thread(services, who, chat_id)
    if found.session.agent_system_id != system:
        raise NotFound("chat", chat_id, remedy="it begins with its first message")
    return found.session.id


async def _sent(
    services: Services, who: Principal, system: str, body: ChatRequest, message: UIMessage, files: str
) -> tuple[FollowedRun, bool]:
    """The run of a message of the user, and whether the message answers a question."""
    _check(message)
    async with open_thread(services, who, body.id, system) as thread:
        is_busy = thread.session.status == "running" and not thread.session.awaiting_user_input
        accepted: Accepted = await services.sessions.send(
            who.tenant,
            thread.session.id,
            message.text,
            documents=[await _document(services, who, part, files) for part in message.files],
            if_busy="enqueue" if is_busy else "reject",
            message_id=message.id,
        )
    if accepted.status == "noted":
        raise Conflict("other questions are open: answer each one in its own part", code="which_question")
    run = FollowedRun(who, thread.session.id, run_of(accepted), accepted.after)
    return run, accepted.ask_id is not msgspec.UNSET


def _check(message: UIMessage) -> None:
    if len(message.text) > TEXT_LIMIT:
        raise InvalidField(f"messages: a text has at most {TEXT_LIMIT} characters; send a file", field="messages")
    if not message.text and not message.files:
        raise InvalidField("messages: the last one has neither text nor a file", field="messages")


async def _document(services: Services, who: Principal, part: UIPart, files: str) -> str:
    """The id of a file, which is stored now, or was when the message was sent that is changed."""
    if part.url.startswith(files):
        return part.url.removeprefix(files)
    return await store_data_url(services, who, part.url, part.filename)


async def _once_more(
    services: Services, who: Principal, system: str, body: ChatRequest, message: UIMessage, files: str
) -> FollowedRun:
    """The run that answers a message again, or the changed message in its place; later rounds are replaced too."""
    session_id = await _session(services, who, system, body.id)
    if message.role != "user":
        accepted: Accepted = await services.sessions.regenerate(who.tenant, session_id)
    else:
        run_id, text = await services.database.read(lambda tx: _answered_by(tx, who.tenant, session_id, message.id))
        if message.text == text:
            accepted = await services.sessions.regenerate(who.tenant, session_id, run_id=run_id)
        else:
            _check(message)
            accepted = await services.sessions.send(
                who.tenant,
                session_id,
                message.text,
                documents=[await _document(services, who, part, files) for part in message.files],
                message_id=f"{message.id}{_CHANGED}{run_id[-6:]}",
                replaces=run_id,
            )
    return FollowedRun(who, session_id, accepted.run_id, accepted.after)


def _answered_by(tx: Transaction, tenant: str, session_id: str, message_id: str) -> tuple[str, str]:
    """The newest run that answers a message, as it was sent or changed, and the text of that.

    Raises:
        Conflict: no run answers it.
    """
    for _, body in reversed(tx.rows("starts_naming", session_id, message_id, tenant)):
        start = decode(body)
        named = start.payload.message_id if isinstance(start, RunStart) else None
        if named is not None and f"{named}{_CHANGED}".startswith(f"{message_id}{_CHANGED}"):
            said = said_as(tx, tenant, session_id, named)
            return start.call_id, said[0].text if said else ""
    raise Conflict("no answer to this message is known; send it as a new one", code="no_run")


async def _answered(
    services: Services, who: Principal, system: str, body: ChatRequest, message: UIMessage, dialect: Dialect
) -> Response:
    """Answers to open questions, then the rest of the message; the client has its beginning."""
    session_id = await _session(services, who, system, body.id)
    trace = await _trace(services, who, session_id)
    answers = list(_answers(trace, message, body.decisions))
    accepted: Accepted | None = None
    for answer in answers:
        accepted = await services.sessions.answer(who.tenant, session_id, answer)
    if accepted is not None and accepted.status != "noted":
        if message.id in trace.runs:  # it began with the answer of a user who wrote a message
            dialect = _dialect_apart(dialect, message.id)
        run = FollowedRun(who, session_id, accepted.run_id, accepted.after)
        return await stream_of_run(services, run, dialect, headers=HEADERS)
    if accepted is not None or (trace.run is not None and trace.end is None):
        return await _whole(services, who, await _trace(services, who, session_id), dialect)
    raise Conflict("this message answers no open question; send a message of the user", code="not_asked")


def _answers(trace: Trace, message: UIMessage, decisions: dict[str, Any]) -> list[Answered]:
    seen = UIMessages()
    for position, envelope in trace.envelopes:
        seen.feed(position, envelope)
    parts = {part.tool_call_id: part for part in message.parts}
    found = [_answer(ask_id, parts.get(part_id), decisions) for part_id, ask_id in seen.questions.items()]
    return [answer for answer in found if answer is not None]


def _answer(ask_id: str, part: UIPart | None, decisions: dict[str, Any]) -> Answered | None:
    """What a part says to its question; None if it is still open."""
    if part is None:
        return None
    if part.state == "approval-responded" and part.approval is not None:
        if part.approval.approved and ask_id in decisions:
            return Answered(ask_id=ask_id, data=decisions[ask_id])
        if part.approval.approved:
            return Answered(ask_id=ask_id, data={"type": "approve"})
        return Answered(ask_id=ask_id, refused=True, text=part.approval.reason)
    if part.state == "output-error":
        return Answered(ask_id=ask_id, refused=True, text=part.error_text)
    if part.state != "output-available":
        return None
    if isinstance(part.output, str):
        return Answered(ask_id=ask_id, text=part.output)
    return Answered(ask_id=ask_id, data=part.output)


async def _trace(services: Services, who: Principal, session_id: str) -> Trace:
    head = await services.log.head(who.tenant, session_id)
    row = await services.database.read(lambda tx: tx.row("start_of_trace", session_id, who.tenant, head.position))
    if row is None or row[0] is None:
        return Trace(session_id, [], None, None)
    stored = await services.log.envelopes(who.tenant, session_id, after=row[0] - 1)
    run: RunStart | None = None
    end: RunEnd | None = None
    for envelope in stored:
        if isinstance(envelope, RunStart):
            run, end = envelope, None
        elif isinstance(envelope, RunEnd):
            end = envelope
    return Trace(session_id, list(enumerate(stored, row[0])), run, end)


async def _whole(services: Services, who: Principal, trace: Trace, dialect: Dialect) -> Response:
    """The last message from its first chunk on, and then what comes: the client builds it once more.

    Without what does not count any more, which a client that has seen it cannot drop.
    """
    chunks = list(translate(dialect.translator(trace.session_id), trace.envelopes))
    gone = {_subject(chunk["data"]) for _, chunk in chunks if chunk["type"] == "data-retracted"}
    if trace.end is None:  # the run repeats what was cut off
        gone |= {message_of(chunk["id"]) for _, chunk in chunks if "providerMetadata" in chunk}
    left = [(cursor, chunk) for cursor, chunk in chunks if _subject(chunk) not in gone]
    if trace.run is None or trace.end is not None:
        known = b"".join(dialect.frame(*each) for each in left)
        return Response(known + dialect.closing, headers=HEADERS, media_type=dialect.media_type)
    run = FollowedRun(who, trace.session_id, trace.run.call_id)
    response: Any = await stream_of_run(services, run, dialect, cursor=(trace.head, WHOLE), headers=HEADERS)
    response.body_iterator = _continued(left, dialect, response.body_iterator)
    return response  # type: ignore[no-any-return]


def _subject(chunk: dict[str, Any]) -> str:
    """The model call or the tool call of a chunk, or of the data of ``data-retracted``."""
    subject: str = chunk.get("toolCallId") or chunk.get("messageId") or message_of(chunk.get("id", ""))
    return subject


async def _continued(
    known: Sequence[tuple[Cursor, dict[str, Any]]], dialect: Dialect, rest: AsyncGenerator[bytes]
) -> AsyncIterator[bytes]:
    """Chunks that are known, and the stream that follows.

    A text that is open is held back until it is known whether it goes on, or was cut off with the server.
    """
    ended = {chunk["id"] for _, chunk in known if chunk["type"] in _ENDS}
    is_open = [chunk["type"] in _TEXTS and chunk["id"] not in ended for _, chunk in known]
    frames = [(dialect.frame(*each), waits) for each, waits in zip(known, is_open, strict=True)]
    cuts = {_cut_off(dialect, chunk) for (_, chunk), waits in zip(known, is_open, strict=True) if waits}
    held = b"".join(frame for frame, waits in frames if waits)
    async with aclosing(rest):
        yield b"".join(frame for frame, waits in frames if not waits)
        async for chunk in rest:
            if held and b"data:" in chunk:
                for cut in cuts:
                    held, chunk = (b"", chunk.replace(cut, b"")) if cut in chunk else (held, chunk)
                yield held
                held = b""
            yield chunk
        yield held


def _cut_off(dialect: Dialect, chunk: dict[str, Any]) -> bytes:
    """The end of an open text, if its model call is abandoned."""
    kind = chunk["type"].partition("-")[0]
    return dialect.frame((0, 0), text_end(kind, chunk["id"], "abandoned"))


PROTOCOL = Protocol(prefix="/ai-sdk", routes=routes, problem=problem)
