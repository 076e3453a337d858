"""The A2A server: the package's routes over the log, and the card of each agent system."""

from a2a.auth.user import UnauthenticatedUser
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

import stellwerk
from stellwerk.api.http.problems import error_response
from stellwerk.api.services import Services
from stellwerk.errors import InvalidInput, NotFound, StellwerkError
from stellwerk.protocols.a2a_server.requests import LogRequests
from stellwerk.protocols.a2a_server.routes import CALLER, SYSTEM
from stellwerk.protocols.a2a_server.tasks import Caller
from stellwerk.tenants.principals import Principal

CARD = "/.well-known/agent-card.json"
_VERSIONS = ("1.0", "0.3")
_BINDINGS = ("JSONRPC", "HTTP+JSON")
CALL = "caller"


def new_app(services: Services) -> ASGIApp:
    async def card(request: Request) -> Response:
        who: Principal = request.scope[CALLER]
        try:
            return JSONResponse(await _card(services, who, request))
        except StellwerkError as error:
            return error_response(request.scope, error)

    requests = LogRequests(services)
    builder = _Calls()
    rest = create_rest_routes(requests, builder, enable_v0_3_compat=True)
    app = Starlette(
        routes=[
            Route(CARD, card, methods=["GET"]),
            *create_jsonrpc_routes(requests, "/", builder, enable_v0_3_compat=True),
            *(
                route for route in rest if not isinstance(route, Mount)
            ),  # those with a tenant in the path: ours has a key
        ],
        exception_handlers={HTTPException: _refused},
    )
    app.router.redirect_slashes = False
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        remedy = "the card has the URLs"
        return error_response(request.scope, NotFound("path", request.scope["path"], remedy=remedy))
    return error_response(request.scope, InvalidInput(error.detail))


class _Calls(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        files = f"{str(request.base_url).partition('/a2a/')[0]}/files/"
        caller = Caller(request.scope[CALLER], request.scope[SYSTEM], files)
        return ServerCallContext(user=UnauthenticatedUser(), state={CALL: caller, "headers": dict(request.headers)})


async def _card(services: Services, who: Principal, request: Request) -> dict[str, object]:
    system = request.scope[SYSTEM]
    version = await services.systems.newest(who.tenant, system)
    (found,) = [each for each in await services.systems.list(who.tenant, after="", limit=500) if each.id == system]
    about = found.description or system
    base = str(request.base_url).rstrip("/")
    interfaces = [
        {
            "url": f"{base}/" if binding == "JSONRPC" else base,
            "protocolBinding": binding,
            "protocolVersion": number,
        }
        for number in _VERSIONS
        for binding in _BINDINGS
    ]
    card = {
        "name": system,
        "description": about,
        "version": str(version),
        "provider": {"organization": f"Stellwerk {stellwerk.__version__}", "url": base.partition("/a2a/")[0]},
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": ["text/plain", "application/json", "application/octet-stream"],
        "defaultOutputModes": ["text/plain", "application/json", "application/octet-stream"],
        "skills": [{"id": system, "name": system, "description": about, "tags": ["agent"]}],
    }
    if services.credentials.asked_for:
        card["securitySchemes"] = {"key": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
        card["securityRequirements"] = [{"schemes": {"key": {}}}]
    shown: dict[str, object] = agent_card_to_dict(ParseDict(card, pb.AgentCard()))
    return shown
