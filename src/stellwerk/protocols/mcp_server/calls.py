"""Calls of tools: a message to a session, its progress, its questions, and its result.

With protocol 2026-07-28 a question is the result of a call, and the client repeats the call with the answer.
Older clients are asked while their call is open. A client that shows no forms gets the question as text.
"""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
import msgspec
from anyio import get_cancelled_exc_class
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from starlette.requests import Request

from stellwerk.api.schema.shared import TEXT_LIMIT
from stellwerk.api.services import Services
from stellwerk.envelope.model import Envelope, Log, ToolEnd, ToolStart
from stellwerk.envelope.payloads import Asked, Filed
from stellwerk.errors import Conflict, InvalidField, NotFound, StellwerkError, StorageGone
from stellwerk.protocols.mcp_server import questions
from stellwerk.protocols.run_events import OUTCOME, RunOutcome, envelopes_of_run, message_of
from stellwerk.protocols.run_streams import FollowedRun, run_of
from stellwerk.protocols.threads import OpenThread, find_thread, open_thread
from stellwerk.tenants.principals import Principal

Context = ServerRequestContext[Any, Any]  # of the server's lifespan, and of the HTTP request
Result = types.CallToolResult | types.InputRequiredResult

_SESSION = "the conversation to continue, as an earlier result named it; leave it out to begin a new one"
_MESSAGE = (
    "what to say to the agent; while it waits for an answer to a question, the answer. "
    "Empty, with a session_id: waits for the answer that is under way, or returns the last one"
)
INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": _MESSAGE},
        "session_id": {"type": "string", "description": _SESSION},
    },
    "required": ["message"],
}
_DOCUMENT = {name: {"type": "string"} for name in ("id", "name", "mime", "url")} | {"size": {"type": "integer"}}
_USAGE = {"model": {"type": "string"}, "input_tokens": {"type": "integer"}, "output_tokens": {"type": "integer"}}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "session_id": {"type": "string", "description": "continues the conversation in another call"},
        "documents": {"type": "array", "items": {"type": "object", "properties": _DOCUMENT}},
        "usage": {"type": "array", "items": {"type": "object", "properties": _USAGE}},
        "questions": {"type": "array", "items": {"type": "object"}, "description": "those that wait for an answer"},
    },
    "required": ["session_id"],
}
_PROGRESS = ("tool_start", "tool_end", "log")


class Arguments(msgspec.Struct):
    message: str
    session_id: str | None = None


class AskedState(msgspec.Struct):
    """What a client gives back with its answers: sealed, so that it is what it was."""

    session_id: str
    run_id: str
    after: int


def principal_of(ctx: Context) -> Principal:
    who: Principal = _request(ctx).scope["principal"]
    return who


def _request(ctx: Context) -> Request:
    assert isinstance(ctx.request, Request), "requests come by HTTP"
    return ctx.request


class SystemCalls:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        """
        Raises:
            MCPError: there is no such tool.
        """
        who = principal_of(ctx)
        try:
            await self._services.systems.newest(who.tenant, params.name)
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name!r}; tools/list has all") from error
        call = _Call(self._services, ctx, who, params.name)
        try:
            if params.request_state is not None:
                state = msgspec.json.decode(params.request_state, type=AskedState)
                return await call.answered(state, params.input_responses or {})
            return await call.sent(_arguments(params.arguments))
        except StellwerkError as error:
            said = error.message
            if isinstance(error, StorageGone) and call.session_id is not None:
                said += f"; call this tool with an empty message and session_id {call.session_id!r} for the answer"
            return _failed(said, call.session_id, code=error.code)


