"""{{name}}: an HTTP service that needs nothing but Python's standard library.

python service.py --port 8080
"""

import argparse
import json
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

NAME = "{{name}}"
METRICS = """\
# HELP http_requests_total Requests that were answered.
# TYPE http_requests_total counter
{requests}
# HELP http_request_duration_seconds Time that answering took.
# TYPE http_request_duration_seconds summary
http_request_duration_seconds_sum {seconds:.6f}
http_request_duration_seconds_count {answered}
"""


class Meter:
    """Counts what was answered, by path and status, and how long it took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds = 0.0

    def count(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[path, status] = self._requests.get((path, status), 0) + 1
            self._seconds += seconds

    def text(self) -> str:
        with self._lock:
            requests, seconds = dict(self._requests), self._seconds
        lines = [
            f'http_requests_total{{path="{path}",status="{status}"}} {n}' for (path, status), n in requests.items()
        ]
        return METRICS.format(requests="\n".join(lines), seconds=seconds, answered=sum(requests.values()))


METER = Meter()


def index() -> tuple[str, str]:
    return "application/json", json.dumps({"service": NAME, "message": f"Hello from {NAME}"})


def health() -> tuple[str, str]:
    return "application/json", json.dumps({"status": "ok"})


def metrics() -> tuple[str, str]:
    return "text/plain; version=0.0.4; charset=utf-8", METER.text()


ROUTES = {"/": index, "/health": health, "/metrics": metrics}


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        begin, path = time.monotonic(), self.path.partition("?")[0]
        route = ROUTES.get(path)
        kind, text = route() if route else ("application/json", json.dumps({"error": "not found"}))
        status = 200 if route else 404
        # Counted before it is sent: a client that has its response finds it in the metrics.
        METER.count(path if route else "other", status, time.monotonic() - begin)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def listening(host: str, port: int) -> ThreadingHTTPServer:
    """A server that is bound; port 0 takes a free one."""
    return ThreadingHTTPServer((host, port), Answer)


def end(signum: int, frame: object) -> NoReturn:
    sys.exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=f"Serve {NAME}.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, end)
    with listening(chosen.host, chosen.port) as server:
        print(f"listening on http://{chosen.host}:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
