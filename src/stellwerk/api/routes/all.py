"""All routers in the order in which routes are tried."""

from collections.abc import Sequence

from fastapi import APIRouter

from stellwerk.api.routes import (
    administration,
    files,
    messages,
    operations,
    sessions,
    stream,
    systems,
    websocket,
)
from stellwerk.api.services import PluginRouters, Services


def routers(services: Services, plugged_in: Sequence[PluginRouters], *, frame_limit: int) -> list[APIRouter]:
    """In the order in which they are tried and documented."""
    return [
        *(router for each in plugged_in for router in each.polled),
        sessions.routes(services),
        messages.routes(services),
        stream.routes(services),
        sessions.state_routes(services),
        systems.routes(services),
        systems.tool_routes(services),
        files.routes(services),
        *(router for each in plugged_in for router in each.others),
        stream.one_shot_routes(services),
        stream.ticket_routes(services),
        administration.tenant_routes(services),
        administration.key_routes(services),
        administration.audit_routes(services),
        administration.secret_routes(services),
        administration.usage_routes(services),
        operations.metrics_routes(services),
        websocket.routes(services, frame_limit=frame_limit),
    ]
