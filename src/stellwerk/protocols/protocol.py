"""What a protocol adds to the server: its routes, its form of errors, and where they are."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from stellwerk.api.services import Services
from stellwerk.errors import StellwerkError

BODY_LIMIT = 16 * 1024 * 1024
"""Clients of other protocols send their whole history with each message."""


@dataclass(frozen=True, slots=True)
class Protocol:
    prefix: str
    """Of the paths of all its routes."""
    routes: Callable[[Services], APIRouter]
    problem: Callable[[StellwerkError], Response]
    """An error as clients of this protocol expect it."""
