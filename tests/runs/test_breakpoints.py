"""A breakpoint over HTTP: its question has options, and no stops the run, visibly, before the node."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.conftest import running_server
from tests.runs.talking import answer, begin, events, log_of, rest_of_run

GRAPHS = Path(__file__).parent / "own_graphs.py"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_server(Settings(data=tmp_path), own=systems_of([f"gate={GRAPHS}:gate"])) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
            yield client


@pytest.mark.parametrize("given", [{"text": "no"}, {"refused": True}], ids=["no", "refused"])
async def test_no_at_a_breakpoint_ends_the_run_as_stopped(given: dict[str, Any], client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "gate")
    asked = (await whole_round(client, sid, "write"))[-2:]
    assert [(e["type"], e["payload"].get("options")) for e in asked if e["type"] == "ask_user"] == [
        ("ask_user", ["yes", "no"])
    ]
    accepted = await answer(client, sid, **given)
    told = await rest_of_run(client, sid, accepted["after"])
    assert [event["type"] for event in told] == ["run_start", "user_answer", "run_end"]
    assert told[-1]["payload"]["status"] == "stopped"
    assert told[-1]["payload"]["reason"] == "the answer at the breakpoint was no"
    assert (await client.get(f"/sessions/{sid}")).json()["status"] == "stopped"
    again = await whole_round(client, sid, "once more")
    assert again[-1]["payload"]["status"] == "awaiting_user"
    accepted = await answer(client, sid, text="yes")
    assert (await rest_of_run(client, sid, accepted["after"]))[-1]["payload"]["result"] == "Posted."
    assert order_problems(log_of(await events(client, sid))) == []


@pytest.mark.parametrize("path", ["answers", "messages"])
async def test_what_is_neither_yes_nor_no_is_refused_and_the_question_stays_open(
    path: str, client: httpx2.AsyncClient
) -> None:
    sid = await begin(client, "gate")
    await whole_round(client, sid, "write")
    refused = await client.post(f"/sessions/{sid}/{path}", json={"text": "hm, what would it send?"})
    assert (refused.status_code, "choose one of: yes, no" in refused.text) == (422, True)
    accepted = await answer(client, sid, text="yes")
    assert (await rest_of_run(client, sid, accepted["after"]))[-1]["payload"]["status"] == "completed"
