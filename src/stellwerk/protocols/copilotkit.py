"""/copilotkit: the protocol of CopilotKit's runtime, so that its clients need no Node server beside this one.

Every agent system is an agent. A run goes on when its client is gone, because this protocol has a way to stop it.
"""

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

import stellwerk
from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.dialects.agui.dialect import DIALECT
from stellwerk.errors import InvalidField, NotFound
from stellwerk.protocols.agui import capabilities_of, problem, run_named, run_response, thread_response
from stellwerk.protocols.agui_requests import RunInput
from stellwerk.protocols.protocol import Protocol
from stellwerk.protocols.requests import body_of, decoded
from stellwerk.protocols.run_streams import FollowedRun, stop_run
from stellwerk.protocols.threads import find_thread
from stellwerk.tenants.principals import Principal

_MOST_AGENTS = 500


class StopInput(msgspec.Struct, rename="camel"):
    run_id: str | None = None
    """Only this run, by the id that the client gave to it."""


class Target(msgspec.Struct, rename="camel"):
    agent_id: str = ""
    thread_id: str = ""


class Envelope(msgspec.Struct):
    """A request of the single-route form."""

    method: str
    params: Target = msgspec.field(default_factory=Target)
    body: msgspec.Raw = msgspec.Raw(b"{}")


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/copilotkit", include_in_schema=False)

    @router.get("/info")
    async def info(who: RequireReadTolerant) -> Response:
        return Json(await _info(services, who))

    @router.post("/agent/{system}/run")
    async def run(who: RequireRunTolerant, request: Request, system: str) -> Response:
        body = await body_of(request, RunInput)
        return await run_response(services, who, system, body, goes_on=True)

    @router.post("/agent/{system}/connect")
    async def connect(who: RequireRunTolerant, request: Request, system: str) -> Response:
        return await _connected(services, who, system, await body_of(request, RunInput))

    @router.post("/agent/{system}/stop/{thread_id}")
    async def stop(who: RequireRunTolerant, request: Request, system: str, thread_id: str) -> Response:
        return await _stopped(services, who, thread_id, await body_of(request, StopInput))

    @router.post("")
    @router.post("/")
    async def any_of_these(who: RequireRunTolerant, request: Request) -> Response:
        called = await body_of(request, Envelope)
        agent, thread = called.params.agent_id, called.params.thread_id
        match called.method:
            case "info":
                return Json(await _info(services, who))
            case "agent/run":
                return await run_response(services, who, agent, decoded(called.body, RunInput), goes_on=True)
            case "agent/connect":
                return await _connected(services, who, agent, decoded(called.body, RunInput))
            case "agent/stop":
                return await _stopped(services, who, thread, decoded(called.body, StopInput))
        known = "info, agent/run, agent/connect, agent/stop"
        raise InvalidField(f"method: there is no {called.method[:60]!r} here; there are: {known}", field="method")

    return router


async def _info(services: Services, who: Principal) -> dict[str, Any]:
    systems = await services.systems.list(who.tenant, after="", limit=_MOST_AGENTS)
    agents = {
        each.id: {
            "name": each.id,
            "description": each.description,
            "className": "StellwerkAgent",
            "capabilities": capabilities_of(each.id),
        }
        for each in systems
        if each.unusable is msgspec.UNSET
    }
    endpoints = {"list": False, "inspect": False, "mutations": False, "realtimeMetadata": False}
    return {
        "version": stellwerk.__version__,
        "mode": "sse",
        "agents": agents,
        "audioFileTranscriptionEnabled": False,
        "threadEndpoints": endpoints,
    }


async def _connected(services: Services, who: Principal, system: str, body: RunInput) -> Response:
    """All that was said; nothing in a thread that has not begun."""
    await services.systems.newest(who.tenant, system)
    try:
        thread = await find_thread(services, who, body.thread_id)
    except NotFound:
        return Response(b"", media_type=DIALECT.media_type)
    if thread.session.agent_system_id != system:
        return Response(b"", media_type=DIALECT.media_type)
    return await thread_response(services, who, thread, is_before_1=body.is_before_1)


async def _stopped(services: Services, who: Principal, thread_id: str, body: StopInput) -> Response:
    thread = await find_thread(services, who, thread_id)
    session_id = thread.session.id
    if body.run_id is not None:
        run_id = await run_named(services, who, session_id, body.run_id)
        is_stopped = run_id is not None and await stop_run(services, FollowedRun(who, session_id, run_id))
        return Json({"stopped": is_stopped})
    is_stopped = thread.session.status == "running"
    await services.sessions.stop(who.tenant, session_id)
    return Json({"stopped": is_stopped})


PROTOCOL = Protocol(prefix="/copilotkit", routes=routes, problem=problem)
