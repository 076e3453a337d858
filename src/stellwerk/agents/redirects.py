"""Redirects of providers are not followed: what is said goes where the operator sends it, and nowhere else."""

from collections.abc import Mapping
from typing import Any

import structlog
from langchain_core.language_models import BaseChatModel

logger = structlog.get_logger(__name__)

_VENDORS = ("root_client", "root_async_client", "_client", "_async_client")
"""Where models of langchain-openai and langchain-anthropic, and those made after them, keep the client of the vendor;
that one has the client that speaks HTTP in ``_client``. No public way changes nothing else; a test pins this one."""
NOT_FOLLOWED: Mapping[str, Any] = {"client_args": {"follow_redirects": False, "allow_redirects": False}}
"""What Google's is told: httpx knows the one word, aiohttp the other."""


def refuse_redirects(model: BaseChatModel) -> None:
    """Of all clients that are found in it; one that is shared with other models is told once."""
    for name in _VENDORS:
        http: Any = getattr(getattr(model, name, None), "_client", None)
        if getattr(http, "follow_redirects", False):
            http.follow_redirects = False
            told = _tell_later if name.endswith("async_client") else _tell
            http.event_hooks = {**http.event_hooks, "response": [*http.event_hooks.get("response", ()), told]}


def _tell(response: Any) -> None:
    if response.has_redirect_location:
        said = "Redirect to {} not followed; use that URL as the base_url if it is the intended server"
        logger.warning("redirect_refused", url=str(response.url), reason=said.format(response.headers["location"]))


async def _tell_later(response: Any) -> None:
    _tell(response)
