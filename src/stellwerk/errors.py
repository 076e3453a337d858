"""Every exception that Stellwerk raises on purpose: what happened, and what to do now.

StellwerkError
├── InvalidInput        400  the request cannot be understood; names the field
│   ├── BadCursor       400  a cursor that is no position
│   ├── InvalidField    422  a field with a value that cannot be accepted
│   └── TooLarge        413  more bytes than one request may have
├── SpecError           422  an agent system that cannot be built
├── NotFound            404  no such session, system, …; also: not yours
├── Refused             403  a request from a page or host that we do not trust
├── Conflict            409  not in this state of the session
├── Overloaded          429  more runs are waiting than the server takes
├── StorageFull         507  the disk is full; nothing was written
├── StorageGone         503  the database cannot be reached or is closing
├── Fenced               —   the lease has moved on; stop at once, write nothing more
├── CorruptStore         —   stored bytes that must not be read
└── SettingsError        —   the server cannot start like this
"""

from collections.abc import Mapping


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
        super().__init__(
            f"the cursor {cursor[:40]!r} is not a position; send the id of the last event you have, or 0 for all",
            field="after",
        )


class InvalidField(InvalidInput):
    code = "invalid_field"
    status = 422


class TooLarge(InvalidInput):
    code = "too_large"
    status = 413


class SpecError(StellwerkError):
    code = "invalid_system"
    status = 422


class NotFound(StellwerkError):
    status = 404

    def __init__(self, kind: str, name: str, *, remedy: str) -> None:
        self.code = f"unknown_{kind.replace(' ', '_')}"
        super().__init__(f"there is no {kind} {name[:80]!r}; {remedy}")


class Refused(StellwerkError):
    code = "refused"
    status = 403


class Conflict(StellwerkError):
    status = 409

    def __init__(self, message: str, *, code: str) -> None:
        self.code = code
        super().__init__(message)


class _Later(StellwerkError):
    """Refused now, welcome later."""

    retry_after = 5

    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after)}


class Overloaded(_Later):
    code = "overloaded"
    status = 429


class StorageFull(_Later):
    code = "storage_full"
    status = 507
    retry_after = 60

    def __init__(self) -> None:
        super().__init__("the disk is full; nothing was written. Free some space and send this again")


class StorageGone(_Later):
    code = "storage_gone"
    status = 503


class Fenced(StellwerkError):
    """The lease has moved on: somebody else drives this session now."""

    code = "fenced"

    def __init__(self, session_id: str, epoch: int) -> None:
        self.session_id, self.epoch = session_id, epoch
        super().__init__(f"epoch {epoch} of session {session_id} is over; whoever held it writes nothing more")


class CorruptStore(StellwerkError):
    code = "corrupt_store"


class SettingsError(StellwerkError):
    code = "settings"
