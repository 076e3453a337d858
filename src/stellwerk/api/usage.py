"""/usage and /tenants/{name}/limits: what tenants may use, and what they have used."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request
from pydantic import Field
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.administration import Another, TenantName, must_operate, whose
from stellwerk.api.answers import Json
from stellwerk.api.audit_trail import concerns
from stellwerk.api.credentials import Administering, Reading
from stellwerk.api.openapi import may, says
from stellwerk.api.paging import Limit
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed
from stellwerk.api.usage_answers import UsagePage
from stellwerk.tenants.limits import Limits

_Number = Annotated[int | None, Field(ge=0, le=10**15)]
_Rate = Annotated[int | None, Field(ge=1, le=100_000)]


class WantedLimits(Closed):
    """All of them: what is left out is not limited."""

    requests: Annotated[_Rate, Field(description="of the tenant, in a minute")] = None
    runs: Annotated[_Number, Field(description="under way or waiting at the same time")] = None
    streams: Annotated[_Number, Field(description="open at the same time, WebSockets included")] = None
    bytes: Annotated[_Number, Field(description="of all files")] = None
    steps: Annotated[_Number, Field(description="calls of models, in a day")] = None
    tokens: Annotated[_Number, Field(description="that go in and come out, in a day")] = None
    seconds: Annotated[_Number, Field(description="in which runs are under way, in a day")] = None
    session_requests: Annotated[_Rate, Field(description="to one session, in a minute")] = None
    session_streams: Annotated[_Number, Field(description="of one session")] = None
    session_bytes: Annotated[_Number, Field(description="of the files of one session")] = None
    session_steps: Annotated[_Number, Field(description="of one session, in all")] = None
    session_tokens: Annotated[_Number, Field(description="of one session, in all")] = None
    session_seconds: Annotated[_Number, Field(description="of one session, in all")] = None


_LIMITS = Body(
    openapi_examples={"some": {"summary": "some", "value": {"requests": 600, "runs": 5, "tokens": 1_000_000}}}
)


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["administration"], default_response_class=Response)

    @router.get(
        "/usage",
        summary="Read what your tenant may use, and what it has used",
        responses={
            200: says(UsagePage, examples.TENANT_USAGE, "A page, the newest day first"),
            **may(refusals.LIMIT, refusals.NO_TENANT, refusals.GONE),
        },
    )
    async def read(
        who: Reading,
        tenant: Another = None,
        days: Annotated[int, Query(ge=1, le=3660, description="how many, today included")] = 30,
        after: Annotated[int, Query(ge=0, le=10**9, description="the `next` of the page before")] = 0,
        limit: Limit = 50,
    ) -> Response:
        """By day (UTC), user, system and model. A run counts when it has ended; what was deleted still counts."""
        name = whose(services, who, tenant, "what other tenants use is shown")
        found = await services.usage.page(name, days=days, after=after, limit=limit)
        used, limits = await services.quotas.used(name), services.quotas.limits(name)
        following = after + limit if len(found) == limit else None
        return Json(UsagePage(tenant=name, limits=limits, used=used, usage=found, next=following))

    @router.put(
        "/tenants/{name}/limits",
        summary="Limit what a tenant may use",
        responses={
            200: says(Limits, examples.LIMITS, "They hold from now on, and after a restart"),
            **may(*refusals.BODY, refusals.NO_TENANT, *refusals.STORED),
        },
    )
    async def limit(
        request: Request,
        who: Administering,
        name: TenantName,
        body: Annotated[WantedLimits, _LIMITS],
    ) -> Response:
        """All of them at once: what is left out is not limited. For whoever runs the server."""
        must_operate(who, "limits are set")
        concerns(request, name)
        wanted = Limits(**body.model_dump())
        await services.quotas.limit(name, wanted)
        return Json(wanted)

    return router
