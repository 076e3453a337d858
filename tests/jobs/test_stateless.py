"""Stateless runs: one request with input, config and context, and nothing that stays."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.conftest import running_server, without_pauses
from tests.crash.waiting import eventually
from tests.jobs.receiver import POLICY, SECRET, receiving
from tests.runs.talking import answer
from tests.samples import SetClock

GRAPH = """
from dataclasses import dataclass
from typing import TypedDict
from langgraph.graph import START, END, StateGraph
from langgraph.runtime import Runtime
from langchain_core.runnables import RunnableConfig

class State(TypedDict, total=False):
    topic: str
    report: str

@dataclass
class Context:
    tone: str = "plain"

def write(state: State, config: RunnableConfig, runtime: Runtime[Context]) -> State:
    return {"report": f"{state['topic']}, {runtime.context.tone}, {config['configurable']['place']}"}

builder = StateGraph(State, context_schema=Context)
builder.add_node("write", write)
builder.add_edge(START, "write")
builder.add_edge("write", END)
graph = builder.compile()
"""
SAID = [{"role": "user", "content": "weather"}]


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(tmp_path: Path, clock: SetClock) -> AsyncIterator[httpx2.AsyncClient]:
    graph, config = tmp_path / "writer.py", tmp_path / "operator.yaml"
    graph.write_text(GRAPH)
    config.write_text(POLICY)
    parts = Parts(clock=clock, timings=Timings(jobs=0.02), demo_systems=without_pauses)
    settings = Settings(data=tmp_path / "data", config=config, demo=True)
    async with running_server(settings, own={"writer": f"{graph}:graph"}, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
            yield made


async def asked(client: httpx2.AsyncClient, **body: Any) -> str:
    """The session of a one-shot request that was answered."""
    found = await client.post("/stream-test", json=body)
    assert found.status_code == 200, found.text
    return found.headers["Stellwerk-Session"]


async def is_gone(client: httpx2.AsyncClient, sid: str) -> bool:
    return (await client.get(f"/sessions/{sid}")).status_code == 404


async def test_a_graph_gets_input_config_and_context_without_a_session_of_ones_own(
    client: httpx2.AsyncClient, clock: SetClock
) -> None:
    body = {
        "agent_system_id": "writer",
        "input": {"topic": "trams"},
        "config": {"configurable": {"place": "Berlin"}},
        "context": {"tone": "dry"},
        "on_completion": "delete",
    }
    found = await client.post("/stream-test", json=body)
    assert found.status_code == 200, found.text
    assert "trams, dry, Berlin" in json.dumps([json.loads(line) for line in found.text.splitlines()])
    sid = found.headers["Stellwerk-Session"]
    assert (await client.get(f"/sessions/{sid}")).json()["status"] == "completed"  # for readers that are slow
    clock.set_by += 61
    await eventually(lambda: is_gone(client, sid), within=60, what="the session stays")
    entries = (await client.get("/audit")).json()["entries"]
    assert [entry["what"] for entry in entries if entry["on"].get("sid") == sid] == ["DELETE /sessions/{sid}"]


async def test_a_session_stays_unless_it_was_asked_to_go(client: httpx2.AsyncClient, clock: SetClock) -> None:
    kept = await asked(client, agent_system_id="demo", messages=SAID)
    gone = await asked(client, agent_system_id="demo", messages=SAID, on_completion="delete")
    clock.set_by += 3600
    await eventually(lambda: is_gone(client, gone), within=60, what="the session stays")
    assert (await client.get(f"/sessions/{kept}")).json()["status"] == "completed"


async def test_a_question_keeps_the_session_until_it_is_answered(client: httpx2.AsyncClient, clock: SetClock) -> None:
    ask = [{"role": "user", "content": "ask me"}]
    sid = await asked(client, agent_system_id="demo", messages=ask, on_completion="delete")
    other = await asked(client, agent_system_id="demo", messages=SAID, on_completion="delete")
    clock.set_by += 61
    await eventually(lambda: is_gone(client, other), within=60, what="the session stays")
    assert (await client.get(f"/sessions/{sid}")).json()["awaiting_user_input"] is True
    await answer(client, sid, text="red")
    await client.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
    clock.set_by += 61
    await eventually(lambda: is_gone(client, sid), within=60, what="the session stays")


async def test_a_session_is_not_deleted_before_its_end_was_reported(
    client: httpx2.AsyncClient, clock: SetClock
) -> None:
    await client.put("/secrets/webhook_secret", json={"value": SECRET})
    with receiving() as receiver:
        receiver.statuses = [500]
        wanted = {"agent_system_id": "demo", "messages": SAID, "webhook": receiver.url, "on_completion": "delete"}
        sid = await asked(client, **wanted)
        await receiver.has(1)
        assert not await is_gone(client, sid)
        clock.set_by += 61
        await receiver.has(2)
        await eventually(lambda: is_gone(client, sid), within=60, what="the session stays")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agent_system_id": "demo"}, "messages"),
        ({"agent_system_id": "demo", "messages": []}, "messages"),
        ({"agent_system_id": "demo", "messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"agent_system_id": "writer", "input": {"subject": "x"}}, "input"),
        ({"agent_system_id": "demo", "messages": SAID, "webhook": "nonsense"}, "webhook"),
        ({"agent_system_id": "demo", "messages": SAID, "on_completion": "burn"}, "on_completion"),
    ],
)
async def test_bad_input_leaves_no_session(client: httpx2.AsyncClient, body: dict[str, Any], field: str) -> None:
    refused = await client.post("/stream-test", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"].startswith(field)
    assert (await client.get("/sessions")).json()["sessions"] == []
