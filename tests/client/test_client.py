"""The client against a real server: each call, each refusal, and following over lines that break."""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import httpx2
import pytest

from stellwerk.client import Client, Event, Problem, Unreachable
from stellwerk.envelope.model import AskUser, RunEnd
from stellwerk.settings import Settings
from tests.client.cutting_proxy import cutting
from tests.conftest import running_server

PATIENCE = 240


@pytest.fixture
async def shared_client(shared_address: str) -> AsyncIterator[Client]:
    async with Client(shared_address) as made:
        yield made


@pytest.fixture
async def own_client(address: str) -> AsyncIterator[Client]:
    """A client of a server of its own."""
    async with Client(address) as made:
        yield made


async def test_a_session_is_begun_with_the_given_fields_only_as_an_older_server_may_not_know_the_others() -> None:
    sent: list[object] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        known = {"id": "s", "agent_system_id": "demo", "created_at": 1.0, "position": 0, "status": "idle", "round": 0}
        return httpx2.Response(201, json=known)

    async with Client() as client:
        await client.close()
        client.http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        await client.begin()
        await client.begin("office", user="ada", workflow=True)
    assert sent == [{"agent_system_id": "demo"}, {"agent_system_id": "office", "user_id": "ada", "workflow": True}]


async def run_of(client: Client, session_id: str, text: str) -> list[Event]:
    accepted = await client.send(session_id, text)
    async with asyncio.timeout(PATIENCE):
        return [event async for event in client.follow(session_id, after=accepted.after, until="run_end")]


async def test_a_conversation_is_begun_followed_read_again_listed_and_deleted(own_client: Client) -> None:
    session = await own_client.begin("demo", user="ada")
    received = await run_of(own_client, session.id, "weather")
    assert isinstance(received[-1].envelope, RunEnd)
    assert received[-1].envelope.payload.status == "completed"
    read = [event async for event in own_client.events(session.id)]
    assert [event.position for event in read] == [event.position for event in received]
    whole = [event async for event in own_client.events(session.id, profile="debug")]
    assert [event.position for event in whole] == list(range(1, whole[-1].position + 1))
    (found,) = await own_client.sessions()
    assert (found.id, found.user_id, found.status, found.round) == (session.id, "ada", "completed", 1)
    assert found == await own_client.session(session.id)
    await own_client.delete(session.id)
    assert await own_client.sessions() == []


async def test_more_sessions_than_a_page_has_are_listed_in_their_order(own_client: Client) -> None:
    begun = [(await own_client.begin()).id for _ in range(5)]
    assert [session.id for session in await own_client.sessions(limit=3)] == begun[:1:-1]
    assert [session.id for session in await own_client.sessions(limit=5)] == begun[::-1]


async def test_a_question_is_answered_and_a_run_is_stopped(shared_client: Client) -> None:
    session = await shared_client.begin()
    asked = [event.envelope for event in await run_of(shared_client, session.id, "ask")]
    (ask,) = [envelope for envelope in asked if isinstance(envelope, AskUser)]
    assert (await shared_client.session(session.id)).awaiting_user_input
    accepted = await shared_client.answer(session.id, "blue", ask_id=ask.payload.ask_id, key="once")
    assert accepted == await shared_client.answer(session.id, "blue", ask_id=ask.payload.ask_id, key="once")
    async with asyncio.timeout(PATIENCE):
        rest = [event async for event in shared_client.follow(session.id, after=accepted.after, until="run_end")]
    assert "blue" in rest[-1].data["payload"]["result"]
    await shared_client.send(session.id, "slow")
    enqueued = await shared_client.send(session.id, "hello", if_busy="enqueue")
    assert enqueued.status == "enqueued"
    interrupting = await shared_client.send(session.id, "slow", if_busy="interrupt")
    assert [(one.message_id, one.text) for one in interrupting.withdrawn] == [(enqueued.message_id, "hello")]
    assert (await shared_client.stop(session.id, reason="enough")).status == "stopped"


async def test_what_the_server_refuses_is_raised_with_its_code_and_detail(shared_client: Client) -> None:
    with pytest.raises(Problem, match="there is no session") as unknown:
        await shared_client.session("unknown?x=1")
    assert (unknown.value.status, unknown.value.code) == (404, "unknown_session")
    assert unknown.value.detail == str(unknown.value)
    with pytest.raises(Problem) as invalid:
        await shared_client.send((await shared_client.begin()).id, " ")
    assert (invalid.value.code, invalid.value.field) == ("invalid_field", "text")
    with pytest.raises(Problem) as gone:
        async for _ in shared_client.follow("unknown"):
            pass
    assert gone.value.code == "unknown_session"


