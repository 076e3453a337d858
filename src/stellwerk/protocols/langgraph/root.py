"""LangGraph's API at the root (``serve --langgraph-root``), for clients that take the address of a server only."""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from stellwerk.api.http.prefixes import path_below_mount
from stellwerk.protocols.langgraph.shapes import PREFIX
from stellwerk.settings import Settings

_ITS_OWN = re.compile(r"[A-Z]+ /(assistants|threads|runs|ok|info|store/items)(/.*)?|POST /store/namespaces", re.DOTALL)


def at_the_root(app: ASGIApp, settings: Settings) -> ASGIApp:
    return _AtTheRoot(app) if settings.langgraph_root else app


class _AtTheRoot:
    """Serves the paths of LangGraph's API below ``/langgraph``, before anything else looks at them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            path = path_below_mount(scope)
            if _ITS_OWN.fullmatch(f"{scope.get('method', 'GET')} {path}"):
                mount = scope["path"].removesuffix(path)
                scope = {name: value for name, value in scope.items() if name != "raw_path"}
                scope["path"] = f"{mount}{PREFIX}{path}"
        await self._app(scope, receive, send)
