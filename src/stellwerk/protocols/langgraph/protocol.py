"""LangGraph's API under /langgraph."""

import msgspec
from fastapi import APIRouter, Response

import stellwerk
from stellwerk.api.http.auth import RequireReadTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.errors import StellwerkError
from stellwerk.protocols.langgraph import assistants, crons, events, runs, shapes, store, threads, unserved
from stellwerk.protocols.langgraph.reading import ThreadStates
from stellwerk.protocols.protocol import Protocol


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix=shapes.PREFIX, include_in_schema=False)
    states = ThreadStates(services)

    @router.get("/ok")
    async def ok() -> Response:
        return Json({"ok": True})

    @router.get("/info")
    async def info(who: RequireReadTolerant) -> Response:
        flags = {"assistants": True, "crons": True, "langsmith": False, "langsmith_tracing_replicas": False}
        return Json({"version": stellwerk.__version__, "flags": flags, "host": {"kind": "stellwerk"}})

    parts = (
        *(assistants.routes(services), assistants.writes()),
        *(threads.routes(services, states), threads.state_routes(services, states)),
        *(runs.routes(services, states), runs.stateless_routes(services, states)),
        *(crons.routes(services, states), store.routes(services), events.routes(services, states)),
        unserved.unserved_routes(),
    )
    for part in parts:
        router.include_router(part)
    return router


def problem(error: StellwerkError) -> Response:
    """As FastAPI and LangGraph's server have it."""
    body = {"detail": error.message, "code": error.code}
    return Response(msgspec.json.encode(body), error.status, media_type="application/json")


PROTOCOL = Protocol(prefix=shapes.PREFIX, routes=routes, problem=problem)