@dataclass(slots=True)
class _Call:
    services: Services
    ctx: Context
    who: Principal
    system: str
    session_id: str | None = None
    _steps: int = 0
    _titles: dict[str, str] = field(default_factory=dict)

    async def sent(self, arguments: Arguments) -> Result:
        return await self._result(await self._started(arguments))

    async def answered(self, state: AskedState, responses: Mapping[str, types.InputResponse]) -> Result:
        """The call is repeated with answers; with the same ones again if its first result was lost."""
        self.session_id = state.session_id
        run = FollowedRun(self.who, state.session_id, state.run_id, state.after)
        outcome = await self._outcome(run)
        said = {ask_id: each for ask_id, each in responses.items() if isinstance(each, types.ElicitResult)}
        if not said.keys() >= outcome.questions.keys():
            return self._input_required(run, outcome)
        return await self._after(run, outcome, said)

    async def _started(self, arguments: Arguments) -> FollowedRun:
        text, thread_id = arguments.message, arguments.session_id or None
        if not text.strip():
            return await self._last_run(thread_id)
        if len(text) > TEXT_LIMIT:
            raise InvalidField(f"message: a text has at most {TEXT_LIMIT} characters", field="message")
        async with open_thread(self.services, self.who, thread_id, self.system) as thread:
            self.session_id = thread.session.id
            is_busy = thread.session.status == "running" and not thread.session.awaiting_user_input
            if is_busy and (same := await self._repeated(thread, text)) is not None:
                return same
            accepted = await self.services.sessions.send(
                self.who.tenant, thread.session.id, text, if_busy="enqueue" if is_busy else "reject"
            )
        return FollowedRun(self.who, thread.session.id, run_of(accepted), accepted.after)

    async def _last_run(self, thread_id: str | None) -> FollowedRun:
        if thread_id is None:
            raise InvalidField("message: it must not be empty; say something to the agent", field="message")
        thread = await find_thread(self.services, self.who, thread_id)
        if thread.session.agent_system_id != self.system:
            said = f"this session belongs to the tool {thread.session.agent_system_id!r}; call that"
            raise Conflict(said, code="other_system")
        self.session_id = thread.session.id
        for run in await self.services.sessions.runs(self.who.tenant, thread.session.id, limit=1):
            return FollowedRun(self.who, thread.session.id, run.run_id, run.after)
        raise Conflict("nothing has been said in this session yet; send a message", code="no_run")

    async def _repeated(self, thread: OpenThread, text: str) -> FollowedRun | None:
        """The run under way, if it answers this very message: a call that was cut off is repeated."""
        tenant, session_id = self.who.tenant, thread.session.id
        for run in await self.services.sessions.runs(tenant, session_id):
            if run.status == "running" and await message_of(self.services, tenant, run) == text:
                return FollowedRun(self.who, session_id, run.run_id, run.after)
        return None

    async def _result(self, run: FollowedRun) -> Result:
        outcome = await self._followed(run)
        if not outcome.questions:
            return self._completed(outcome)
        if not self._has_forms:
            return self._asked_in_words(outcome)
        if not self.ctx.session.can_send_request:
            return self._input_required(run, outcome)
        said = {ask_id: await self._elicited(asked) for ask_id, asked in outcome.questions.items()}
        return await self._after(run, outcome, said)

    async def _after(self, run: FollowedRun, outcome: RunOutcome, said: Mapping[str, types.ElicitResult]) -> Result:
        """The result after these answers, all that the run waits for."""
        given = [questions.answer(asked, said[ask_id]) for ask_id, asked in outcome.questions.items()]
        answers = [each for each in given if each is not None]
        if len(answers) < len(given):
            return self._asked_in_words(outcome)
        following: FollowedRun | None = None
        for each in answers:
            accepted = await self.services.sessions.answer(
                self.who.tenant, run.session_id, each, key=f"mcp {run.run_id} {each.ask_id}"
            )
            following = FollowedRun(self.who, run.session_id, accepted.run_id, accepted.after)
        assert following is not None, "a run that waits has questions"
        return await self._result(following)

    async def _followed(self, run: FollowedRun) -> RunOutcome:
        """Follow the run with reports of its progress, and stop it if the client cancels the call."""
        await self._report(f"session {run.session_id}")
        try:
            with self.services.quotas.stream(self.who.tenant, run.session_id):
                return await self._outcome(run, progress=True)
        except get_cancelled_exc_class():
            if not self.services.wakes.closed:
                with anyio.CancelScope(shield=True):
                    await self._stop(run)
            raise

    async def _outcome(self, run: FollowedRun, *, progress: bool = False) -> RunOutcome:
        outcome = RunOutcome()
        types_read = (*OUTCOME, *_PROGRESS) if progress else OUTCOME
        async with aclosing(envelopes_of_run(self.services, run, types_read)) as envelopes:
            async for envelope in envelopes:
                if envelope is None:
                    continue
                outcome.add(envelope)
                if message := self._progress(envelope):
                    await self._report(message)
        return outcome

    def _progress(self, envelope: Envelope) -> str | None:
        match envelope:
            case ToolStart(payload=called):
                self._titles[envelope.call_id] = called.title or called.tool_name
                return self._titles[envelope.call_id]
            case ToolEnd(payload=ended):
                return f"{self._titles.get(envelope.call_id, ended.tool_name)}: {ended.status}"
            case Log(payload=logged):
                return logged.message
        return None

    async def _report(self, message: str) -> None:
        """Nothing happens if the client did not ask for progress."""
        self._steps += 1
        await self.ctx.session.report_progress(self._steps, message=message)

    async def _stop(self, run: FollowedRun) -> None:
        tenant, sessions = self.who.tenant, self.services.sessions
        try:
            known = await sessions.run(tenant, run.session_id, run.run_id)
            if known.is_enqueued:
                await sessions.withdraw(tenant, run.session_id, run_id=run.run_id)
            elif known.status in ("waiting", "running"):
                await sessions.stop(tenant, run.session_id, reason="the call was cancelled")
        except StellwerkError:
            pass  # it has ended, or is gone

    async def _elicited(self, asked: Asked) -> types.ElicitResult:
        form = questions.elicitation(asked)
        return await self.ctx.session.elicit_form(
            form.message, form.requested_schema, related_request_id=self.ctx.request_id
        )

    @property
    def _has_forms(self) -> bool:
        capabilities = self.ctx.session.client_capabilities
        known = capabilities.elicitation if capabilities is not None else None
        return known is not None and (known.form is not None or known.url is None)

    def _input_required(self, run: FollowedRun, outcome: RunOutcome) -> Result:
        state = AskedState(run.session_id, run.run_id, run.after)
        return types.InputRequiredResult(
            input_requests={
                ask_id: types.ElicitRequest(params=questions.elicitation(asked))
                for ask_id, asked in outcome.questions.items()
            },
            request_state=msgspec.json.encode(state).decode(),
        )

    def _asked_in_words(self, outcome: RunOutcome) -> types.CallToolResult:
        asked = list(outcome.questions.values())
        how = f"The agent waits for the answer: call this tool with it as message and session_id {self.session_id!r}."
        said = [outcome.end.result if outcome.end is not None else None, questions.in_words(asked), how]
        more = {"questions": [questions.described(each) for each in asked]}
        return self._complete("\n\n".join(filter(None, said)), outcome, more)

    def _completed(self, outcome: RunOutcome) -> types.CallToolResult:
        assert outcome.end is not None
        if outcome.end.status == "failed":
            reason = outcome.end.reason or "the run failed"
            return _failed(reason, self.session_id, code=outcome.end.code or "failed")
        if outcome.end.status == "stopped":
            return _failed("the run was stopped", self.session_id, code="stopped")
        return self._complete(outcome.end.result or "", outcome, {})

    def _complete(self, text: str, outcome: RunOutcome, more: Mapping[str, Any]) -> types.CallToolResult:
        links = [
            types.ResourceLink(name=each.name, uri=self._url(each), mime_type=each.mime, size=each.size)
            for each in outcome.documents
        ]
        structured = {
            "session_id": self.session_id,
            "documents": [
                {"id": one.document_id, "name": one.name, "mime": one.mime, "size": one.size, "url": self._url(one)}
                for one in outcome.documents
            ],
            "usage": [] if outcome.end is None else msgspec.to_builtins(outcome.end.usage),
            **more,
        }
        return types.CallToolResult(content=[types.TextContent(text=text), *links], structured_content=structured)

    def _url(self, filed: Filed) -> str:
        return f"{_request(self.ctx).base_url}files/{filed.document_id}"


def _arguments(given: dict[str, Any] | None) -> Arguments:
    try:
        return msgspec.convert(given or {}, Arguments)
    except msgspec.ValidationError as error:
        raise InvalidField(f"arguments: {error}; they are {{message, session_id?}}", field="arguments") from error


def _failed(message: str, session_id: str | None, *, code: str) -> types.CallToolResult:
    structured = {"code": code} if session_id is None else {"code": code, "session_id": session_id}
    return types.CallToolResult(content=[types.TextContent(text=message)], structured_content=structured, is_error=True)
