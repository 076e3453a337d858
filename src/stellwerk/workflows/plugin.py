"""The plug-in: what the package ``workflows`` adds to the server. See ``stellwerk/plugins.py``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from stellwerk.api.services import PluginRouters, ServerPlugin, Services
from stellwerk.workflows.cache import WorkflowCache
from stellwerk.workflows.erasure import MessageEraser, erase_many
from stellwerk.workflows.message_documents import MessageDocuments
from stellwerk.workflows.routes import polling, schema, workflows
from stellwerk.workflows.routes.polling import NotModifiedMiddleware, PolledWorkflows
from stellwerk.workflows.service import Workflows


def workflows_of(services: Services) -> Workflows:
    cache = WorkflowCache(services.database, services.wakes)
    documents = MessageDocuments(services.documents, services.numbers)
    eraser = MessageEraser(
        services.database,
        services.log,
        services.documents,
        services.systems,
        cache,
        services.clock,
    )
    return Workflows(
        database=services.database,
        sessions=services.sessions,
        systems=services.systems,
        store=services.documents,
        numbers=services.numbers,
        cache=cache,
        documents=documents,
        eraser=eraser,
    )


@asynccontextmanager
async def opened(app: FastAPI, services: Services) -> AsyncIterator[PluginRouters]:
    made = workflows_of(services)
    app.state.polled_workflows = None if app.state.has_dependencies else PolledWorkflows(services, made)
    try:
        yield PluginRouters(
            polled=[polling.routes(made)],
            others=[workflows.routes(services, made)],
        )
    finally:
        await made.documents.close()


SERVER = ServerPlugin(
    opened=opened,
    tags=[
        {
            "name": schema.TAG,
            "description": "The same sessions for clients that start something, poll, and download what was made. "
            "Everything that is sent wrong is 400 here.",
        }
    ],
    schemas=schema.ANSWERS,
    middleware=[NotModifiedMiddleware],
    audited={erase_many: None},
)
