"""Sessions under the ids of clients: found, or begun with the first message."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypedDict, Unpack

from stellwerk.api.http.auth import on_behalf
from stellwerk.api.services import Services
from stellwerk.errors import Conflict, NotFound, StellwerkError
from stellwerk.log.transactions import Overtaken
from stellwerk.runs.client_threads import Thread, unknown_thread
from stellwerk.runs.sessions import Session
from stellwerk.tenants.audit import about, without_audit
from stellwerk.tenants.principals import Principal


class OpenThread(NamedTuple):
    thread: Thread
    session: Session
    is_new: bool
    """The session was begun by this request."""


async def find_thread(services: Services, who: Principal, thread_id: str) -> OpenThread:
    """
    Raises:
        NotFound: there is no such thread, or nothing has been sent to it yet.
    """
    thread = await services.threads.find(who.tenant, thread_id)
    session = await find_session(services, who, thread)
    if session is None:
        raise unknown_thread(thread_id)
    return OpenThread(thread, session, is_new=False)


async def find_session(services: Services, who: Principal, thread: Thread) -> Session | None:
    """The session of a thread; None if nothing has been sent to it yet."""
    try:
        return await services.sessions.find(who.tenant, thread.session_id)
    except NotFound:
        return None


class ThreadOptions(TypedDict, total=False):
    """Of a thread and a session that are begun."""

    user: str | None
    metadata: Mapping[str, Any] | None
    is_ephemeral: bool


@asynccontextmanager
async def open_thread(
    services: Services, who: Principal, thread_id: str | None, system: str, **options: Unpack[ThreadOptions]
) -> AsyncIterator[OpenThread]:
    """The thread with its session; both are begun if they do not exist.

    What was begun is deleted again if the first message, which is sent inside the block, is
    refused. Without an id, the thread has that of its session.

    Raises:
        Conflict: the session has another agent system.
        NotFound: there is no such agent system.
    """
    await services.systems.newest(who.tenant, system)
    with without_audit():  # what counts is that the first message is accepted
        thread, is_new_thread = await services.threads.create(who.tenant, thread_id, options.get("metadata"))
        opened = await _begun(services, who, thread, system, options)
    about(sid=opened.session.id)
    try:
        yield opened
    except StellwerkError:
        if opened.is_new:
            with without_audit(), suppress(Overtaken, NotFound):  # another first message was accepted meanwhile
                await services.sessions.delete(who.tenant, opened.session.id, position=0)
                if not is_new_thread:  # it went with its session, but was created before
                    await services.threads.create(who.tenant, thread.id, thread.metadata)
        raise


async def _begun(services: Services, who: Principal, thread: Thread, system: str, options: ThreadOptions) -> OpenThread:
    session = await find_session(services, who, thread)
    if session is not None:
        return OpenThread(thread, _of(session, system), is_new=False)
    user, is_ephemeral = on_behalf(who, options.get("user")), options.get("is_ephemeral", False)
    try:
        session = await services.sessions.begin(
            who.tenant, system, user, session_id=thread.session_id, is_ephemeral=is_ephemeral
        )
    except Conflict:  # another first message was faster
        session = await services.sessions.find(who.tenant, thread.session_id)
        return OpenThread(thread, _of(session, system), is_new=False)
    return OpenThread(thread, session, is_new=True)


def _of(session: Session, system: str) -> Session:
    if session.agent_system_id != system:
        said = f"this thread is a session of the agent system {session.agent_system_id!r}, not of {system!r}"
        raise Conflict(f"{said}; begin another thread, or name that system", code="other_system")
    return session
