"""The root of all, and what a request can do wrong or meet."""

from collections.abc import Mapping
from math import ceil


class StellwerkError(Exception):
    """Something that was foreseen. ``code`` is stable; the message says what to do."""

    code = "internal"
    status = 500

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def headers(self) -> Mapping[str, str]:
        return {}


class InvalidInput(StellwerkError):
    code = "invalid_input"
    status = 400


class BadCursor(InvalidInput):
    code = "bad_cursor"

    def __init__(self, cursor: str) -> None:
        remedy = "send the id of the last event you have, or 0 for all"
        super().__init__(f"the cursor {cursor[:40]!r} is not a position; {remedy}", field="after")


class InvalidField(InvalidInput):
    code = "invalid_field"
    status = 422


class TooLarge(InvalidInput):
    code = "too_large"
    status = 413


class HeadersTooLarge(InvalidInput):
    code = "headers_too_large"
    status = 431


class WrongMediaType(InvalidInput):
    code = "unsupported_media_type"
    status = 415


class NotFound(StellwerkError):
    status = 404

    def __init__(self, kind: str, name: str, *, remedy: str) -> None:
        self.code = f"unknown_{kind.replace(' ', '_')}"
        super().__init__(f"there is no {kind} {name[:80]!r}; {remedy}")


class Unauthorized(StellwerkError):
    """Nobody knows who asks."""

    code = "unauthorized"
    status = 401

    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(StellwerkError):
    """It is known who asks, and he may not."""

    code = "forbidden"
    status = 403


class Refused(StellwerkError):
    code = "refused"
    status = 403


class Conflict(StellwerkError):
    status = 409

    def __init__(self, message: str, *, code: str) -> None:
        self.code = code
        super().__init__(message)


class PatchRefused(Conflict):
    """A change of the checklist that was not made. A model reads the message, and tries again better."""


class _Later(StellwerkError):
    """Refused now, welcome later."""

    retry_after = 5

    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after)}


class Overloaded(_Later):
    code = "overloaded"
    status = 429


class LimitReached(_Later):
    """A tenant, or a session, has used what it may."""

    code = "limit_reached"
    status = 429

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, ceil(retry_after))


class StorageFull(_Later):
    code = "storage_full"
    status = 507
    retry_after = 60

    def __init__(self) -> None:
        super().__init__("the disk is full; nothing was written. Free some space and send this again")


class StorageGone(_Later):
    code = "storage_gone"
    status = 503


class StorageClosed(StorageGone):
    """This process will not open it again: to wait for it is useless."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down; send this again when it is back")
