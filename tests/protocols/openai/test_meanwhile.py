"""What happens to a session while an answer of OpenAI's API is under way, and requests that are sent again."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from stellwerk.app import Parts
from tests.conftest import without_pauses
from tests.crash.process import server_process
from tests.protocols.openai.clients import async_client_of

WEATHER = {"model": "demo", "messages": [{"role": "user", "content": "weather"}]}
SLOW = {"model": "demo", "messages": [{"role": "user", "content": "slow"}]}


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def http(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as made:
        yield made


@pytest.fixture
async def retrying(shared_address: str) -> AsyncIterator[AsyncOpenAI]:
    """A client as people have it: it sends again what failed."""
    async with async_client_of(shared_address).with_options(max_retries=2) as made:
        yield made


async def sessions(http: httpx2.AsyncClient) -> int:
    return len((await http.get("/sessions", params={"limit": 500})).json()["sessions"])


async def begun(http: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> tuple[str, "asyncio.Task[Any]"]:
    """The session of a request that waits for the end of its run."""
    before = {each["id"] for each in (await http.get("/sessions", params={"limit": 500})).json()["sessions"]}
    waiting = asyncio.create_task(http.post(path, json=body))
    async with asyncio.timeout(60):
        while True:
            assert not waiting.done()
            found = (await http.get("/sessions", params={"limit": 500})).json()["sessions"]
            new = [each["id"] for each in found if each["id"] not in before and each["status"] == "running"]
            if new:
                return new[0], waiting


async def test_a_run_that_fails_is_not_run_again_by_a_client_that_retries(
    retrying: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    before = await sessions(http)
    with pytest.raises(openai.InternalServerError):
        await retrying.chat.completions.create(model="demo", messages=[{"role": "user", "content": "fail"}])
    assert await sessions(http) == before + 1


@pytest.mark.parametrize(
    ("path", "body"), [("/v1/chat/completions", SLOW), ("/v1/responses", {"model": "demo", "input": "slow"})]
)
async def test_a_request_that_waits_learns_that_its_session_was_deleted(
    http: httpx2.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    session_id, waiting = await begun(http, path, body)
    assert (await http.delete(f"/sessions/{session_id}")).status_code == 204
    answer = await waiting
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_gone")
    assert answer.headers["x-should-retry"] == "false"


async def test_a_stream_whose_session_is_deleted_is_cut_and_never_looks_finished(http: httpx2.AsyncClient) -> None:
    got = ""
    with pytest.raises(httpx2.HTTPError):
        async with http.stream("POST", "/v1/chat/completions", json={**SLOW, "stream": True}) as stream:
            async for piece in stream.aiter_text():
                if not got:
                    await http.delete(f"/sessions/{stream.headers['X-Session-Id']}")
                got += piece
    assert "[DONE]" not in got


async def test_a_stop_ends_the_stream_and_the_session_goes_on(http: httpx2.AsyncClient) -> None:
    got = ""
    async with http.stream("POST", "/v1/chat/completions", json={**SLOW, "stream": True}) as stream:
        session_id = stream.headers["X-Session-Id"]
        async for piece in stream.aiter_text():
            if not got:
                assert (await http.post(f"/sessions/{session_id}/stop")).is_success
            got += piece
    last = json.loads(got.strip().split("\n\n")[-2].removeprefix("data: "))
    assert (last["choices"][0]["finish_reason"], got.strip().endswith("data: [DONE]")) == ("stop", True)
    again = await http.post("/v1/chat/completions", json=WEATHER, headers={"X-Session-Id": session_id})
    assert "sunny" in again.json()["choices"][0]["message"]["content"]


async def test_a_message_while_a_run_is_under_way_is_refused_and_the_run_goes_on(http: httpx2.AsyncClient) -> None:
    session_id, waiting = await begun(http, "/v1/chat/completions", SLOW)
    busy = await http.post("/v1/chat/completions", json=WEATHER, headers={"X-Session-Id": session_id})
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
    await http.post(f"/sessions/{session_id}/stop")
    stopped = await waiting
    assert (stopped.status_code, stopped.json()["choices"][0]["finish_reason"]) == (200, "stop")


async def test_a_first_message_that_is_sent_again_with_its_history_and_key_is_sent_once(
    http: httpx2.AsyncClient,
) -> None:
    earlier = [{"role": "user", "content": "My name is Ada."}, {"role": "assistant", "content": "Hello Ada."}]
    body = {**WEATHER, "messages": [*earlier, *WEATHER["messages"]]}
    headers = {"X-Session-Id": "ada", "Idempotency-Key": "first"}
    first, again = [await http.post("/v1/chat/completions", json=body, headers=headers) for _ in range(2)]
    assert first.json() == again.json()
    messages = (await http.get(f"/sessions/{first.headers['X-Session-Id']}/messages")).json()["messages"]
    assert [each["text"] for each in messages if each["role"] == "user"] == ["My name is Ada.", "weather"]


async def test_a_file_and_a_history_come_with_the_same_first_message(http: httpx2.AsyncClient) -> None:
    file = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}}
    earlier = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello Ada."}]
    last = {"role": "user", "content": [{"type": "text", "text": "weather"}, file]}
    answer = await http.post("/v1/chat/completions", json={"model": "demo", "messages": [*earlier, last]})
    messages = (await http.get(f"/sessions/{answer.headers['X-Session-Id']}/messages")).json()["messages"]
    assert [each["text"] for each in messages[:3]] == ["Hello", "Hello Ada.", "weather"]
    assert len(messages[2]["documents"]) == 1


async def test_an_id_of_a_session_may_have_more_than_ascii_and_is_the_same_in_other_protocols(
    http: httpx2.AsyncClient,
) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "weather"}]}
    answer = await http.post("/v1/chat/completions", json=body, headers={b"X-Session-Id": "Gespräch ✓".encode()})
    assert answer.status_code == 200, answer.text
    named = await http.post("/v1/responses", json={"model": "demo", "input": "weather", "conversation": "Gespräch ✓"})
    assert named.json()["conversation"]["id"] == answer.headers["X-Session-Id"]


async def test_a_request_that_waits_while_the_server_goes_down_is_asked_not_to_send_its_message_again(
    tmp_path: Path,
) -> None:
    with server_process(tmp_path / "data", errors=tmp_path / "errors", demo=True) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            _, waiting = await begun(client, "/v1/chat/completions", SLOW)
            await asyncio.to_thread(server.stop)
            answer = await waiting
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_gone")
    assert (answer.headers["x-should-retry"], "Retry-After" in answer.headers) == ("false", True)
