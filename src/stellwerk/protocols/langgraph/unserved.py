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
