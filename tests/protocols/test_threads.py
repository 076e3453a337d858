"""Sessions under ids of clients: one id is one session, and unknown and foreign ids look the same."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.services import Services
from stellwerk.errors import Conflict, InvalidField, NotFound
from stellwerk.protocols.threads import OpenThread, find_thread, open_thread
from stellwerk.tenants.principals import LOCAL, LOCAL_TENANT, Principal
from tests.runs.in_process import InProcessServer

OTHER = Principal("other", role="admin", user=None)


@pytest.fixture
async def services(backend: InProcessServer) -> AsyncIterator[Services]:
    await backend.services.credentials.tenants.make("other")
    yield backend.services


async def opened(services: Services, thread_id: str | None, system: str = "backend") -> OpenThread:
    async with open_thread(services, LOCAL, thread_id, system) as thread:
        return thread


async def test_the_first_use_of_an_id_begins_a_session_and_later_uses_find_it(services: Services) -> None:
    first = await opened(services, "chat 1")
    again = await opened(services, "chat 1")
    assert (first.is_new, again.is_new) == (True, False)
    assert first.session.id == again.session.id == (await find_thread(services, LOCAL, "chat 1")).session.id


async def test_many_first_uses_at_once_begin_one_session(services: Services) -> None:
    found = await asyncio.gather(*(opened(services, "chat 1") for _ in range(20)))
    assert len({thread.session.id for thread in found}) == 1
    assert sum(thread.is_new for thread in found) == 1
    assert len(await services.sessions.list(LOCAL_TENANT, before=None, limit=10)) == 1


async def test_the_id_of_a_session_is_the_id_of_a_thread(services: Services) -> None:
    native = await services.sessions.begin(LOCAL_TENANT, "backend", None)
    found = await find_thread(services, LOCAL, native.id)
    assert (found.thread.id, found.session.id) == (native.id, native.id)
    named = await opened(services, "chat 1")
    assert (await find_thread(services, LOCAL, named.session.id)).thread.id == "chat 1"


async def test_an_unknown_id_and_that_of_another_tenant_look_the_same(services: Services) -> None:
    await opened(services, "chat 1")
    for thread_id in ("chat 1", "chat 2"):
        with pytest.raises(NotFound) as error:
            await find_thread(services, OTHER, thread_id)
        assert error.value.message.replace(thread_id, "…") == (
            "there is no thread '…'; the first message to a new id begins one"
        )
    theirs, _ = await services.threads.create("other", "chat 1")
    assert theirs.session_id != (await find_thread(services, LOCAL, "chat 1")).session.id


async def test_a_thread_may_be_created_before_it_has_a_session(services: Services) -> None:
    created = await services.threads.create(LOCAL_TENANT, "chat 1", {"graph_id": "backend"})
    again = await services.threads.create(LOCAL_TENANT, "chat 1", {"graph_id": "other"})
    assert (created.is_new, again.is_new) == (True, False)
    assert again.thread == created.thread
    assert [thread.id for thread in await services.threads.without_session(LOCAL_TENANT, limit=10)] == ["chat 1"]
    with pytest.raises(NotFound):
        await find_thread(services, LOCAL, "chat 1")
    assert (await opened(services, "chat 1")).session.id == created.thread.session_id
    assert await services.threads.without_session(LOCAL_TENANT, limit=10) == []


async def test_a_session_whose_first_message_is_refused_is_not_kept(services: Services) -> None:
    with pytest.raises(InvalidField):
        async with open_thread(services, LOCAL, "chat 1", "backend"):
            raise InvalidField("text: this must not be empty", field="text")
    assert await services.sessions.list(LOCAL_TENANT, before=None, limit=10) == []
    assert (await opened(services, "chat 1")).is_new


async def test_a_thread_keeps_its_agent_system(services: Services) -> None:
    await opened(services, "chat 1")
    with pytest.raises(NotFound, match="agent system"):
        await opened(services, "chat 2", "nowhere")
    with pytest.raises(NotFound, match="thread"):
        await find_thread(services, LOCAL, "chat 2")


async def test_a_deleted_thread_can_be_begun_again(services: Services) -> None:
    first = await opened(services, "chat 1")
    await services.sessions.delete(LOCAL_TENANT, first.session.id)
    again = await opened(services, "chat 1")
    assert again.is_new
    assert again.session.id != first.session.id


async def test_metadata_is_merged_and_bounded(services: Services) -> None:
    native = await services.sessions.begin(LOCAL_TENANT, "backend", None)
    await services.threads.change_metadata(LOCAL_TENANT, native.id, {"title": "one", "starred": True})
    changed = await services.threads.change_metadata(LOCAL_TENANT, native.id, {"title": "two"})
    assert changed.metadata == {"title": "two", "starred": True}
    assert changed == (await find_thread(services, LOCAL, native.id)).thread
    with pytest.raises(InvalidField, match="32 KiB"):
        await services.threads.change_metadata(LOCAL_TENANT, native.id, {"title": "x" * 40_000})
    assert await services.threads.of_sessions(LOCAL_TENANT, [native.id]) == {native.id: changed}
    with pytest.raises(NotFound):
        await services.threads.change_metadata("other", native.id, {"title": "theirs"})


@pytest.mark.parametrize("thread_id", ["", "x" * 201, "a\nb", "a\x00b"])
async def test_an_id_that_cannot_be_shown_is_refused(services: Services, thread_id: str) -> None:
    with pytest.raises(InvalidField, match="1 to 200 printable characters"):
        await opened(services, thread_id)


async def test_a_thread_of_another_agent_system_is_a_conflict(services: Services) -> None:
    agent = "{id: a, model: {provider: scripted, script: [{steps: [{say: hello}]}]}}"
    text = f"version: 1\nsystem: {{name: second}}\nagents: [{agent}]\n"
    await services.systems.give(await services.systems.prepare(text, source="second.yaml"))
    await opened(services, "chat 1")
    with pytest.raises(Conflict, match="begin another thread"):
        await opened(services, "chat 1", "second")
