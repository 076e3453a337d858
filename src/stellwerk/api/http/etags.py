"""ETags and conditional requests: what the client already has is answered with 304."""

from starlette.requests import Request
from starlette.responses import Response

_FORM = 2  # to be raised when the same facts are answered in another form
_POLLED = {"Cache-Control": "private, no-cache"}


def tag_of(*facts: object) -> str:
    """An ETag of the facts behind a response; weak, because only its meaning is promised."""
    return f'W/"{".".join(map(str, (_FORM, *facts)))}"'


def unchanged(request: Request, tag: str) -> Response | None:
    """304 if the client has this already."""
    known = request.headers.get("if-none-match")
    return None if known is None or not names(known, tag) else not_modified(tag)


def names(known: str, tag: str) -> bool:
    """Whether an If-None-Match has this tag in it; a proxy may have removed the ``W/``."""
    return tag.removeprefix("W/") in known or known.strip() == "*"


def not_modified(tag: str) -> Response:
    return Response(status_code=304, headers={**_POLLED, "ETag": tag})


def answered(body: bytes, tag: str | None, next_page: str | None = None) -> Response:
    """JSON with its ETag; without one if it is not final. ``next_page`` is an address."""
    headers = dict(_POLLED)
    if tag is not None:
        headers["ETag"] = tag
    if next_page is not None:
        headers["Link"] = f'<{next_page}>; rel="next"'
    return Response(body, media_type="application/json", headers=headers)
