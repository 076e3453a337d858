"""Keys on several nodes: what one makes or revokes holds on the others."""

import asyncio
from pathlib import Path

import pytest

from tests.cluster.nodes import WITHIN, Node, nodes_in
from tests.crash.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.only_postgres]


async def _answers(node: Node, status: int, token: str | None) -> bool:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return (await node.client.get("/sessions", headers=headers)).status_code == status


async def test_the_first_key_closes_all_nodes_and_a_key_that_one_revokes_opens_none(tmp_path: Path) -> None:
    async with nodes_in(tmp_path) as nodes:
        one, other = await asyncio.gather(nodes.start(), nodes.start())
        assert await _answers(other, 200, None)
        made = await one.client.post("/keys", json={"name": "ada", "role": "admin"})
        assert made.status_code == 201, made.text
        admin = made.json()["token"]

        async def is_closed() -> bool:
            return await _answers(other, 401, None) and await _answers(other, 200, admin)

        await eventually(is_closed, within=WITHIN, what="the first key is unknown to the other node")

        as_admin = {"Authorization": f"Bearer {admin}"}
        made = await other.client.post("/keys", json={"name": "ben", "role": "member"}, headers=as_admin)
        member, key_id = made.json()["token"], made.json()["id"]

        async def is_known() -> bool:
            return await _answers(one, 200, member)

        await eventually(is_known, within=WITHIN, what="a key of the other node is unknown")
        revoked = await other.client.delete(f"/keys/{key_id}", headers=as_admin)
        assert revoked.status_code == 204, revoked.text

        async def is_revoked() -> bool:
            return await _answers(one, 401, member)

        await eventually(is_revoked, within=WITHIN, what="a key that was revoked elsewhere is still valid")
