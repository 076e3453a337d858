"""Routes of LangGraph's API that answer 501, and say what to use in their place."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Response

from stellwerk.api.http.auth import RequireReadTolerant
from stellwerk.errors import StellwerkError


class NotServed(StellwerkError, code="not_supported", status=501):
    """A part of another protocol that this server does not have."""


def unserved(router: APIRouter, said: str, paths: Mapping[str, Sequence[str]]) -> None:
    """Add routes by method; ``said`` is their answer."""

    async def refuse(who: RequireReadTolerant) -> Response:
        raise NotServed(said)

    for method, each in paths.items():
        for path in each:
            router.add_api_route(path, refuse, methods=[method])


def unserved_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    crons = "crons are made with POST /crons of this server"
    unserved(router, crons, {"POST": ("/runs/crons", "/runs/crons/search", "/runs/crons/count")})
    unserved(router, crons, {"POST": ("/threads/{thread_id}/runs/crons",)})
    unserved(router, crons, {"PATCH": ("/runs/crons/{cron_id}",), "DELETE": ("/runs/crons/{cron_id}",)})
    kept = "a run is a part of its thread's log and is deleted with the thread"
    unserved(router, kept, {"DELETE": ("/threads/{thread_id}/runs/{run_id}",)})
    unserved(router, "send the runs one by one to POST /runs", {"POST": ("/runs/batch",)})
    unserved(router, "retention in the operator's file says when threads are deleted", {"POST": ("/threads/prune",)})
    unserved(router, "cancel runs one by one, each with its id", {"POST": ("/runs/cancel",)})
    stored = "the store of graphs is read and written at /store of this server"
    items = "/store/items"
    unserved(router, stored, {"PUT": (items,), "GET": (items,), "DELETE": (items,)})
    unserved(router, stored, {"POST": ("/store/items/search", "/store/namespaces")})
    return router
