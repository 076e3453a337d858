"""Turned away: requests that show no valid credential, or one that may not do this, in the operator's log.

So many in a minute and no more, however many there are: nobody can fill a disk
from outside. All of them are counted in the metrics.
"""

import asyncio
import re
from ipaddress import ip_address

import structlog
from starlette.datastructures import Headers
from starlette.types import Scope

from stellwerk.api.audit_trail import origin_of
from stellwerk.logs import Fact

logger = structlog.get_logger(__name__)

STATUSES = frozenset({401, 403})
_KEY = re.compile(r"bearer sw_([0-9A-Za-z]{12})_", re.IGNORECASE)
_MINUTE = 60.0
TOLD = 60
"""In a minute."""


class TurnedAway:
    def __init__(self) -> None:
        self._since, self._told, self._left_out = 0.0, 0, 0

    def tell(self, scope: Scope, status: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._since >= _MINUTE:
            self._since, self._told = now, 0
        if self._told >= TOLD:
            self._left_out += 1
            return
        shown = _KEY.match(Headers(scope=scope).get("authorization", ""))
        route, key = getattr(scope.get("route"), "path", None), None if shown is None else shown[1]
        about = {"key": key and Fact(key), "route": route and Fact(route), "origin": _address(origin_of(scope))}
        logger.warning("request_refused", status=status, not_told_before=self._left_out, **about)
        self._told, self._left_out = self._told + 1, 0


def _address(origin: str) -> str:
    """A proxy may tell any text, and an address may have one behind ``%``."""
    try:
        return origin if "%" in origin else Fact(ip_address(origin))
    except ValueError:
        return origin
