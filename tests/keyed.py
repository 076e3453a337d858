"""With keys: the same tests against servers that ask who is there.

Every other module of tests runs so, by its name, and always the same; ``make keyed`` runs the other half with keys and
this one without. Each server gets a first key when it has started, and whoever speaks to it by HTTP or WebSocket shows
that key, unless he shows something else. Commands find that of the last server in their environment.
"""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

import httpx2
import pytest
from websockets.asyncio.client import connect

from stellwerk.ops.offline import make_key
from tests import stores

OPEN = {
    "tests.api.test_attacks": "what strangers write, byte for byte; servers with keys are among its subjects",
    "tests.api.test_cors": "its server has its first key before it starts, as it lets in another origin",
    "tests.api.test_auth": "keys, and servers that have none, are its subject",
    "tests.api.test_without_keys": "servers that have no keys are its subject",
    "tests.browser.test_crash": "a plain EventSource shows no key",
    "tests.browser.test_other_origin": "its server has its first key before it starts, as it lets in another origin",
    "tests.browser.test_protocol_pages": "its server has its first key before it starts, as it lets in another origin",
    "tests.browser.test_shell": "the page asks for a key, and that is tested here",
    "tests.cluster.test_access": "the first key of several nodes is its subject",
    "tests.cluster.test_faults": "a key that one node makes is known to another one a moment later",
    "tests.cluster.test_roles": "a key that one node makes is known to another one a moment later",
    "tests.cluster.test_takeover": "a key that one node makes is known to another one a moment later",
    "tests.cluster.test_zombie": "a key that one node makes is known to another one a moment later",
    "tests.test_deployment": "its servers have their first key before they start, as they have a name on the network",
    "tests.test_docs": "the tour and the programs as they stand: of a server that has no keys yet",
}
"""Modules that never run with keys, and why."""

_shown: dict[str, str] = {}
"""What is shown, by host and port."""
_made: dict[Path, str] = {}
"""By data folder: a server that is started again knows its keys."""
_environment: pytest.MonkeyPatch | None = None
"""None: no keys are wanted."""


def wanted(module: str, *, other: bool) -> bool:
    return module not in OPEN and (crc32(module.encode()) % 2 == 0) is not other


def close_door(address: str, data: Path) -> None:
    """From now on this server asks for a key, if keys are wanted."""
    if _environment is None:
        return
    if data not in _made:
        _made[data] = _first_key(address)
    _shown[urlsplit(address).netloc] = f"Bearer {_made[data]}"
    _environment.setenv("STELLWERK_KEY", _made[data])


def headers(address: str) -> dict[str, str]:
    """What clients show that are not of this process."""
    shown = _shown.get(urlsplit(address).netloc)
    return {} if shown is None else {"Authorization": shown}


def _first_key(address: str) -> str:
    with httpx2.Client(base_url=address, timeout=60) as anybody:
        made = anybody.post("/keys", json={"name": "tests", "role": "admin"})
        assert anybody.get("/sessions").status_code == 401
        if made.status_code == 201:
            return str(made.json()["token"])
        # Restored from another folder: it knows the keys of that one.
        bearers = {key: {"Authorization": f"Bearer {key}"} for key in _made.values()}
        return next(key for key, bearer in bearers.items() if anybody.get("/sessions", headers=bearer).is_success)


async def before_the_start(data: Path) -> dict[str, str]:
    """The header with the first key of a server that is not running yet."""
    _, token = await make_key(data, {"name": "first", "role": "admin"}, stores.secret_url(data))
    return {"Authorization": f"Bearer {token}"}


def same_door(before: str, address: str) -> None:
    """Whoever stands before a server is shown what the server is shown."""
    for key in shown_to(address).values():
        _shown[urlsplit(before).netloc] = key


def shown_to(address: str) -> dict[str, str]:
    """The header for those who write their requests themselves."""
    key = _shown.get(urlsplit(address).netloc)
    return {} if key is None else {"Authorization": key}


def show_keys(patch: pytest.MonkeyPatch) -> None:
    """Until the patch is undone, servers ask for keys, and keys are shown."""
    patch.setattr(f"{__name__}._environment", patch)
    patch.setattr(f"{__name__}._shown", {})
    send, send_async = httpx2.HTTPTransport.handle_request, httpx2.AsyncHTTPTransport.handle_async_request
    handshake = connect.__init__

    def sending(self: httpx2.HTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return send(self, _with_key(request))

    async def sending_async(self: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return await send_async(self, _with_key(request))

    def greeting(self: connect, uri: str, **given: Any) -> None:
        given.setdefault("additional_headers", shown_to(uri))
        handshake(self, uri, **given)

    patch.setattr(httpx2.HTTPTransport, "handle_request", sending)
    patch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", sending_async)
    patch.setattr(connect, "__init__", greeting)


def _with_key(request: httpx2.Request) -> httpx2.Request:
    for name, value in shown_to(str(request.url)).items():
        request.headers.setdefault(name, value)
    return request
