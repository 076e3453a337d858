"""The list of sessions for whoever keeps it on a screen: told again only when it has changed.

The log knows the last change among the sessions of a tenant by a number, which is
looked at once a second. The number counts for all tenants, so nobody is told
it: what a reader holds is a digest of what he has read.
"""

import asyncio
import re
from contextlib import suppress
from typing import Annotated

import msgspec
from pydantic import BaseModel, Field

from stellwerk.api.answers import SessionPage
from stellwerk.api.services import Services
from stellwerk.api.workflow_routes import names
from stellwerk.errors import InvalidField, NotFound
from stellwerk.ids import digest_id
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal

_LOOK = 1.0
"""Seconds between two looks; in a run that speaks there is news every time."""
_CURSOR = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,20})?)_(.{1,100})", re.DOTALL)
Told = tuple[bytes, str]
"""The page, and its ETag."""


class ListWish(BaseModel):
    """Which sessions a reader wants to see, and how long he waits for other ones."""

    before: Annotated[str | None, Field(description="the `next` of the page before")] = None
    limit: Annotated[int, Field(ge=1, le=500, description="how many, at most")] = 50
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for a change, with `If-None-Match`")] = 0


async def listing(services: Services, who: Principal, wish: ListWish, known: str | None) -> Told:
    """The page as it is; if the reader knows that one, as it is after the next change, or when he has waited enough."""
    seen = await _last_change(services, who)
    told = await _page(services, who, wish)
    with suppress(TimeoutError):
        async with asyncio.timeout(wish.wait):
            while known is not None and names(known, told[1]) and not services.wakes.closed:
                await asyncio.sleep(_LOOK)
                services.credentials.must_hold(who)
                if (now := await _last_change(services, who)) != seen:
                    seen, told = now, await _page(services, who, wish)
    return told


async def _page(services: Services, who: Principal, wish: ListWish) -> Told:
    before = None if wish.before is None else await _place(services, who, wish.before)
    found = await services.sessions.list(who.tenant, before=before, limit=wish.limit)
    body = msgspec.json.encode(
        SessionPage(sessions=found, next=_cursor(found[-1]) if len(found) == wish.limit else None)
    )
    return body, f'"{digest_id(body.decode())}"'


def _cursor(last: Session) -> str:
    """Where a page ended. It stays true while sessions move: those that do are at the beginning then."""
    return f"{last.last_activity_at!r}_{last.id}"


async def _place(services: Services, who: Principal, before: str) -> tuple[float, str]:
    """Of a cursor, or of a session as it is now, which readers of earlier versions name."""
    if (found := _CURSOR.fullmatch(before)) is not None:
        return float(found[1]), found[2]
    try:
        session = await services.sessions.find(who.tenant, before)
    except NotFound as error:
        raise InvalidField(
            "before: this is no `next` of a page; take that of the page before", field="before"
        ) from error
    return session.last_activity_at, session.id


async def _last_change(services: Services, who: Principal) -> int:
    row = await services.database.read(lambda tx: tx.row("last_change", who.tenant))
    return int(row[0]) if row else 0
