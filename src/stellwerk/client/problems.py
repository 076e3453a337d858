"""Problems: what a server refuses, and a server that cannot be reached."""

import httpx2
import msgspec

from stellwerk.errors import StellwerkError

_PASSING = (502, 503, 504)


class Problem(StellwerkError):
    """The server said no. ``code`` and ``detail`` are its own words."""

    def __init__(self, status: int, code: str, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail, field=field)
        self.status, self.code, self.detail = status, code, detail

    @property
    def passing(self) -> bool:
        """Whether it may be gone in a moment, because the server only starts or ends."""
        return self.status in _PASSING


class Unreachable(StellwerkError):
    """Nobody answers there, or the one who does is no Stellwerk."""

    code = "unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"no server answers at {url}: {reason}; is it running? `stellwerk serve` starts one")


class _Told(msgspec.Struct, frozen=True):
    code: str
    detail: str
    field: str | None = None


def problem_of(answer: httpx2.Response) -> Problem:
    """What an answer refuses; one that is not in our words, of a proxy perhaps, is told by its status."""
    try:
        told = msgspec.json.decode(answer.content, type=_Told)
    except msgspec.DecodeError:
        place = f"{answer.request.method} {answer.request.url}"
        return Problem(answer.status_code, "bad_answer", f"{place} was answered with {answer.status_code}")
    return Problem(answer.status_code, told.code, told.detail, field=told.field)


def reason_of(error: Exception) -> str:
    return str(error) or type(error).__name__
