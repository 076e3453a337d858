"""/sessions: begin one, list them, look at one, fork it, delete it."""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json, SessionPage, address
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import LOCAL_TENANT, Services
from stellwerk.runs.sessions import Session

Sid = Annotated[str, Path(description="the id of a session", examples=[examples.SESSION_ID])]


class Closed(BaseModel):
    """A body with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class NewSession(Closed):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64, examples=["demo"])]
    user_id: Annotated[str | None, Field(max_length=128, description="a label of yours", examples=["ada"])] = None


class ForkWish(Closed):
    position: Annotated[
        int | None, Field(ge=1, le=10**15, description="of the end of a run; without it, of the last", examples=[12])
    ] = None


_BEGIN = Body(
    openapi_examples={
        "demo": {"summary": "with the demo system", "value": {"agent_system_id": "demo"}},
        "labelled": {"summary": "with a label", "value": {"agent_system_id": "demo", "user_id": "ada"}},
    }
)
_FORK = Body(openapi_examples={"last": {"summary": "where the last run ended", "value": {}}})


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/sessions", tags=["sessions"], default_response_class=Response)
    _add_list(router, services)
    _add_one(router, services)
    return router


def _add_list(router: APIRouter, services: Services) -> None:
    @router.post(
        "",
        status_code=201,
        summary="Begin a session with an agent system",
        responses={
            201: says(Session, examples.BEGUN, "Begun"),
            **may(*refusals.BODY, refusals.NO_SYSTEM, *refusals.STORED),
        },
    )
    async def begin(request: Request, body: Annotated[NewSession, _BEGIN]) -> Response:
        session = await services.sessions.begin(LOCAL_TENANT, body.agent_system_id, body.user_id)
        return _begun(request, session)

    @router.get(
        "",
        summary="List sessions, newest first",
        responses={200: says(SessionPage, examples.SESSIONS, "A page"), **may(refusals.LIMIT, refusals.GONE)},
    )
    async def list_sessions(
        before: Annotated[str | None, Query(description="the `next` of the page before")] = None,
        limit: Limit = 50,
    ) -> Response:
        found = await services.sessions.list(LOCAL_TENANT, before=before, limit=limit)
        return Json(SessionPage(sessions=found, next=found[-1].id if len(found) == limit else None))


def _add_one(router: APIRouter, services: Services) -> None:
    @router.get(
        "/{sid}",
        summary="Look at a session",
        responses={
            200: says(Session, examples.SESSION, "Where it stands"),
            **may(refusals.NO_SESSION, refusals.GONE),
        },
    )
    async def find(sid: Sid) -> Response:
        return Json(await services.sessions.find(LOCAL_TENANT, sid))

    @router.delete(
        "/{sid}",
        status_code=204,
        summary="Delete a session and all it left",
        response_description="Gone for good; its id is never used again",
        responses=may(refusals.NO_SESSION, *refusals.STORED),
    )
    async def delete(sid: Sid) -> Response:
        await services.sessions.delete(LOCAL_TENANT, sid)
        return Response(status_code=204)

    @router.post(
        "/{sid}/fork",
        status_code=201,
        summary="Begin another session with what was said in this one",
        responses={
            201: says(Session, examples.SESSION, "Begun, with the same envelopes at the same positions"),
            **may(*refusals.BODY, refusals.NO_SESSION, *refusals.UNFORKABLE, *refusals.STORED),
        },
    )
    async def fork(request: Request, sid: Sid, body: Annotated[ForkWish | None, _FORK] = None) -> Response:
        """It can be cut where a run is over, and has a life of its own from there."""
        return _begun(request, await services.sessions.fork(LOCAL_TENANT, sid, body.position if body else None))


def _begun(request: Request, session: Session) -> Response:
    return Json(session, 201, {"Location": address(request, f"/sessions/{session.id}")})
