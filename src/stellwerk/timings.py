"""Timings: how long the server waits for clients, the disk and threads. Tests pass shorter ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """All in seconds, unless a field says otherwise."""

    reader_check: float = 15.0
    """Interval between two checks of a reader; one that takes nothing meanwhile is disconnected."""
    websocket_ping: float = 15.0
    """Interval between two pings of a WebSocket."""
    websocket_pong: float = 13.0
    """Until a pong must have arrived."""
    tcp_keepalive: Mapping[str, int] = field(
        default_factory=lambda: {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 13_000}
    )
    """Socket options: a dead peer is noticed within 13 seconds after a heartbeat, so within 30."""
    request_headers: float = 20.0
    """Until the headers of a request must have arrived."""
    request_body: float = 20.0
    """Until the body of a request must have arrived, plus a second per ``body_pace`` bytes received."""
    body_pace: int = 4096
    keep_alive: int = 75
    """How long an idle connection stays open. Proxies and clients (nginx 60, httpx 5) must close theirs first."""
    storage_retry: float = 1.0
    """Between two tries to write, while the disk is full or the database cannot be reached."""
    storage_patience: float = 30.0
    """How long a run waits for a disk that is full or gone."""
    drain: float = 4.0
    """How long runs may take to finish their step when the server shuts down."""
    slow_run: float = 900.0
    """After this, the operator's log mentions a run that has not ended."""
    blocked_loop: float = 5.0
    """After this, a thread regards the event loop as blocked, perhaps by waiting for this thread."""
    loop_patience: float = 60.0
    """After this, a node of several whose event loop does not answer has no heartbeat any more."""
    watchdog: float = 1.0
    """After this, the operator's log names the graph and node that block the event loop."""
    jobs: float = 1.0
    """Interval between two looks at delayed runs, crons and webhooks that are due."""
    start_worker: float = 120.0
    """In this time the process of an isolated graph must have connected; it imports LangGraph before."""
    stop_worker: float = 0.5
    """After this, the process of an isolated graph that does not respond to a stop is ended."""
    overviews: float = 2.0
    """Interval between two updates of the stored overviews."""
