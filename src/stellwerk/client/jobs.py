"""Crons, delayed runs and deliveries of webhooks, as methods of the client."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import httpx2

from stellwerk.client.paths import part

Fields = dict[str, Any]
_PAGE = 100
_Kind = TypeVar("_Kind")


class _Requests(Protocol):
    async def ask(self, kind: type[_Kind], method: str, path: str, **more: Any) -> _Kind: ...

    async def request(self, method: str, path: str, **more: Any) -> httpx2.Response: ...


class JobRequests:
    """Objects are dictionaries with the fields of the HTTP API."""

    async def crons(self: _Requests) -> list[Fields]:
        """List the crons of the tenant, the oldest first."""
        return await _pages(self, "/crons", "crons", "after", {})

    async def create_cron(self: _Requests, schedule: str, message: Mapping[str, Any], **options: Any) -> Fields:
        """Create a cron; the options are the other fields of a cron, such as ``agent_system_id``."""
        body = {"schedule": schedule, "message": message, **options}
        return await self.ask(Fields, "POST", "/crons", json=body)

    async def change_cron(
        self: _Requests, cron_id: str, schedule: str, message: Mapping[str, Any], **options: Any
    ) -> Fields:
        """Replace a cron as a whole; ``enabled=False`` pauses it."""
        body = {"schedule": schedule, "message": message, **options}
        return await self.ask(Fields, "PUT", _path("/crons", cron_id), json=body)

    async def delete_cron(self: _Requests, cron_id: str) -> None:
        await self.request("DELETE", _path("/crons", cron_id))

    async def delayed_runs(self: _Requests, *, limit: int = 100) -> list[Fields]:
        """List runs that were accepted and start later, the next one first; ``stop`` withdraws one."""
        page = await self.ask(Fields, "GET", "/delayed-runs", params={"limit": limit})
        return list(page["runs"])

    async def webhook_deliveries(
        self: _Requests, *, session_id: str | None = None, state: str | None = None
    ) -> list[Fields]:
        """List the deliveries of webhooks, the newest first; ``state`` is pending, delivered or failed."""
        query = {name: value for name, value in (("session_id", session_id), ("state", state)) if value is not None}
        return await _pages(self, "/webhook-deliveries", "deliveries", "before", query)

    async def retry_delivery(self: _Requests, delivery_id: str) -> None:
        """Attempt a failed delivery again."""
        await self.request("POST", _path("/webhook-deliveries", delivery_id) + "/retry")

    async def default_webhook(self: _Requests) -> str | None:
        """Read where the ends of runs are reported whose messages name no webhook; for admins."""
        found = await self.ask(Fields, "GET", "/default-webhook")
        return None if found["webhook"] is None else str(found["webhook"])

    async def set_default_webhook(self: _Requests, webhook: str | None) -> None:
        """Report the ends of runs there by default; None removes it."""
        if webhook is None:
            await self.request("DELETE", "/default-webhook")
        else:
            await self.request("PUT", "/default-webhook", json={"webhook": webhook})


async def _pages(requests: _Requests, path: str, name: str, cursor: str, query: Fields) -> list[Fields]:
    found: list[Fields] = []
    query = {**query, "limit": _PAGE}
    while True:
        page = await requests.ask(Fields, "GET", path, params=query)
        found += page[name]
        if page["next"] is None:
            return found
        query[cursor] = page["next"]


def _path(collection: str, id: str) -> str:
    return f"{collection}/{part(id)}"
