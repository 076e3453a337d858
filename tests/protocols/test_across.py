"""One stored session in every protocol: begun natively, continued in each, and the same transcript in all of them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

from stellwerk.app import Parts
from stellwerk.envelope.model import Envelope, decode
from stellwerk.testing import order_problems
from tests.conftest import without_pauses
from tests.protocols.fronts import FRONTS, NATIVE, Front, Turn

QUESTION = "Which colour do you like?"
WEATHER = "It is sunny. This is what the tool said:\n\n| city | sky | degrees |\n|---|---|---|\n| Berlin | sunny | 21 |"
ANSWERS = {"weather": WEATHER, "ask": QUESTION, "red": "You answered: red", "blue": "You answered: blue"}


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def client(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as made:
        yield made


@pytest.fixture
async def sid(client: httpx2.AsyncClient) -> str:
    return str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])


async def log_of(client: httpx2.AsyncClient, sid: str) -> list[Any]:
    found: list[Any] = []
    while True:
        whole: dict[str, str | int] = {"after": len(found), "profile": "debug"}
        page = (await client.get(f"/sessions/{sid}/events", params=whole)).json()["events"]
        if not page:
            return found
        found += page


def stored(event: Any) -> Envelope:
    """As the log has it, without what a frame adds."""
    body = {name: value for name, value in event.items() if name not in ("position", "origin", "session_id")}
    return decode(msgspec.json.encode(body))


async def test_a_session_is_continued_in_each_protocol_in_turn_and_all_show_one_transcript(
    client: httpx2.AsyncClient, sid: str
) -> None:
    golden: list[Turn] = []

    async def say(front: Front, text: str) -> None:
        golden.append((text, ANSWERS[text]))
        async with asyncio.timeout(120):
            said = await front.send(client, sid, text)
        assert said.endswith(ANSWERS[text]), (front.name, text, said)

    await say(NATIVE, "weather")
    await say(NATIVE, "ask")
    for number, front in enumerate(FRONTS):  # each answers what the one before was asked
        await say(front, ("red", "blue")[number % 2])
        await say(front, "weather")
        await say(front, "ask")
    await say(NATIVE, "red")
    for front in (NATIVE, *FRONTS):
        if front.show is not None:
            assert await front.show(client, sid) == golden, front.name
    log = await log_of(client, sid)
    assert order_problems(map(stored, log)) == []
    assert [event["position"] for event in log] == list(range(1, len(log) + 1))
    assert {event["session_id"] for event in log} == {sid}
    listed = (await client.get("/sessions", params={"limit": 100})).json()["sessions"]
    assert [each["id"] for each in listed].count(sid) == 1