async def test_an_unreachable_server_is_one_error_with_a_remedy() -> None:
    with socket.socket() as held:  # a port without a listener
        held.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with Client(nowhere) as client:
            for ask in (client.sessions(), anext(aiter(client.follow("x")))):
                with pytest.raises(Unreachable, match=f"no server answers at {nowhere}: .*stellwerk serve") as error:
                    await ask
                assert error.value.code == "unreachable"
    for wrong in ("nonsense", "ftp://127.0.0.1", "http://"):
        async with Client(wrong) as client:
            with pytest.raises(Unreachable):
                await client.sessions()


@pytest.mark.requirement("002.replay.no-duplicates")
async def test_a_broken_connection_gives_each_event_once(shared_address: str, shared_client: Client) -> None:
    session = await shared_client.begin()
    whole = [event.data for event in await run_of(shared_client, session.id, "delegate")]
    # The first attempt must succeed, so the line holds until the answer has begun.
    cuts = iter([2222, 1, 40, 200, 333, 500, 777, 1024, 1500, 2222, 3000, 4001, 5555, 7000])
    async with cutting(shared_address, cuts) as broken, Client(broken, first_pause=0.001) as client:
        async with asyncio.timeout(PATIENCE):
            received = [event.data async for event in client.follow(session.id, until="run_end")]
    assert [one["position"] for one in received] == [one["position"] for one in whole]
    assert [_bare(one) for one in received] == [_bare(one) for one in whole]


def _bare(event: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in event.items() if name != "origin"}


async def test_following_goes_on_when_the_server_was_restarted(tmp_path: Path) -> None:
    settings, received, losses = Settings(data=tmp_path), list[Event](), list[str]()
    once, lost = asyncio.Event(), asyncio.Event()

    def note(error: Problem | Unreachable) -> None:
        losses.append(error.code)
        lost.set()

    async def listen(client: Client, session_id: str) -> None:
        async with aclosing(client.follow(session_id, profile="debug", lost=note)) as stream:
            async for event in stream:
                received.append(event)
                if event.type == "run_end" and once.is_set():
                    return
                if event.type == "run_end":
                    once.set()

    async with running_server(settings) as address:
        client = Client(address)
        session = await client.begin()
        listening = asyncio.create_task(listen(client, session.id))
        await client.send(session.id, "hello")
        async with asyncio.timeout(PATIENCE):
            await once.wait()
    async with asyncio.timeout(PATIENCE):
        await lost.wait()
    async with running_server(settings, port=int(address.rpartition(":")[2])):
        await client.send(session.id, "again")
        async with asyncio.timeout(PATIENCE):
            await listening
        await client.close()
    assert [event.position for event in received] == list(range(1, len(received) + 1))
    assert [event.type for event in received].count("run_end") == 2
    assert set(losses) == {"unreachable"}


async def test_following_an_idle_session_until_the_end_of_a_run_does_not_wait(shared_client: Client) -> None:
    session = await shared_client.begin()
    async with asyncio.timeout(PATIENCE):
        assert [event async for event in shared_client.follow(session.id, until="run_end")] == []
        received = await run_of(shared_client, session.id, "hello")
        after = received[-1].position
        assert [event async for event in shared_client.follow(session.id, after=after, until="run_end")] == []


async def test_following_ends_with_the_session(shared_client: Client) -> None:
    session = await shared_client.begin()
    await shared_client.send(session.id, "hello")
    with pytest.raises(Problem) as gone:
        async with asyncio.timeout(PATIENCE):
            async for event in shared_client.follow(session.id):
                if event.type == "run_end":
                    await shared_client.delete(session.id)
    assert gone.value.code == "unknown_session"


def test_the_client_brings_neither_the_server_nor_a_framework() -> None:
    heavy = ("langchain", "langchain_core", "langgraph", "fastapi", "starlette", "uvicorn", "stellwerk.runs")
    probe = (
        f"import sys, stellwerk; stellwerk.Client; sys.exit(','.join(n for n in {heavy!r} if n in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
