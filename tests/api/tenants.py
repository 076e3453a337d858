"""A server with two tenants, for tests: what each of them has, and a client for each key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import running_server


@dataclass
class Shared:
    """``operator`` runs the server; ``acme`` and ``other`` are admins of their tenants."""

    address: str
    operator: httpx2.AsyncClient
    acme: httpx2.AsyncClient
    other: httpx2.AsyncClient

    async def key(self, tenant: str, **wanted: Any) -> dict[str, Any]:
        body = {"name": "more", "tenant": tenant, **wanted}
        made = await self.operator.post("/keys", json=body)
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found

    @asynccontextmanager
    async def client(self, tenant: str, **wanted: Any) -> AsyncIterator[httpx2.AsyncClient]:
        async with using(self.address, (await self.key(tenant, **wanted))["token"]) as client:
            yield client


def using(address: str, token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=address, timeout=20, headers={"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def shared_server(data: Path, *, parts: Parts = Parts(), **settings: Any) -> AsyncIterator[Shared]:
    async with running_server(Settings(data=data, **settings), parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address) as anybody:
            first = (await anybody.post("/keys", json={"name": "operator", "role": "admin"})).json()
        async with using(address, first["token"]) as operator:
            tokens = []
            for name in ("acme", "other"):
                assert (await operator.post("/tenants", json={"name": name})).status_code == 201
                made = await operator.post("/keys", json={"name": "admin", "tenant": name, "role": "admin"})
                tokens.append(made.json()["token"])
            async with using(address, tokens[0]) as acme, using(address, tokens[1]) as other:
                yield Shared(address, operator, acme, other)
