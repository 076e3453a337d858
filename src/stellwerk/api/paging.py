"""Where log and polling meet: one page of envelopes, and how far it reaches.

What a profile hides is read over: a page is empty only at the end of the log,
and its ``next`` is never behind what was looked at.
"""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from stellwerk.api.services import Services
from stellwerk.api.streaming import After, ProfileWish
from stellwerk.dialects.native import shown
from stellwerk.envelope.frames import Stored
from stellwerk.log.follow import follow
from stellwerk.tenants.principals import Principal

Limit = Annotated[int, Query(ge=1, le=500, description="how many, at most")]
"""Of a listing."""


class PageWish(BaseModel):
    """Which page a reader wants."""

    after: After = None
    limit: Annotated[int, Field(ge=1, le=1000, description="how many, at most")] = 500
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for the next event, if there is none")] = 0
    profile: ProfileWish = "user"


Page = tuple[list[Stored], int]
"""Envelopes, and the cursor behind them."""


async def page_of(services: Services, who: Principal, session_id: str, wish: PageWish, after: int) -> Page:
    """The next envelopes that there are for this reader; none if there are none yet, however long he waits."""
    while read := await services.log.read(who.tenant, session_id, after=after, limit=wish.limit):
        page, after = _cut(read, wish)
        if page:
            return page, after
    return await _awaited(services, who, session_id, wish, after) if wish.wait else ([], after)


async def _awaited(services: Services, who: Principal, session_id: str, wish: PageWish, after: int) -> Page:
    events = follow(services.log, services.wakes, tenant=who.tenant, session_id=session_id, after=after)
    with suppress(TimeoutError):
        async with aclosing(events), asyncio.timeout(wish.wait):
            async for read in events:
                services.credentials.must_hold(who)
                page, after = _cut(read, wish) if read else ([], after)
                if page:
                    return page, after
    return [], after


def _cut(read: list[Stored], wish: PageWish) -> Page:
    seen = shown(read, wish.profile)
    page = seen[: wish.limit]
    return page, page[-1].position if len(page) < len(seen) else read[-1].position
