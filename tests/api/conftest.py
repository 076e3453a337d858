"""In here a client believes no answer that the published OpenAPI does not promise."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.documented import check
from tests.conftest import own_server


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What /openapi.json says; asked for once, as it is the same for every server."""
    found: dict[str, Any] = {}

    async def ask(data: Path) -> None:
        async with own_server(Settings(data=data)) as asking:
            found.update((await asking.get("/openapi.json")).json())

    # In a thread of its own, as there is an event loop of the tests already.
    asking = threading.Thread(target=lambda: asyncio.run(ask(tmp_path_factory.mktemp("published"))))
    asking.start()
    asking.join()
    return found


@pytest.fixture
async def client(address: str, published: dict[str, Any]) -> AsyncIterator[httpx2.AsyncClient]:
    hooks: dict[str, list[Any]] = {"response": [partial(check, published)]}
    async with httpx2.AsyncClient(base_url=address, timeout=60, event_hooks=hooks) as made:
        yield made
