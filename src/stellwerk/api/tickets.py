"""/stream-tickets: for readers that can send an address and nothing else, such as a browser's EventSource."""

from typing import Annotated

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.administration_answers import TicketTold
from stellwerk.api.answers import Json
from stellwerk.api.audit_trail import names
from stellwerk.api.credentials import Reading
from stellwerk.api.openapi import may, says
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed


class TicketWish(Closed):
    session_id: Annotated[str, Field(max_length=64, examples=[examples.SESSION_ID])]


_WISH = Body(openapi_examples={"stream": {"summary": "for one stream", "value": {"session_id": examples.SESSION_ID}}})


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["reading"], default_response_class=Response)

    @router.post(
        "/stream-tickets",
        status_code=201,
        summary="Get a ticket for a stream, for a reader that cannot send a header",
        responses={
            201: says(TicketTold, examples.TICKET, "Good for one connection, within half a minute"),
            **may(*refusals.BODY, refusals.NO_SESSION, refusals.OVERLOADED, refusals.GONE),
        },
    )
    async def sell(request: Request, who: Reading, body: Annotated[TicketWish, _WISH]) -> Response:
        """Add it to the address: `/sessions/{sid}/stream?ticket=…`. An EventSource that lost its connection needs
        a new one, and `after` with the last id it has."""
        names(request, sid=body.session_id)
        session = await services.sessions.find(who.tenant, body.session_id)
        ticket = services.credentials.tickets.sell(who, session.id)
        told = TicketTold(ticket=ticket.value, expires_at=ticket.until)
        return Json(told, 201, {"Cache-Control": "no-store"})

    return router
