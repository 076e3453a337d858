"""A real HTTP server on a free loopback port that takes traces as LangSmith and OpenTelemetry send them."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


@dataclass
class Collector:
    address: str
    received: dict[str, bytes] = field(default_factory=dict)
    """All that was sent to a path, with the headers in front of each body."""

    async def take(self, request: Request) -> Response:
        if request.method == "GET":  # LangSmith's client asks first what the server can do
            return JSONResponse({})
        body = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        headers = b"\n".join(name + b": " + value for name, value in request.headers.raw)
        path = request.url.path
        self.received[path] = self.received.get(path, b"") + headers + b"\n" + body
        return JSONResponse({}, status_code=200 if path.startswith("/v1/") else 202)

    def environment(self) -> list[str]:
        """What an operator sets to have traces sent here both ways."""
        langsmith = [
            f"LANGSMITH_ENDPOINT={self.address}",
            "LANGSMITH_TRACING=true",
            "LANGSMITH_API_KEY=ls-Loopback-4711",
        ]
        return [*langsmith, "LANGSMITH_OTEL_ENABLED=true", f"OTEL_EXPORTER_OTLP_ENDPOINT={self.address}"]


@asynccontextmanager
async def serving_collector() -> AsyncIterator[Collector]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        collector = Collector(f"http://127.0.0.1:{listening.getsockname()[1]}")
        app = Starlette(routes=[Route("/{path:path}", collector.take, methods=["GET", "POST", "PATCH"])])
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield collector
        finally:
            server.should_exit = True
            await running
