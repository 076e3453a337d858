"""A workflow belongs to a user, as any other session does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.tenants import Shared, shared_server

START = {"prompt": "hello", "agentSystemId": "demo"}
CASES: list[tuple[dict[str, str], dict[str, int], str | None]] = [
    ({"user": "ada", "role": "member"}, {}, "ada"),
    ({"user": "12", "role": "member"}, {"userId": 12}, "12"),
    ({"user": "ada", "role": "admin"}, {"userId": 12}, "12"),
    ({"role": "member"}, {"userId": 12}, "12"),
    ({"role": "member"}, {}, None),
]


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def user_of_workflow(shared: Shared, key: dict[str, str], more: dict[str, int]) -> Any:
    async with shared.client("acme", name=f"starter {key} {more}", **key) as client:
        started = await client.post("/api/workflows/start", json={**START, **more})
        assert started.status_code == 200, started.text
        return (await client.get(f"/sessions/{started.json()['id']}")).json().get("user_id")


async def test_a_workflow_has_the_user_of_the_key_that_starts_it(shared: Shared) -> None:
    for key, more, user in CASES:
        assert await user_of_workflow(shared, key, more) == user, (key, more)
