"""All routers in the order in which routes are tried."""

from collections.abc import Sequence

from fastapi import APIRouter

from stellwerk.api.routes import administration as admin
from stellwerk.api.routes import files, jobs, messages, operations, sessions, state, store, stream, systems, websocket
from stellwerk.api.services import PluginRouters, Services


def routers(services: Services, plugged_in: Sequence[PluginRouters], *, frame_limit: int) -> list[APIRouter]:
    return [
        *(router for each in plugged_in for router in each.polled),
        sessions.routes(services),
        messages.routes(services),
        stream.routes(services),
        sessions.state_routes(services),
        state.routes(services),
        systems.routes(services),
        systems.tool_routes(services),
        files.routes(services),
        store.item_routes(services),
        store.routes(services),
        *(router for each in plugged_in for router in each.others),
        stream.one_shot_routes(services),
        jobs.cron_routes(services),
        jobs.delayed_routes(services),
        jobs.webhook_routes(services),
        jobs.default_webhook_routes(services),
        stream.ticket_routes(services),
        admin.tenant_routes(services),
        admin.key_routes(services),
        admin.audit_routes(services),
        admin.secret_routes(services),
        admin.usage_routes(services),
        operations.metrics_routes(services),
        websocket.routes(services, frame_limit=frame_limit),
    ]
