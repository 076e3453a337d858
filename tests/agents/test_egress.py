"""Where the server connects to: to places that its operator named, and to webhooks of tenants, which are guarded."""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google.genai.errors import APIError
from pydantic import SecretStr

import stellwerk
from stellwerk.agents.build import models
from stellwerk.agents.tools import registry
from stellwerk.api.routes.jobs import CronRequest
from stellwerk.api.routes.stream import StreamAgentRequest
from stellwerk.api.schema.shared import NewAnswer, NewMessage
from stellwerk.spec.model import AgentSystem, ModelSpec
from stellwerk.spec.operator import Provider
from stellwerk.workflows.routes.workflows import UserInputRequest

PACKAGE = Path(stellwerk.__file__).parent
CONNECTING = {"httpx2", "httpx", "requests", "aiohttp", "urllib", "urllib3", "http", "socket", "websockets", "mcp"}
OUTGOING = {
    "agents/mcp/call.py": "MCP servers of the operator's file",
    "agents/mcp/transports.py": "MCP servers of the operator's file",
    "agents/mcp/session.py": "MCP servers of the operator's file",
    "agents/runtime/loopback.py": "nothing: it answers LangGraph's SDK in this process",
    "runs/jobs/addresses.py": "webhooks of tenants: here they are judged",
    "runs/jobs/webhooks.py": "webhooks of tenants, at the address that was judged",
    "client/client.py": "commands, which are no part of the server",
    "client/jobs.py": "commands, which are no part of the server",
    "protocols/mcp_server/calls.py": "nothing: it is the server of MCP hosts that connect to it",
    "protocols/mcp_server/server.py": "nothing: it is the server of MCP hosts that connect to it",
    "api/http/server.py": "the socket it listens on",
    "ops/serve.py": "the socket it listens on",
    "ops/workers.py": "the socket that its processes listen on",
    "database/postgres.py": "the operator's database",
}
ADDRESSES = ("url", "uri", "host", "endpoint", "proxy", "address", "base", "header", "webhook", "port")
LIVE = {"port"}
"""Parts of words that also stand in others, such as report."""


def named(schema: Any) -> Iterator[str]:
    """Every name of a field in a JSON schema, and every format."""
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        if isinstance(schema.get("format"), str):
            yield schema["format"]
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from named(part)


def is_address(name: str) -> bool:
    words = name.lower().replace("-", "_").split("_")
    return any(part in words if part in LIVE else part in name.lower() for part in ADDRESSES)


def test_a_tenant_has_no_field_for_an_address_but_webhook() -> None:
    for model in (AgentSystem, NewAnswer, UserInputRequest):
        assert [name for name in named(model.model_json_schema()) if is_address(name)] == [], model.__name__
    for guarded in (NewMessage, StreamAgentRequest, CronRequest):
        found = [name for name in named(guarded.model_json_schema()) if is_address(name)]
        assert found == ["webhook"], guarded.__name__
    assert is_address("base_url")
    assert is_address("openai_proxy")


def test_of_a_model_a_tenant_sets_nothing_that_could_be_one() -> None:
    assert set(models._SETTINGS) == {"temperature", "top_p", "max_tokens"}


def test_no_tool_that_comes_with_the_server_takes_an_address() -> None:
    found = registry.discover()
    assert len(found.names()) > 5
    for spec in found.specs():
        assert [field for field in named(spec.input_schema) if is_address(field)] == [], spec.name


def test_only_these_modules_can_connect_to_anything() -> None:
    connecting = set()
    for path in PACKAGE.rglob("*.py"):
        imported = set(re.findall(r"^ *(?:import|from) ([\w.]+)", path.read_text("utf-8"), re.MULTILINE))
        if {module.partition(".")[0] for module in imported - {"urllib.parse", "http"}} & CONNECTING:
            connecting.add(path.relative_to(PACKAGE).as_posix())
    assert connecting == set(OUTGOING)


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """Where nobody may come."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.fixture
def sending_on(elsewhere: socket.socket) -> Iterator[str]:
    """A server that sends everybody there."""

    class SendOn(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.1:{elsewhere.getsockname()[1]}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_told: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), SendOn) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [("openai", openai.APIStatusError), ("anthropic", anthropic.APIStatusError), ("google_genai", APIError)],
)
async def test_a_redirect_of_a_provider_is_not_followed(
    sending_on: str, elsewhere: socket.socket, kind: str, refusal: type[Exception]
) -> None:
    keys = models.EnvironmentSecrets({"house_api_key": SecretStr("sk-4711-4711-4711")})
    spec = ModelSpec(provider="house", model="tiny-1", timeout=5)
    model = models.chat_model(spec, providers={"house": Provider(kind=kind, base_url=sending_on)}, keys=keys)
    with pytest.raises(refusal, match="307"):
        await model.ainvoke("between us")
    with pytest.raises(refusal, match="307"):
        async for _ in model.astream("between us"):
            pass
    with pytest.raises(refusal, match="307"):
        model.invoke("between us")
    with pytest.raises(BlockingIOError):  # nobody has come
        elsewhere.accept()


def test_a_document_is_read_by_somebody_who_can_call_nobody() -> None:
    """Were a reader of some format to follow a link, an upload would choose where to."""
    tries = (
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('evil.test', 80)",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
    )
    caught = "\n".join(f"try: exec({line!r})\nexcept PermissionError as e: print(e)" for line in tries)
    code = f"from stellwerk.workflows.documents.readers.worker import limit\nlimit(1 << 30, 20)\n{caught}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("a document is read without ") == len(tries), done.stdout
