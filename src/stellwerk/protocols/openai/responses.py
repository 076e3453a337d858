"""/v1/responses: a response is a run, and its conversation a session.

``previous_response_id`` continues the session of that run, and ``conversation`` names a session.
"""

from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request, Response

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import IdempotencyKey, Json
from stellwerk.api.services import Services
from stellwerk.dialects import responses
from stellwerk.dialects.base import Chunk
from stellwerk.errors import Conflict, NotFound
from stellwerk.protocols.openai.sent import (
    SentMessage,
    ToolsHeader,
    check_messages,
    check_tools,
    end_of_sent,
    send_last,
)
from stellwerk.protocols.requests import body_of
from stellwerk.protocols.run_streams import FollowedRun, stream_of_run
from stellwerk.protocols.threads import open_thread
from stellwerk.tenants.principals import Principal

StartingAfter = Annotated[int, Query(alias="starting_after")]


class NamedConversation(msgspec.Struct):
    id: str


class ResponseRequest(msgspec.Struct):
    model: str
    input: str | list[SentMessage]
    stream: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | NamedConversation | None = None
    tools: list[Any] | None = None
    user: str | None = None

    @property
    def messages(self) -> list[SentMessage]:
        if isinstance(self.input, str):
            return [SentMessage(content=self.input)]
        return [each for each in self.input if each.type == "message"]


class _StoredRun(NamedTuple):
    session_id: str
    position: int
    """Of its start."""


def add_routes(router: APIRouter, services: Services) -> None:
    @router.post("/responses")
    async def create(
        who: RequireRunTolerant, request: Request, tools: ToolsHeader = None, key: IdempotencyKey = None
    ) -> Response:
        body = await body_of(request, ResponseRequest)
        check_tools(body.tools, tools)
        check_messages(body.messages, field="input")
        async with open_thread(
            services, who, await _thread_of(services, who, body), body.model, user=body.user
        ) as thread:
            run = await send_last(services, who, thread, body.messages, key=key)
        if body.stream:
            return await stream_of_run(services, run, responses.DIALECT)
        if not body.background:
            await end_of_sent(services, run)
        return Json(await _response(services, run))

    @router.get("/responses/{response_id}")
    async def retrieve(
        who: RequireReadTolerant, response_id: str, *, stream: bool = False, starting_after: StartingAfter = -1
    ) -> Response:
        run = await _found(services, who, response_id)
        if stream:
            return await stream_of_run(services, run, responses.DIALECT, keep=lambda number: number > starting_after)
        return Json(await _response(services, run))

    @router.post("/responses/{response_id}/cancel")
    async def cancel(who: RequireRunTolerant, response_id: str) -> Response:
        run = await _found(services, who, response_id)
        session = await services.sessions.find(who.tenant, run.session_id)
        if session.status == "running" and await _is_latest(services, run):
            await services.sessions.stop(who.tenant, run.session_id)
        return Json(await _response(services, run))


async def _thread_of(services: Services, who: Principal, body: ResponseRequest) -> str | None:
    if body.previous_response_id is not None:
        return (await _found(services, who, body.previous_response_id)).session_id
    named = body.conversation
    return named.id if isinstance(named, NamedConversation) else named


async def _found(services: Services, who: Principal, response_id: str) -> FollowedRun:
    run_id = responses.run_of(response_id)
    row = await services.database.read(lambda tx: tx.row("session_of_run", run_id, who.tenant))
    if row is None:
        raise NotFound("response", response_id, remedy="it was deleted with its session, or never was")
    found = _StoredRun(*row)
    return FollowedRun(who, found.session_id, run_id, found.position - 1)


async def _is_latest(services: Services, run: FollowedRun) -> bool:
    row = await services.database.read(lambda tx: tx.row("unfinished_run", run.session_id, run.who.tenant))
    return row is not None and row[0] == run.run_id


async def _response(services: Services, run: FollowedRun) -> Chunk:
    """The response as it is now."""
    translator = responses.DIALECT.translator(run.session_id)
    response: Chunk = {}
    log = await services.log.envelopes(run.who.tenant, run.session_id, after=run.after)
    for position, envelope in enumerate(log, run.after + 1):
        if envelope.run_id not in (run.run_id, None):
            break
        for chunk in translator.feed(position, envelope):
            response = chunk.get("response", response)
    if not response:
        raise Conflict("the run of this response has not started yet", code="not_started")
    return {**response, "conversation": {"id": run.session_id}}
