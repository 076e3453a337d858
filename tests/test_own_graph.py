"""`stellwerk serve my_graph.py:graph`: somebody's graph, served as it is."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.targets import graphs_of
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.conftest import running_server

EXAMPLE = Path(__file__).parents[1] / "examples/own-graph"


async def round_with(client: httpx2.AsyncClient, system: str, text: str) -> list[dict[str, Any]]:
    sid = (await client.post("/sessions", json={"agent_system_id": system})).json()["id"]
    await client.post(f"/sessions/{sid}/messages", json={"text": text})
    whole = await client.get(f"/sessions/{sid}/stream?until=run_end", headers={"accept": "application/x-ndjson"})
    return [json.loads(line) for line in whole.text.splitlines()]


@pytest.mark.parametrize("target", ["desk.py:graph", "langgraph.json"])
async def test_a_graph_is_served_under_its_name_with_its_own_state_and_its_graph_inside(
    target: str, tmp_path: Path
) -> None:
    own = graphs_of([str(EXAMPLE / target)])
    assert set(own) == {"desk"}
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            told = await round_with(client, "desk", "I need a lamp")
    assert told[-1]["payload"]["result"] == "Noted: lamp, 20 euros."
    kinds = [one["payload"]["kind"] for one in told if one["type"] == "tool_start"]
    assert kinds == ["graph"]
    updates = {one["payload"]["node"]: one["payload"]["delta"] for one in told if one["type"] == "update"}
    assert updates["quote"] == {"quoted": ["lamp"]}
    assert updates["pricing"]["total"] == 20


async def test_a_graph_that_asks_waits_for_its_user(tmp_path: Path) -> None:
    own = graphs_of([str(EXAMPLE / "desk.py:graph")])
    async with running_server(Settings(data=tmp_path), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            told = await round_with(client, "desk", "I need a desk")
    (asked,) = [one["payload"] for one in told if one["type"] == "ask_user"]
    assert asked["question"] == "That would be 300 euros. Is it all right?"
    assert told[-1]["payload"]["status"] == "awaiting_user"


def test_two_graphs_of_one_name_are_refused() -> None:
    both = [str(EXAMPLE / "desk.py:graph"), str(EXAMPLE / "langgraph.json")]
    with pytest.raises(SettingsError, match="would be called 'desk'"):
        graphs_of(both)


async def test_the_operators_file_brings_tools_and_graphs(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text(f"graphs: {{shop: '{EXAMPLE}/desk.py:graph'}}\n")
    async with running_server(Settings(data=tmp_path / "data", config=config)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_an_operators_file_that_is_wrong_stops_the_start_with_its_reason(tmp_path: Path) -> None:
    config = tmp_path / "operator.yaml"
    config.write_text("graphs: {shop: 'nowhere.py:graph'}\n")
    with pytest.raises(SettingsError, match=r"nowhere\.py"):
        async with running_server(Settings(data=tmp_path / "data", config=config)):
            pass
