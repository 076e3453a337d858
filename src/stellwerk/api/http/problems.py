"""Problems: every error becomes a problem+json response (RFC 9457) with a stable code and a remedy.

Below a path prefix of a plug-in it has the form that the plug-in gives it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stellwerk.api.http.prefixes import by_prefix
from stellwerk.api.http.response_start import on_response_start
from stellwerk.errors import Forbidden, InvalidField, MalformedJson, SpecError, StellwerkError, StorageClosed
from stellwerk.spec.published import SpecProblemInfo, spec_problems

logger = structlog.get_logger(__name__)

FORBIDDEN = "stellwerk.forbidden"
"""Set in the scope of a request that lacks the right for what it asks."""
ErrorForm = Callable[[StellwerkError], Response]
_FORM = "stellwerk.error_form"
_TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Refused",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Invalid field",
    426: "Upgrade required",
    429: "Overloaded",
    431: "Headers too large",
    501: "Not installed",
    503: "Not available",
    507: "Storage full",
}
_TITLES_OF_CODES = {"limit_reached": "Limit reached"}
_REMEDIES = {
    "missing": "this field is required",
    "extra_forbidden": "this field is not known here; remove it",
    "string_too_short": "this must not be empty",
    "too_short": "this must not be empty",
    "union_tag_not_found": "this field is required",
    "string_type": "this must be text",
    "string_too_long": "this must not have more than {max_length} characters",
    "too_long": "there must not be more than {max_length} of these",
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), "this must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "this must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "this must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "this must be a list"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "this must be an object"),
    "greater_than_equal": "this must be {ge} or more",
    "less_than_equal": "this must be {le} or less",
    "less_than": "this must be less than {lt}",
    "literal_error": "this must be {expected}",
}
"""Messages for Pydantic's error types; other types keep the message of Pydantic."""


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9457: a stable ``code`` for programs, a ``detail`` for people that says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | msgspec.UnsetType = msgspec.UNSET
    problems: list[SpecProblemInfo] | msgspec.UnsetType = msgspec.UNSET


class ProblemResponse(Response):
    media_type = "application/problem+json"

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        problems: Sequence[SpecProblemInfo] | None = None,
    ) -> None:
        body = ProblemDetails(
            type=f"urn:stellwerk:problem:{code}",
            title=_TITLES_OF_CODES.get(code) or _TITLES.get(status, "Internal error"),
            status=status,
            code=code,
            detail=detail,
            field=msgspec.UNSET if field is None else field,
            problems=msgspec.UNSET if problems is None else list(problems),
        )
        super().__init__(msgspec.json.encode(body), status, headers)


def problem_response(error: StellwerkError) -> ProblemResponse:
    problems = None
    if isinstance(error, SpecError):
        problems = spec_problems(error.problems, source=error.source)
    return ProblemResponse(
        error.status, error.code, error.message, field=error.field, headers=error.headers(), problems=problems
    )


def error_response(scope: Scope, error: StellwerkError) -> Response:
    """In the form of the plug-in that has this path, with the headers of the error; else a problem."""
    form: ErrorForm | None = scope.get(_FORM)
    if form is None:
        return problem_response(error)
    response = form(error)
    for name, value in error.headers().items():
        response.headers.setdefault(name, value)
    return response


def install(app: FastAPI) -> None:
    for kind in (StellwerkError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        raised = error.__cause__  # while FastAPI read the body
        error = raised if isinstance(raised, StellwerkError) else _http_error(request, error)
    if isinstance(error, RequestValidationError):
        error = invalid_request(request, error)
    if isinstance(error, Forbidden):
        request.scope[FORBIDDEN] = True
    assert isinstance(error, StellwerkError)
    return error_response(request.scope, error)


def invalid_request(request: Request, error: RequestValidationError) -> StellwerkError:
    first = error.errors()[0]
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
        return InvalidField("body: send it with Content-Type: application/json", field="body")
    if first["loc"] == ("body",) and first["type"] == "missing":
        return InvalidField("body: it is empty; send a JSON object", field="body")
    return validation_error(first, what="body")


def validation_error(first: Mapping[str, Any], *, what: str) -> StellwerkError:
    """The first error that Pydantic found in a body or a frame."""
    where = [str(part) for part in first["loc"] if not isinstance(part, int)] or ["type"]
    if first["type"] == "json_invalid":
        places = [f" at character {part + 1}" for part in first["loc"] if isinstance(part, int)]
        said = f"{first['ctx']['error']}{''.join(places)}"
        return MalformedJson(f"the {what} is not JSON: {said}", field=what)
    field = ".".join(where[1:]) or where[0]
    said = first["msg"]
    if first["type"] in _REMEDIES:
        said = _REMEDIES[first["type"]].format_map(first.get("ctx", {}))
    return InvalidField(f"{field}: {said}", field=field)


class _HttpError(StellwerkError):
    """An error of the framework, or of a dependency of a host app."""

    def __init__(self, error: HTTPException, code: str, message: str) -> None:
        super().__init__(message)
        self.status = error.status_code
        self.code = code
        self._headers = error.headers or {}

    def headers(self) -> Mapping[str, str]:
        return self._headers


def _http_error(request: Request, error: HTTPException) -> StellwerkError:
    method = request.scope.get("method", "")[:20]  # a WebSocket has none
    known = {
        400: ("malformed_json", "the body cannot be read as JSON; it is broken, or nested too deep"),
        401: ("unauthorized", str(error.detail)),
        403: ("refused", str(error.detail)),
        404: ("unknown_path", f"there is nothing at {request.url.path[:200]}; /docs lists what there is"),
        405: ("method_not_allowed", f"Method {method} is not for this path; /docs lists what is"),
    }
    code, detail = known.get(error.status_code, ("bad_request", str(error.detail)))
    return _HttpError(error, code, detail)


class UnexpectedErrors:
    """A bug becomes a plain 500; its traceback goes to the operator's log.

    The form of errors is chosen here, before a mounted app changes the path in the scope.
    """

    def __init__(self, app: ASGIApp, *, error_forms: Mapping[str, ErrorForm] | None = None) -> None:
        self._app = app
        self._error_forms = error_forms or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        def note_start(message: Message) -> None:
            nonlocal started
            started = True

        if scope["type"] != "lifespan":
            scope[_FORM] = by_prefix(self._error_forms, scope)
        if scope["type"] == "http":
            on_response_start(scope, note_start)
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            logger.info("client_left", path=scope.get("path"))  # in the middle of a body
        except asyncio.CancelledError:  # the process has to end, and waits for this request no longer
            if started or scope["type"] != "http":
                raise
            await error_response(scope, StorageClosed())(scope, receive, send)
        except Exception:
            logger.exception("request_failed", path=scope.get("path"))
            if started or scope["type"] != "http":
                raise
            said = "something went wrong here that is not your fault; it was logged"
            await error_response(scope, StellwerkError(said))(scope, receive, send)
