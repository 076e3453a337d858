"""``langgraph_sdk.get_client()`` without a URL: the calls of a graph to the server that it runs in.

The SDK would reach LangGraph's own server in the same process. Its transport is replaced by one that
answers the calls that graphs make; any other fails with a sentence that says what to use instead.
"""

from collections import deque
from typing import Any

import httpx
import msgspec
from langgraph.config import get_store
from langgraph_sdk import get_client

from stellwerk.agents.runtime.context import run_context
from stellwerk.errors import InvalidInput, StellwerkError

_ANSWERED = "runs.create, threads.create, threads.get, threads.get_state, store.*"
_OUTSIDE = "get_client() without a URL works in a node or tool of a run; give it the address of the server here"


def answer_loopback_clients() -> None:
    """Let clients without a URL reach this server; once per process, before graphs are imported."""
    # Private, but the only way to answer clients without a URL; a canary test pins it. Older SDKs have it elsewhere.
    replaced = {"get_asgi_transport": lambda: LoopbackTransport, "_registered_transports": deque(maxlen=0)}
    get_client.__globals__.update(replaced)


class LoopbackTransport(httpx.AsyncBaseTransport):
    def __init__(self, app: object = None, root_path: str = "") -> None:
        """The arguments are those of httpx's ASGITransport; the run in which a call is made answers it."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        content = await request.aread()
        given = msgspec.json.decode(content) if content else {}
        path = tuple(request.url.path.strip("/").split("/"))
        try:
            answer = await _answer(request.method, path, {**dict(request.url.params), **given})
        except StellwerkError as error:
            body = {"code": error.code, "message": error.message}
            return httpx.Response(error.status, content=msgspec.json.encode(body), request=request)
        return httpx.Response(200, content=msgspec.json.encode(answer), request=request)


async def _answer(method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
    if path[0] == "store":
        return await _from_store(method, path[1:], given)
    server = run_context().server
    if server is None:
        raise InvalidInput(_OUTSIDE)
    return await server.answer(method, path, given)


async def _from_store(method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
    """The store of the graph that runs: the same as ``get_store()``."""
    try:
        store = get_store()
    except RuntimeError as error:
        raise InvalidInput(_OUTSIDE) from error
    namespace = given.get("namespace") or ()
    place = tuple(namespace.split(".") if isinstance(namespace, str) else namespace)
    match method, path:
        case "PUT", ("items",):
            return await store.aput(place, given["key"], given["value"], **_given(given, "index"))
        case "GET", ("items",):
            item = await store.aget(place, given["key"])
            return None if item is None else item.dict()
        case "DELETE", ("items",):
            return await store.adelete(place, given["key"])
        case "POST", ("items", "search"):
            wanted = _given(given, "query", "filter", "limit", "offset")
            found = await store.asearch(tuple(given["namespace_prefix"]), **wanted)
            return {"items": [item.dict() for item in found]}
        case "POST", ("namespaces",):
            names = await store.alist_namespaces(**_given(given, "prefix", "suffix", "max_depth", "limit", "offset"))
            return {"namespaces": [list(each) for each in names]}
    raise not_answered(method, ("store", *path))


def _given(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if given.get(name) is not None}


def not_answered(method: str, path: tuple[str, ...]) -> InvalidInput:
    call = f"{method} /{'/'.join(path)}"
    problem = f"get_client() without a URL: {call} is not answered inside a run; answered are {_ANSWERED}"
    remedy = "call the graph itself (await graph.ainvoke(…)), or give get_client() the URL of a server"
    return InvalidInput(f"{problem}; {remedy}")
