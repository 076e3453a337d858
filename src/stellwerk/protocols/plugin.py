"""The plug-in: what the package ``protocols`` adds to the server. See ``stellwerk/plugins.py``."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from stellwerk.api.services import PluginRouters, ServerPlugin, Services
from stellwerk.protocols import agui, ai_sdk, copilotkit
from stellwerk.protocols.a2a_server import routes as a2a_server
from stellwerk.protocols.langgraph import protocol as langgraph
from stellwerk.protocols.langgraph.root import at_the_root
from stellwerk.protocols.mcp_server import routes as mcp_server
from stellwerk.protocols.openai import routes as openai
from stellwerk.protocols.protocol import BODY_LIMIT, Protocol
from stellwerk.runs import client_threads

PROTOCOLS: Sequence[Protocol] = (
    a2a_server.PROTOCOL,
    agui.PROTOCOL,
    ai_sdk.PROTOCOL,
    copilotkit.PROTOCOL,
    openai.PROTOCOL,
    langgraph.PROTOCOL,
    mcp_server.PROTOCOL,
)


@asynccontextmanager
async def opened(app: FastAPI, services: Services) -> AsyncIterator[PluginRouters]:
    yield PluginRouters(others=[protocol.routes(services) for protocol in PROTOCOLS])


SERVER = ServerPlugin(
    opened=opened,
    body_limits={protocol.prefix: BODY_LIMIT for protocol in PROTOCOLS},
    error_forms={protocol.prefix: protocol.problem for protocol in PROTOCOLS},
    outermost=at_the_root,
    audited={
        client_threads.create_threads_many: lambda new: new.thread_id,
        client_threads.change_metadata_many: None,
        client_threads.delete_threads_many: None,
    },
)
