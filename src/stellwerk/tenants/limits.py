"""Limits: how much a tenant may use, and each of its sessions. What is not limited is None."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from stellwerk.database.port import Database, Transaction
from stellwerk.errors import LimitReached, NotFound, QuotaExceeded

DAY = 86_400
MINUTE = 60.0
_WHILE = 5
"""Seconds after which it is worth another try, where nobody knows when there will be room."""
_LONG = 3600
"""The same where there is room only if somebody raises the limit."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first seven of a tenant, the others of each of its sessions."""

    requests: int | None = None
    runs: int | None = None
    streams: int | None = None
    bytes: int | None = None
    steps: int | None = None
    tokens: int | None = None
    seconds: int | None = None
    session_requests: int | None = None
    session_streams: int | None = None
    session_bytes: int | None = None
    session_steps: int | None = None
    session_tokens: int | None = None
    session_seconds: int | None = None

    @property
    def on_sessions(self) -> bool:
        """Whether what a session has used in all its life matters."""
        return not self.session_steps == self.session_tokens == self.session_seconds == self.session_bytes is None


_SAID: Mapping[str, tuple[str, str]] = {
    "requests": ("requests that your tenant may send in a minute", "wait a little"),
    "runs": ("runs that your tenant may have at the same time", "wait until one has ended, or stop one"),
    "streams": ("streams that your tenant may have open", "close one"),
    "bytes": ("bytes that the files and sessions of your tenant may have", "delete some"),
    "steps": ("model calls that your tenant may make in a day", "there are new ones from midnight UTC on"),
    "tokens": ("tokens that your tenant may use in a day", "there are new ones from midnight UTC on"),
    "seconds": ("seconds that runs of your tenant may take in a day", "there are new ones from midnight UTC on"),
    "session_requests": ("requests that may be sent to a session in a minute", "wait a little"),
    "session_streams": ("streams that a session may have open", "close one"),
    "session_bytes": ("bytes that the log and the files of a session may have", "begin another session"),
    "session_steps": ("model calls that a session may make", "begin another session"),
    "session_tokens": ("tokens that a session may use", "begin another session"),
    "session_seconds": ("seconds that the runs of a session may take", "begin another session"),
}
_OF_A_DAY = ("steps", "tokens", "seconds")
_NEVER = ("session_bytes", "session_steps", "session_tokens", "session_seconds")


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that is reached."""

    limit: str
    used: float
    allowed: float
    free_in: float
    """Seconds until there is room again, as far as anybody knows."""

    def refusal(self) -> LimitReached:
        """For whoever stands at the door."""
        return LimitReached(self._said(), retry_after=self.free_in)

    def end(self) -> QuotaExceeded:
        """For a run that is under way."""
        return QuotaExceeded(self.limit, used=self.used, limit=self.allowed, said=self._said())

    def _said(self) -> str:
        what, remedy = _SAID[self.limit]
        return f"{self.limit}: {self.used:.10g} are used of the {self.allowed:.10g} {what}; {remedy}"


def excess(limit: str, used: float, allowed: int | None, *, now: float, free_in: float | None = None) -> Excess | None:
    """None while there is room for one more."""
    if allowed is None or used < allowed:
        return None
    if free_in is None:
        free_in = DAY - now % DAY if limit in _OF_A_DAY else _LONG if limit in _NEVER else _WHILE
    return Excess(limit, used, allowed, free_in)


def refuse_another(limit: str, *, used: int, allowed: int) -> None:
    """
    Raises:
        LimitReached: there is no room for one more; sooner or later there will be.
    """
    if used >= allowed:
        raise Excess(limit, used, allowed, _WHILE).refusal()


def refuse_another_run(tx: Transaction, limits: Limits, tenant: str) -> None:
    """
    Raises:
        LimitReached: as many are under way or wait as may.
    """
    if limits.runs is not None:
        refuse_another("runs", used=_number(tx, "count_runs_of", tenant), allowed=limits.runs)


def refuse_bytes(tx: Transaction, limits: Limits, size: int, tenant: str, session_id: str | None = None) -> None:
    """Asked in the transaction that stores them: whoever asked before it may have been overtaken.

    Raises:
        LimitReached: so many more are too many, for the tenant or for the session that they go to.
    """
    if limits.bytes is not None:
        _refuse_beyond("bytes", _number(tx, "bytes_of", tenant), size, limits.bytes, MINUTE)
    if limits.session_bytes is not None and session_id is not None:
        used = _number(tx, "bytes_in_session", session_id, tenant)
        _refuse_beyond("session_bytes", used, size, limits.session_bytes, _LONG)


def _refuse_beyond(limit: str, used: int, size: int, allowed: int, free_in: float) -> None:
    if used + size > allowed:
        raise Excess(limit, used, allowed, free_in).refusal()


def _number(tx: Transaction, query: str, *params: object) -> int:
    row = tx.row(query, *params)
    return int(row[0]) if row else 0


async def all_limits(database: Database) -> dict[str, Limits]:
    rows = await database.read(lambda tx: tx.rows("all_limits"))
    return {tenant: msgspec.json.decode(limits, type=Limits) for tenant, limits in rows}


def set_many(tx: Transaction, items: Sequence[tuple[str, Limits]]) -> list[None | Exception]:
    return [_set(tx, *item) for item in items]


def _set(tx: Transaction, tenant: str, limits: Limits) -> NotFound | None:
    if not tx.run("set_limits", tenant, msgspec.json.encode(limits)):
        return NotFound("tenant", tenant, remedy="GET /tenants lists those that there are")
    return None
