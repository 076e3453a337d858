"""/v1/models and /v1/chat/completions: agent systems as models, sessions by header.

A request without a session is a conversation of its own: its earlier messages become those of a new
session. With the header ``X-Session-Id`` the session keeps them, and only the last message counts.
"""

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Header, Request, Response

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import IdempotencyKey, Json
from stellwerk.api.services import Services
from stellwerk.dialects import completions
from stellwerk.envelope.model import AskUser
from stellwerk.envelope.payloads import Usage
from stellwerk.errors import InvalidField
from stellwerk.protocols.openai.sent import (
    NO_RETRY,
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

SESSION = "X-Session-Id"
TASK = "X-Stellwerk-Task"
_MOST_MODELS = 500
SessionHeader = Annotated[str | None, Header(alias=SESSION)]
TaskHeader = Annotated[str | None, Header(alias=TASK)]


class _Chosen(NamedTuple):
    """What the headers of a request say."""

    session_id: str | None
    key: str | None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class CompletionRequest(msgspec.Struct):
    model: str
    messages: list[SentMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[Any] | None = None
    n: int | None = None
    user: str | None = None


def add_routes(router: APIRouter, services: Services) -> None:
    @router.get("/models")
    async def models(who: RequireReadTolerant) -> Response:
        systems = await services.systems.list(who.tenant, after="", limit=_MOST_MODELS)
        found = [_model(each.id, each.created_at) for each in systems if each.unusable is msgspec.UNSET]
        return Json({"object": "list", "data": found})

    @router.get("/models/{name}")
    async def model(who: RequireReadTolerant, name: str) -> Response:
        await services.systems.newest(who.tenant, name)
        return Json(_model(name, 0))

    @router.post("/chat/completions")
    async def complete(
        who: RequireRunTolerant,
        request: Request,
        session: SessionHeader = None,
        task: TaskHeader = None,
        tools: ToolsHeader = None,
        key: IdempotencyKey = None,
    ) -> Response:
        body = await body_of(request, CompletionRequest)
        check_tools(body.tools, tools)
        _check(body)
        if task:
            said = "this server answers no housekeeping tasks (titles, tags, queries): choose another task model"
            raise InvalidField(f"{TASK}: {said}", field=TASK)
        run = await _started(services, who, body, _Chosen(_decoded(session or "") or None, key))
        headers = {SESSION: run.session_id}
        if body.stream:
            wants_usage = body.stream_options is not None and body.stream_options.include_usage
            dialect = replace(completions.DIALECT, options=completions.Options(include_usage=wants_usage))
            return await stream_of_run(services, run, dialect, headers=headers)
        return await _whole(services, run, body.model, headers)


def _decoded(header: str) -> str:
    """Clients that send more than ASCII in a header send UTF-8; the server reads headers as Latin-1."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _model(name: str, created_at: float) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": int(created_at), "owned_by": "stellwerk"}


def _check(body: CompletionRequest) -> None:
    if body.n not in (None, 1):
        raise InvalidField("n: there is one answer to a message; leave n out", field="n")
    check_messages(body.messages, field="messages")


async def _started(services: Services, who: Principal, body: CompletionRequest, chosen: _Chosen) -> FollowedRun:
    async with open_thread(services, who, chosen.session_id, body.model, user=body.user) as thread:
        return await send_last(services, who, thread, body.messages, key=chosen.key)


async def _whole(services: Services, run: FollowedRun, model: str, headers: dict[str, str]) -> Response:
    end = await end_of_sent(services, run)
    if end.payload.status == "failed":
        return Json({"error": completions.failure(end)}, 500, {**headers, **NO_RETRY})
    text = end.payload.result or ""
    if end.payload.status == "awaiting_user":
        found = await services.log.envelopes(run.who.tenant, run.session_id, after=run.after)
        asked = [each.payload.question for each in found if isinstance(each, AskUser) and each.run_id == run.run_id]
        text = "\n\n".join(filter(None, [text, *asked]))
    message = {"role": "assistant", "content": text, "refusal": None}
    used: list[Usage] = end.payload.usage
    answer = {
        "id": completions.completion_id(run.run_id),
        "object": "chat.completion",
        "created": int(end.ts),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": completions.usage_of(used),
    }
    return Json(answer, 200, headers)
