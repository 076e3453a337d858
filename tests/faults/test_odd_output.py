"""What models, tools and strangers say that nobody expects: it is told in order, and forges nothing."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator

import httpx2
import pytest

from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.conftest import running_server
from tests.faults.conftest import FaultServer
from tests.faults.fault_system.odd import CALLS
from tests.runs.talking import begin, events, log_of

FIELD = re.compile(rb"id: \d+|data: [^\r]*|")
"""Every line that an SSE stream of ours may have."""


@pytest.fixture
async def odd(faulty: FaultServer) -> AsyncIterator[httpx2.AsyncClient]:
    own = {"odd": f"{faulty.folder / 'odd.py'}:graph"}
    async with running_server(Settings(data=faulty.data), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


async def round_of(client: httpx2.AsyncClient, word: str) -> tuple[str, list[Event]]:
    """A round, and another one, which shows that the session lives."""
    sid = await begin(client, "odd")
    told = await whole_round(client, sid, word)
    assert told[-1]["type"] == "run_end"
    assert (await whole_round(client, sid, "nothing odd"))[-1]["payload"]["status"] == "completed"
    assert order_problems(log_of(await events(client, sid))) == []
    return sid, told


@pytest.mark.requirement("fault-57", "fault-39")
@pytest.mark.parametrize("word", CALLS)
async def test_odd_calls_and_results_are_told_in_order_each_call_with_one_end(
    odd: httpx2.AsyncClient, word: str
) -> None:
    _, told = await round_of(odd, word)
    assert told[-1]["payload"]["status"] == "completed"
    ends = Counter(e["call_id"] for e in told if e["type"] == "tool_end")
    assert all(count == 1 for count in ends.values())
    results = [e["payload"]["result"]["text"] for e in told if e["type"] == "tool_end" and "result" in e["payload"]]
    assert "second" not in results


@pytest.mark.requirement("fault-58")
async def test_no_name_and_no_id_can_break_out_of_its_field(odd: httpx2.AsyncClient) -> None:
    sid, told = await round_of(odd, "names")
    path = f"/sessions/{sid}/stream?until=run_end&profile=debug"
    raw = (await odd.get(path)).content
    assert [line for line in raw.split(b"\n") if not FIELD.fullmatch(line)] == []
    lines = (await odd.get(path, headers={"Accept": "application/x-ndjson"})).content.split(b"\n")[:-1]
    assert [json.loads(line)["position"] for line in lines] == [e["position"] for e in told]
    assert [int(line[4:]) for line in raw.split(b"\n") if line.startswith(b"id: ")] == [e["position"] for e in told]
    for dialect in ("chunks", "events"):
        answer = await odd.get(path, params={"dialect": dialect, "until": "run_end"})
        assert all(json.loads(line) for line in answer.content.split(b"\n") if line.strip())
    assert [e["type"] for e in told].count("run_end") == 1
    assert any("🚂" in e["payload"].get("tool_name", "") for e in told), "it is shown as it is called"


@pytest.mark.requirement("fault-43")
async def test_a_tool_cannot_speak_in_the_name_of_others(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    told = await whole_round(client, sid, "forge")
    written = [e for e in told if "gold!" in json.dumps(e["payload"]) or "event: run_end" in json.dumps(e["payload"])]
    (start,) = [e for e in told if e["type"] == "tool_start"]
    assert written, "of what comes within one window the latest is kept"
    for event in written:
        assert event["type"] in ("tool_update", "log", "progress"), event["type"]
        assert (event["agent"], event["run_id"], event["trace_id"]) == ("clerk", told[0]["run_id"], told[0]["trace_id"])
        assert start["call_id"] in (event["call_id"], event["parent_id"])
    assert [e["position"] for e in told] == list(range(1, len(told) + 1))
    assert (told[-1]["payload"]["result"], [e["type"] for e in told].count("run_end")) == ("Forged.", 1)
    assert order_problems(log_of(told)) == []
