"""Errors in OpenAI's form."""

import msgspec
from starlette.responses import Response

from stellwerk.errors import StellwerkError

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {"unknown_agent_system": "model_not_found"}


def problem(error: StellwerkError) -> Response:
    kind = _TYPES.get(error.status) or ("server_error" if error.status >= 500 else "invalid_request_error")
    code = _CODES.get(error.code, error.code)
    body = {"error": {"message": error.message, "type": kind, "param": error.field, "code": code}}
    return Response(msgspec.json.encode(body), error.status, media_type="application/json")
