"""Calls that end early: cancelled by the client, or cut off when the server goes down."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest

from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.crash.process import ServerProcess, server_process
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW
from tests.protocols.mcp.hosts import Host, Mode, host_of, session_of, text_of


async def ended(address: str, session_id: str) -> str:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as native:
        await native.get(f"/sessions/{session_id}/stream", params={"until": "run_end"})
        return str((await native.get(f"/sessions/{session_id}/state")).json()["status"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_that_is_cancelled_stops_its_run(tmp_path: Path, mode: Mode) -> None:
    async with running_server(Settings(data=tmp_path / "data")) as address, host_of(address, mode) as host:
        async with anyio.create_task_group() as calls:
            calls.start_soon(host.say, "slow")
            await host.until("wait_a_while")
            calls.cancel_scope.cancel()
        session_id = host.progress[0].removeprefix("session ")
        assert await ended(address, session_id) == "stopped"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [ServerProcess.kill, ServerProcess.stop])
async def test_a_call_and_a_question_are_there_after_the_server_went_down(
    tmp_path: Path, how: Callable[[ServerProcess], None]
) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors"
    cut: list[types.CallToolResult] = []

    async def call(host: Host) -> None:
        cut.append(await host.say("count", "my chat", tool="slow"))

    with server_process(data, errors=errors, demo=True, serves=[str(SLOW)]) as server:
        async with host_of(server.address, answer=closed) as host:
            asked = await host.client.session.call_tool("demo", {"message": "ask"}, allow_input_required=True)
            assert isinstance(asked, types.InputRequiredResult)
        with suppress(BaseExceptionGroup, httpx2.HTTPError, OSError):
            async with host_of(server.address) as host, anyio.create_task_group() as calls:
                calls.start_soon(call, host)
                await host.until("session")
                await asyncio.to_thread(how, server)
    assert all(result.is_error and "empty message" in text_of(result) for result in cut), cut
    with server_process(data, errors=errors, demo=True, serves=[str(SLOW)]) as later:
        async with host_of(later.address) as host:
            again = await host.say("count" if how is ServerProcess.kill else "", "my chat", tool="slow")
        async with host_of(later.address, answer=closed) as host:
            answers = [await answered(host, asked, answer="green") for _ in range(2)]
        async with httpx2.AsyncClient(base_url=later.address) as native:
            found = (await native.get(f"/sessions/{session_of(again)}/messages")).json()["messages"]
    assert text_of(again) == ANSWER
    assert [each["text"] for each in found if each["role"] == "user"] == ["count"]
    assert [text_of(each) for each in answers] == ["You answered: green"] * 2


def closed(_: types.ElicitRequestFormParams) -> types.ElicitResult:
    return types.ElicitResult(action="cancel")


async def answered(host: Host, asked: types.InputRequiredResult, **content: Any) -> types.CallToolResult:
    (ask_id,) = asked.input_requests or {}
    answers: dict[str, Any] = {ask_id: types.ElicitResult(action="accept", content=content)}
    return await host.client.session.call_tool(
        "demo", {"message": "ask"}, input_responses=answers, request_state=asked.request_state
    )
