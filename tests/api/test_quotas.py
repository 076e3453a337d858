"""Limits over HTTP: who sets them, what is answered beyond them, and what /usage shows."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.api.tenants import Shared, shared_server
from tests.runs.talking import begin, rest_of_run, send

SYSTEM = """\
{version: 1, system: {name: short}, agents: [{id: one, mission: m, model: {provider: scripted, script: [
  {when: slow, steps: [{say: Yes., wait: 600}]}, {steps: [{say: Yes.}]}]}}]}
"""
CLIENTS = 10


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


async def limit(shared: Shared, **limits: int) -> None:
    answer = await shared.operator.put("/tenants/acme/limits", json=limits)
    assert answer.status_code == 200, answer.text
    assert {name: number for name, number in answer.json().items() if number is not None} == limits


async def register(client: httpx2.AsyncClient) -> None:
    made = await client.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201, made.text


def said(answer: httpx2.Response) -> tuple[int, str, str]:
    problem: dict[str, Any] = answer.json()
    return answer.status_code, problem["code"], problem["detail"].partition(":")[0]


@pytest.mark.requirement("004.security.quotas")
async def test_ten_clients_with_twice_the_quota_get_the_quota(shared: Shared) -> None:
    await limit(shared, requests=40)

    async def ask(client: httpx2.AsyncClient) -> list[httpx2.Response]:
        return [await client.get("/sessions") for _ in range(8)]

    async with AsyncExitStack() as opened:
        clients = [await opened.enter_async_context(shared.client("acme", name=f"k{n}")) for n in range(10)]
        async with asyncio.timeout(50):
            answers = [answer for each in await asyncio.gather(*map(ask, clients)) for answer in each]
    assert [answer.status_code for answer in answers].count(200) == 40
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert said(refused) == (429, "limit_reached", "requests")
    assert "40 are used of the 40 requests" in refused.json()["detail"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await shared.other.get("/sessions")).status_code == 200
    assert len((await shared.operator.get("/audit?limit=500")).json()["entries"]) < 40
    assert (await shared.operator.get("/usage?tenant=acme")).json()["used"]["requests"] == 40
    assert (refused.json()["title"], refused.json()["type"]) == ("Limit reached", "urn:stellwerk:problem:limit_reached")


@pytest.mark.requirement("004.security.quotas")
async def test_ten_clients_with_twice_the_quota_of_tokens_and_runs_get_no_more_than_they_had_begun(
    shared: Shared,
) -> None:
    await register(shared.acme)
    sid = await begin(shared.acme, "short")
    await rest_of_run(shared.acme, sid, (await send(shared.acme, sid, "hello"))["after"])
    one: int = (await shared.acme.get("/usage")).json()["used"]["tokens"]
    quota = CLIENTS * one  # and each of ten clients wants two runs
    await limit(shared, tokens=one + quota)

    async def talk(_client: int) -> list[httpx2.Response]:
        mine = await begin(shared.acme, "short")
        answers = []
        for _ in range(2):
            answers.append(await shared.acme.post(f"/sessions/{mine}/messages", json={"text": "hello"}))
            if answers[-1].status_code == 202:
                await rest_of_run(shared.acme, mine, answers[-1].json()["after"])
        return answers

    async with asyncio.timeout(50):
        answers = [answer for each in await asyncio.gather(*map(talk, range(CLIENTS))) for answer in each]
    assert {answer.status_code for answer in answers} == {202, 429}
    assert said(next(answer for answer in answers if answer.status_code == 429)) == (429, "limit_reached", "tokens")
    used = (await shared.acme.get("/usage")).json()["used"]["tokens"] - one
    assert quota <= used < quota + CLIENTS * 2 * one  # a second message is a little longer than the first

    await limit(shared, runs=CLIENTS)
    sids = [await begin(shared.acme, "short") for _ in range(2 * CLIENTS)]
    answers = await asyncio.gather(*(shared.acme.post(f"/sessions/{s}/messages", json={"text": "slow"}) for s in sids))
    assert [answer.status_code for answer in answers].count(202) == CLIENTS
    assert (await shared.acme.get("/usage")).json()["used"]["runs"] == CLIENTS
    assert {answer.headers["retry-after"] for answer in answers if answer.status_code == 429} == {"5"}
    await asyncio.gather(*(shared.acme.post(f"/sessions/{s}/stop") for s in sids))


@pytest.mark.requirement("004.security.quotas")
async def test_streams_runs_and_files_beyond_the_limit_are_refused_at_the_door(shared: Shared) -> None:
    acme = shared.acme
    await register(acme)
    sid, another = await begin(acme, "short"), await begin(acme, "short")
    await limit(shared, streams=1, runs=0, bytes=10)
    socket = f"{shared.address.replace('http', 'ws')}/sessions/{another}/ws"
    headers = {"Authorization": acme.headers["authorization"]}
    async with acme.stream("GET", f"/sessions/{sid}/stream") as stream:
        assert stream.status_code == 200
        for query in ("", "?dialect=chunks"):
            assert said(await acme.get(f"/sessions/{sid}/stream{query}")) == (429, "limit_reached", "streams")
        question = {"messages": [{"role": "user", "content": "x"}], "agent_system_id": "short"}
        assert said(await acme.post("/stream-test", json=question)) == (429, "limit_reached", "streams")
        with pytest.raises(InvalidStatus) as denied:
            await connect(socket, additional_headers=headers)
        assert denied.value.response.status_code == 429
    async with asyncio.timeout(20):
        while (await acme.get("/usage")).json()["used"]["streams"]:  # the server hears of it a moment later
            pass
    async with connect(socket, additional_headers=headers) as talking:
        await talking.send('{"type": "message", "text": "x"}')
        assert '"code":"limit_reached"' in str(await talking.recv())
        await limit(shared, requests=1)
        for _ in range(3):
            await talking.send("no frame")
        codes = [json.loads(await talking.recv())["problem"]["code"] for _ in range(3)]
        assert codes[-1] == "limit_reached"  # invalid requests are counted as well
    await limit(shared, streams=1, runs=0, bytes=10)
    assert said(await acme.post("/stream-test", json=question)) == (429, "limit_reached", "runs")
    assert (await acme.get("/usage")).json()["used"]["streams"] == 0
    assert (await acme.post("/files", files={"file": ("a.txt", b"123456789")})).status_code == 201
    assert said(await acme.post("/files", files={"file": ("b.txt", b"12")})) == (429, "limit_reached", "bytes")
    await limit(shared, bytes=9)
    assert said(await acme.post(f"/sessions/{sid}/messages", json={"text": "x"})) == (429, "limit_reached", "bytes")


async def test_uploads_at_once_never_exceed_the_limit_and_those_refused_leave_nothing(
    shared: Shared, tmp_path: Path
) -> None:
    acme = shared.acme
    await limit(shared, bytes=750_000)
    files = [{"file": (f"{number}.bin", bytes([number]) * 100_000)} for number in range(20)]
    answers = await asyncio.gather(*(acme.post("/files", files=each) for each in files))
    assert [answer.status_code for answer in answers].count(201) == 7
    refused = [answer for answer in answers if answer.status_code != 201]
    assert {said(answer) for answer in refused} == {(429, "limit_reached", "bytes")}
    assert (await acme.get("/usage")).json()["used"]["bytes"] == 700_000
    assert len([path for path in (tmp_path / "data" / "documents").rglob("*") if path.is_file()]) == 7
    again = {"file": ("again.bin", bytes([100]) * 50_000)}
    answers = await asyncio.gather(*(acme.post("/files", files=again) for _ in range(2)))  # equal ones count once
    assert {answer.status_code for answer in answers} == {201}
    assert (await acme.get("/usage")).json()["used"]["bytes"] == 750_000


async def test_usage_is_by_user_system_and_model_and_each_tenant_sees_its_own(shared: Shared) -> None:
    await register(shared.acme)
    async with shared.client("acme", name="ada's", user="ada", role="member") as ada:
        sid = await begin(ada, "short")
        for _ in range(2):
            await rest_of_run(ada, sid, (await send(ada, sid))["after"])
        asked = {"agent_system_id": "short", "messages": [{"role": "user", "content": "x"}]}
        another = (await ada.post("/stream-test", json=asked)).headers["stellwerk-session"]
        tokens = [(await ada.get(f"/sessions/{each}/usage")).json()["output_tokens"] for each in (sid, another)]
    page = (await shared.acme.get("/usage")).json()
    runs, model = page["usage"]
    assert (runs["user"], runs["system"], runs["model"], runs["runs"]) == ("ada", "short", None, 3)
    assert (model["model"], model["model_calls"], model["output_tokens"]) == ("scripted", 3, sum(tokens))
    assert page["used"]["tokens"] == model["input_tokens"] + model["output_tokens"]
    first = (await shared.acme.get("/usage?limit=1")).json()
    assert first["usage"] == [runs]
    assert (await shared.acme.get(f"/usage?limit=1&after={first['next']}")).json()["usage"] == [model]
    assert (await shared.operator.get("/usage?tenant=acme")).json()["usage"] == [runs, model]
    assert (await shared.other.get("/usage")).json()["usage"] == []
    assert (await shared.other.get("/usage?tenant=acme")).json() == (await shared.other.get("/usage?tenant=no")).json()
    assert (await shared.operator.get("/usage?tenant=nobody")).json()["code"] == "unknown_tenant"

    # Nor can a tenant set limits, whether of its own or of one that is not there.
    answers = [(await shared.acme.put(f"/tenants/{name}/limits", json={})).json() for name in ("acme", "other", "no")]
    assert {answer["code"] for answer in answers} == {"forbidden"}
    assert len({answer["detail"] for answer in answers}) == 1
    assert (await shared.operator.put("/tenants/no/limits", json={})).json()["code"] == "unknown_tenant"
    for wrong in ({"requests": 0}, {"runs": -1}, {"tokens": "many"}, {"pages": 3}):
        assert (await shared.operator.put("/tenants/acme/limits", json=wrong)).status_code == 422, wrong


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "short", "messages": [{"role": "user", "content": "Hi"}], "stream": True}),
        ("/v1/responses", {"model": "short", "input": "Hi", "stream": True}),
        (
            "/langgraph/runs/stream",
            {"assistant_id": "short", "input": {"messages": [{"type": "human", "content": "Hi"}]}},
        ),
    ],
)
async def test_a_message_whose_stream_is_refused_is_not_stored_because_clients_send_it_again(
    shared: Shared, path: str, body: dict[str, Any]
) -> None:
    acme = shared.acme
    await register(acme)
    await limit(shared, streams=0)
    answer = await acme.post(path, json=body)
    assert (answer.status_code, "streams" in answer.text) == (429, True)
    assert (await acme.get("/sessions")).json()["sessions"] == []
    await limit(shared, streams=1)
    answer = await acme.post(path, json=body)
    assert answer.status_code == 200, answer.text
