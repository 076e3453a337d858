"""Hooks on the start of a response: headers, metrics and errors look at the first ASGI message only.

All layers share one wrapper of ``send``, so a chunk of a stream passes one function instead of one per
layer. Hooks of inner layers run first.
"""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})
_HOOKS = "stellwerk.response_start"

StartHook = Callable[[Message], None]


def on_response_start(scope: Scope, hook: StartHook) -> None:
    """Call the hook with the message that starts the response to this request."""
    scope[_HOOKS].append(hook)


class ResponseStartMiddleware:
    """The outermost layer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hooks: list[StartHook] = []

        async def send_with_hooks(message: Message) -> None:
            if message["type"] in STARTS:
                for hook in reversed(hooks):
                    hook(message)
            await send(message)

        scope[_HOOKS] = hooks
        await self._app(scope, receive, send_with_hooks)
