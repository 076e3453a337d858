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
    kept = "a run is a part of its thread's log and is deleted with the thread"
    unserved(router, kept, {"DELETE": ("/threads/{thread_id}/runs/{run_id}",)})
    unserved(router, "send the runs one by one to POST /runs", {"POST": ("/runs/batch",)})
    unserved(router, "retention in the operator's file says when threads are deleted", {"POST": ("/threads/prune",)})
    followed = "follow one run at …/runs/{run_id}/stream, or the thread at POST …/stream/events"
    unserved(router, followed, {"GET": ("/threads/{thread_id}/stream",)})
    unserved(router, "cancel runs one by one, each with its id", {"POST": ("/runs/cancel",)})
    return router
