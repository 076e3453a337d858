"""/healthz and /readyz: is the process alive, and can it do its work?"""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from stellwerk.api.services import Services
from stellwerk.api.sessions import Json
from stellwerk.database.port import Transaction


def _nothing(_: Transaction, items: Sequence[None]) -> Sequence[None]:
    """An empty transaction: it goes all the way through the writer, or says why it cannot."""
    return items


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["operations"])

    @router.get("/healthz", summary="The process is alive")
    async def healthz() -> Response:
        return Json({"status": "ok"})

    @router.get(
        "/readyz",
        summary="The server can take work",
        responses={503: {"description": "the database cannot be used"}, 507: {"description": "the disk is full"}},
    )
    async def readyz() -> Response:
        await services.database.submit(_nothing, None)
        return Json({"status": "ready"})

    return router
