"""The plug-in: what the package ``workflows`` adds to the server. See ``stellwerk/plugins.py``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from stellwerk.api.services import PluginRouters, ServerPlugin, Services
from stellwerk.workflows.erasure import erase_many
from stellwerk.workflows.routes import polling, schema, workflows
from stellwerk.workflows.service import Workflows


@asynccontextmanager
async def opened(app: FastAPI, services: Services) -> AsyncIterator[PluginRouters]:
    made = Workflows(services)
    # A host's own dependencies would not run for a request that the middleware answers.
    app.state.polled_workflows = None if app.state.has_dependencies else made
    try:
        yield PluginRouters(polled=[polling.routes(made)], others=[workflows.routes(made)])
    finally:
        await made.documents.close()


_ABOUT = "The same sessions for clients that start something, poll, and download what was made."
SERVER = ServerPlugin(
    opened=opened,
    tags=[{"name": schema.TAG, "description": f"{_ABOUT} Everything that is sent wrong is 400 here."}],
    schemas=schema.ANSWERS,
    middleware=[polling.NotModifiedMiddleware],
    audited={erase_many: None},
)
