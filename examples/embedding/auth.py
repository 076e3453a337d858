"""A typical auth dependency. The tokens are for trying it out."""

from typing import Annotated

from fastapi import Header, HTTPException

TOKENS = {"let-me-in": "ada"}


async def current_user(authorization: Annotated[str | None, Header()] = None) -> str:
    user = TOKENS.get((authorization or "").removeprefix("Bearer "))
    if user is None:
        raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
    return user
