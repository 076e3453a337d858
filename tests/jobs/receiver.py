"""A receiver of webhooks: a real HTTP server that remembers each request, and answers as it is told."""

import hashlib
import hmac
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.crash.waiting import eventually

SECRET = "hook-secret-4711"
POLICY = "webhooks: {private_networks: [127.0.0.0/8, '::1/128'], allow_http: true}\n"
"""Of an operator who allows receivers on the same machine."""


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return dict(json.loads(self.body))

    def is_signed_with(self, secret: str) -> bool:
        """Checked as the specification says, and not by our own code."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
        return self.headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"


@dataclass
class Receiver:
    url: str = ""
    requests: list[Received] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """Of the next responses; then 200."""
    location: str = ""
    held: threading.Event = field(default_factory=threading.Event)
    """Set unless responses are held back."""

    async def has(self, count: int) -> list[Received]:
        await eventually(
            lambda: len(self.requests) >= count, within=60, what=lambda: f"{len(self.requests)} of {count} came"
        )
        return self.requests


@contextmanager
def receiving(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver()
    receiver.held.set()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Received(self.path, headers, body))
            receiver.held.wait(60)
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 200)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_said: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Answer) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        receiver.url = f"{scheme}://{host}:{server.server_port}/hook"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield receiver
        finally:
            receiver.held.set()
            server.shutdown()
            serving.join()
