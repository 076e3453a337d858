"""A client that polls, as a front end would: it knows ids, statuses and log entries, and nothing of sessions."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.demo import demo_yaml
from stellwerk.settings import Settings
from tests.conftest import server_beside

Told = dict[str, Any]
PATH = "/api/workflows"
NEW = {"agentSystemId": "quick"}


@pytest.fixture(name="data", scope="module")
def quick_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick") / "data"


@pytest.fixture(name="address", scope="module")
def quick_server(data: Path) -> Iterator[str]:
    """With a demo that does not take its time."""
    quick = data.parent / "quick.yaml"
    quick.write_text(demo_yaml().replace("pace: 0.03", "pace: 0").replace("name: demo", "name: quick"))
    with server_beside(Settings(data=data), own={"quick": str(quick)}) as found:
        yield found


async def upload(client: httpx2.AsyncClient, name: str, data: bytes) -> int:
    answer = await client.post("/files", files={"file": (name, data)})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["fileId"])


async def start(client: httpx2.AsyncClient, prompt: str, workflow_id: str | None = None, **more: Any) -> str:
    params = {} if workflow_id is None else {"id": workflow_id}
    answer = await client.post(f"{PATH}/start", params=params, json={"prompt": prompt, **more})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


async def get(client: httpx2.AsyncClient, workflow_id: str, what: str = "", **params: Any) -> Any:
    answer = await client.get(f"{PATH}/{workflow_id}{what}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pages(client: httpx2.AsyncClient, place: str) -> list[Told]:
    """What the pages from this one on have, by their links."""
    found = list[Told]()
    while place:
        answer = await client.get(place)
        found += answer.json()
        place = answer.links["next"]["url"] if "next" in answer.links else ""
    return found


async def status(client: httpx2.AsyncClient, workflow_id: str) -> str:
    return str((await get(client, workflow_id, "/status"))["status"])


async def until(client: httpx2.AsyncClient, workflow_id: str, reached: Callable[[Told], bool]) -> Told:
    """Look at the whole object until something is so; and again when something has happened, or soon."""
    position, news = 0, f"/sessions/{workflow_id}/events"
    async with asyncio.timeout(60):
        while True:
            found = dict(await get(client, workflow_id))
            if reached(found):
                return found
            position = (await client.get(news, params={"after": position, "wait": 0.1})).json()["next"]


async def finished(client: httpx2.AsyncClient, workflow_id: str) -> Told:
    """Over, and its documents read."""
    return await until(client, workflow_id, lambda found: found["status"] != "running" and not _is_read_still(found))


def _is_read_still(found: Told) -> bool:
    errors = [document["error"] for message in found["messages"] for document in message["documents"]]
    return any(error and error["code"] == "document_pending" for error in errors)


async def waiting(client: httpx2.AsyncClient, workflow_id: str) -> Told:
    return await until(client, workflow_id, lambda found: bool(found["awaitingUserInput"]))


async def done(client: httpx2.AsyncClient, prompt: str, workflow_id: str | None = None, **more: Any) -> Told:
    """A whole round."""
    return await finished(client, await start(client, prompt, workflow_id, **more))


def refused(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json()["code"])
