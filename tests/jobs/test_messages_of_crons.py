"""The message of a cron is checked like one that is sent at once: by the schemas of its graph."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.conftest import running_server
from tests.crash.waiting import eventually
from tests.runs.talking import begin, stop
from tests.samples import SetClock

GRAPHS = Path(__file__).parents[1] / "runs/wanting/graphs.py"
FITTING = {"input": {"email_input": {"author": "Ann"}}}
UNFIT: list[dict[str, Any]] = [
    {"text": "hello"},
    {"input": {"mail": 1}},
    {"input": {"email_input": "Ann"}},
    {**FITTING, "config": {"recursion_limit": "many"}},
    {**FITTING, "documents": ["0000000000000000000000"]},
]


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def client(tmp_path: Path, clock: SetClock) -> AsyncIterator[httpx2.AsyncClient]:
    own = {name: f"{GRAPHS}:{name}" for name in ("mail", "pair")}
    parts = Parts(clock=clock, timings=Timings(jobs=0.02))
    async with running_server(Settings(data=tmp_path / "data"), own=own, parts=parts) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
            yield made


def body(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schedule": "0 * * * *", "agent_system_id": "mail", "message": message} | more


async def test_a_message_that_does_not_fit_its_graph_is_refused_as_if_it_were_sent(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "mail")
    into = {"agent_system_id": None, "session_id": sid}
    cron = (await client.post("/crons", json=body(FITTING))).json()
    for message in UNFIT:
        sent = await client.post(f"/sessions/{sid}/messages", json=message)
        for refused in (
            await client.post("/crons", json=body(message)),
            await client.post("/crons", json=body(message, **into)),
            await client.put(f"/crons/{cron['id']}", json=body(message)),
        ):
            said = refused.text.replace("message.config.", "config.")  # where it is in this body
            assert (refused.status_code, said) == (sent.status_code, sent.text), message
    assert (await client.get("/crons")).json()["crons"] == [cron]
    assert (await client.get("/sessions")).json()["sessions"][0]["position"] == 0


async def test_the_defaults_of_the_session_count_and_so_does_an_open_question_not(client: httpx2.AsyncClient) -> None:
    settings = {"agent_system_id": "mail", "config": {"recursion_limit": 50}}
    sid = (await client.post("/sessions", json=settings)).json()["id"]
    made = await client.post("/crons", json=body(FITTING, agent_system_id=None, session_id=sid))
    assert made.status_code == 201, made.text
    asking = await begin(client, "demo")
    await client.post(f"/sessions/{asking}/messages", json={"text": "ask"})
    made = await client.post("/crons", json=body({"text": "weather"}, agent_system_id=None, session_id=asking))
    assert made.status_code == 201, made.text
    await stop(client, asking)


async def test_a_later_version_that_takes_another_input_fails_the_tick_visibly_and_the_cron_can_be_paused(
    client: httpx2.AsyncClient, clock: SetClock
) -> None:
    async def register(graph: str) -> None:
        system = {"version": 1, "system": {"name": "post"}, "agents": [{"id": "a", "kind": "graph", "graph": graph}]}
        assert (await client.post("/agent-systems", json=system)).status_code in (200, 201)

    await register("mail")
    cron = (await client.post("/crons", json=body(FITTING, agent_system_id="post"))).json()
    await register("pair")
    clock.set_by = cron["next_tick"] + 1 - clock.now()

    async def is_over() -> bool:
        return (await client.get(f"/crons/{cron['id']}")).json()["last"] is not None

    await eventually(is_over, within=60, what="the tick did not come")
    last = (await client.get(f"/crons/{cron['id']}")).json()["last"]
    assert last["error"].startswith("invalid_field: input.email_input: "), last
    assert (await client.get("/sessions")).json()["sessions"] == []

    refused = await client.put(f"/crons/{cron['id']}", json=body(FITTING, agent_system_id="post"))
    assert (refused.status_code, refused.json()["field"]) == (422, "input.email_input")
    paused = await client.put(f"/crons/{cron['id']}", json=body(FITTING, agent_system_id="post", enabled=False))
    assert (paused.status_code, paused.json()["enabled"]) == (200, False)
