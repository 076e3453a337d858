"""/healthz and /readyz: is the process alive, and can it do its work?"""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from stellwerk.api import refusals
from stellwerk.api.answers import Health, Json
from stellwerk.api.openapi import may, says
from stellwerk.api.services import Services
from stellwerk.database.port import Transaction


def _touch(tx: Transaction, items: Sequence[None]) -> Sequence[None]:
    """Write one row for all who ask at the same time: a transaction that changes nothing would not reach the disk."""
    tx.run("note_readiness")
    return items


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["operations"], default_response_class=Response)

    @router.get(
        "/healthz",
        summary="The process is alive",
        responses={200: says(Health, Health(status="ok"), "It is"), **may()},
    )
    async def healthz() -> Response:
        return Json(Health(status="ok"))

    @router.get(
        "/readyz",
        summary="The server can take work",
        responses={200: says(Health, Health(status="ready"), "A write goes through"), **may(*refusals.STORED)},
    )
    async def readyz() -> Response:
        await services.database.submit(_touch, None)
        return Json(Health(status="ready"))

    return router
