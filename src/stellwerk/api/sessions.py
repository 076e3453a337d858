"""/sessions: begin one, list them, look at one, fork it, delete it."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.answers import Json, SessionPage, address
from stellwerk.api.credentials import Reading, Running, on_behalf
from stellwerk.api.listing import ListWish, listing
from stellwerk.api.openapi import may, polled, says
from stellwerk.api.services import Services
from stellwerk.api.workflow_routes import answered, unchanged
from stellwerk.runs.sessions import Session

Sid = Annotated[str, Path(description="the id of a session", examples=[examples.SESSION_ID])]


_MOST_FIELDS = 64


def few_fields(body: Any) -> Any:
    """Pydantic would tell of each that is not known: a second for 100,000 of them, in which nobody is served."""
    if isinstance(body, dict) and len(body) > _MOST_FIELDS:
        raise PydanticCustomError("too_many_fields", f"there must not be more than {_MOST_FIELDS} fields")
    return body


class Closed(BaseModel):
    """A body with these fields and no others."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few(cls, body: Any) -> Any:
        return few_fields(body)


class NewSession(Closed):
    agent_system_id: Annotated[str, Field(min_length=1, max_length=64, examples=["demo"])]
    user_id: Annotated[
        str | None, Field(max_length=128, description="whose it is; graphs get it", examples=["ada"])
    ] = None
    workflow: Annotated[bool, Field(description="whether it is listed as a workflow, and not as a chat")] = False


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
    async def begin(who: Running, request: Request, body: Annotated[NewSession, _BEGIN]) -> Response:
        user = on_behalf(who, body.user_id)
        session = await services.sessions.begin(who.tenant, body.agent_system_id, user, is_workflow=body.workflow)
        return _begun(request, session)

    @router.get(
        "",
        summary="List sessions, by their last activity",
        responses={**polled(says(SessionPage, examples.SESSIONS, "A page")), **may(refusals.LIMIT, refusals.GONE)},
    )
    async def list_sessions(who: Reading, request: Request, wish: Annotated[ListWish, Query()]) -> Response:
        """With `wait` and the tag of the last answer as `If-None-Match`, it is answered when the page has changed."""
        body, tag = await listing(services, who, wish, request.headers.get("if-none-match"))
        return unchanged(request, tag) or answered(body, tag)


def _add_one(router: APIRouter, services: Services) -> None:
    @router.get(
        "/{sid}",
        summary="Look at a session",
        responses={
            200: says(Session, examples.SESSION, "Where it stands"),
            **may(refusals.NO_SESSION, refusals.GONE),
        },
    )
    async def find(who: Reading, sid: Sid) -> Response:
        return Json(await services.sessions.find(who.tenant, sid, titled=True))

    @router.delete(
        "/{sid}",
        status_code=204,
        summary="Delete a session and all it left",
        response_description="Gone for good; its id is never used again",
        responses=may(refusals.NO_SESSION, *refusals.STORED),
    )
    async def delete(who: Running, sid: Sid) -> Response:
        await services.sessions.delete(who.tenant, sid)
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
    async def fork(
        who: Running, request: Request, sid: Sid, body: Annotated[ForkWish | None, _FORK] = None
    ) -> Response:
        """It can be cut where a run is over, and has a life of its own from there."""
        return _begun(request, await services.sessions.fork(who.tenant, sid, body.position if body else None))


def _begun(request: Request, session: Session) -> Response:
    return Json(session, 201, {"Location": address(request, f"/sessions/{session.id}")})
