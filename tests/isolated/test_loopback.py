"""``langgraph_sdk.get_client()`` without a URL in an isolated graph reaches the server that started its process."""

from pathlib import Path
from typing import Any

import httpx2

from tests.isolated.serving import events
from tests.isolated.test_same_as_in_process import both

GRAPHS = Path(__file__).parents[1] / "runs/loopback_graphs.py"


async def said(client: httpx2.AsyncClient, text: str) -> str:
    made = await client.post("/sessions", json={"agent_system_id": "chat", "user_id": "ann"})
    session = made.json()["id"]
    await client.post(f"/sessions/{session}/messages", json={"text": text})
    return str((await events(client, session))[-1]["payload"]["result"])


async def called(client: httpx2.AsyncClient) -> Any:
    texts = ("recall", "state", "stream", "checkpoint", "secret", "nobody")
    results = [await said(client, text) for text in texts]
    await said(client, "remember lamps")
    listed = (await client.get("/sessions")).json()["sessions"]
    (memory,) = [each["id"] for each in listed if each["agent_system_id"] == "memory"]
    return results, (await events(client, memory))[-1]["payload"]["status"]


async def test_calls_are_answered_and_refused_as_in_the_servers_process(tmp_path: Path) -> None:
    targets = [f"{name}={GRAPHS}:{name}" for name in ("chat", "memory")]
    here, isolated = await both(tmp_path, *targets, do=called)
    assert here[1] == "completed"
    assert here[0][1] == "remembers nothing yet"
    assert isolated == here
