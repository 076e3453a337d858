"""OpenAI's API as one protocol of the server."""

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from stellwerk.api.services import Services
from stellwerk.errors import StellwerkError
from stellwerk.protocols.openai import chat_completions, responses
from stellwerk.protocols.protocol import Protocol

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {"unknown_agent_system": "model_not_found"}


def problem(error: StellwerkError) -> Response:
    kind = _TYPES.get(error.status) or ("server_error" if error.status >= 500 else "invalid_request_error")
    code = _CODES.get(error.code, error.code)
    body = {"error": {"message": error.message, "type": kind, "param": error.field, "code": code}}
    return Response(msgspec.json.encode(body), error.status, media_type="application/json")


def routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/v1", include_in_schema=False)
    chat_completions.add_routes(router, services)
    responses.add_routes(router, services)
    return router


PROTOCOL = Protocol(prefix="/v1", routes=routes, problem=problem)
