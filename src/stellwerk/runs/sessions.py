"""Sessions: begun, listed, looked at, sent to, answered, stopped, forked, deleted."""

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from stellwerk.documents.store import Document, unknown_file
from stellwerk.envelope.model import AskUser, decode
from stellwerk.envelope.payloads import Answered, StopAsked
from stellwerk.ids import Clock, IdSource, digest_id
from stellwerk.log.log import Head, NewSession
from stellwerk.log.tables import unknown_session
from stellwerk.runs.commands import Accepted, Input, Regenerate, Reply, Send, Stop, Stopped, Withdrawn
from stellwerk.runs.dispatch import Dispatch
from stellwerk.runs.forking import Fork, fork_many
from stellwerk.runs.intake import recalled
from stellwerk.runs.stores import Stores
from stellwerk.runs.tables import standing
from stellwerk.spec.chat import ChatMessage
from stellwerk.systems.registry import Systems
from stellwerk.tenants.audited import unrecorded
from stellwerk.threads import in_thread
from stellwerk.views.answering import check_answer
from stellwerk.views.status import State, Status
from stellwerk.views.transcript import title


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it: what it is, and where it stands."""

    id: str
    sid: str
    agent_system_id: str
    title: str | None = None
    user_id: str | msgspec.UnsetType = msgspec.UNSET
    created_at: float
    last_activity_at: float
    position: int
    status: State = "idle"
    round: int = 0
    awaiting_user_input: bool = False


class Sessions:
    def __init__(self, stores: Stores, systems: Systems, dispatch: Dispatch, clock: Clock, ids: IdSource) -> None:
        self._database, self._log, self._documents = stores.database, stores.log, stores.documents
        self._todolists, self._quotas = stores.todolists, stores.quotas
        self._systems, self._dispatch, self._clock, self._ids = systems, dispatch, clock, ids
        self._sending: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def begin(self, tenant: str, system: str, user: str | None, *, is_workflow: bool = False) -> Session:
        await self._systems.newest(tenant, system)
        new = NewSession(tenant, self._ids.new(), system, self._clock.now(), user, is_workflow)
        await self._log.create(new)
        return _session((new.session_id, system, user, new.created_at, new.created_at, 0, None, None))

    async def send(self, tenant: str, session_id: str, said: Input, *, key: str | None = None) -> Accepted:
        """While exactly one question is open, a message is its answer."""
        # One request sent twice at the same time: the second must not stop what the first has begun.
        once = asyncio.Lock() if key is None else self._sending.setdefault((tenant, session_id, key), asyncio.Lock())
        async with once:
            return await self._sent(tenant, session_id, said, key)

    async def _sent(self, tenant: str, session_id: str, said: Input, key: str | None) -> Accepted:
        request = digest_id(said.text, *said.documents)
        if (known := await self._recalled(tenant, session_id, key, request)) is not None:
            return known
        head, status = await self._standing(tenant, session_id)
        if said.if_busy == "reject" and len(status.open_asks) == 1 and status.awaiting_user_input:
            (text,) = await self._log.cleaned(tenant, said.text)
            answer = Answered(ask_id=status.open_asks[0], text=text or None)
            return await self.answer(tenant, session_id, answer, documents=said.documents, key=key, request=request)
        version = await self._systems.current(tenant, head.system)
        documents = await self._found(tenant, said.documents)
        withdrawn: Sequence[Withdrawn] = ()
        if said.if_busy == "interrupt" and status.status == "running":
            with unrecorded():  # it is a part of the message
                stopped = await self.stop(tenant, session_id)
            withdrawn = stopped.withdrawn or ()
        text, *earlier = await self._log.cleaned(tenant, said.text, *(each.content for each in said.earlier))
        send = Send(
            tenant=tenant,
            session_id=session_id,
            text=text,
            documents=documents,
            system=head.system,
            system_version=version,
            run_id=self._ids.new(),
            message_id=self._ids.new(),
            at=self._clock.now(),
            key=key,
            request=request,
            if_busy=said.if_busy,
            earlier=[
                ChatMessage(role=each.role, content=content)
                for each, content in zip(said.earlier, earlier, strict=True)
            ],
            withdrawn=withdrawn,
        )
        return await self._dispatch.send(send)

    async def answer(
        self,
        tenant: str,
        session_id: str,
        answer: Answered,
        *,
        documents: Sequence[str] = (),
        key: str | None = None,
        request: str | None = None,
    ) -> Accepted:
        """Answer an open question; one without ask_id answers the only one.

        Raises:
            Conflict: nothing is asked, or several things are and it is not said which.
            InvalidField: the answer does not fit the question, which stays open.
        """
        request = request or digest_id(msgspec.json.encode(answer).decode(), *documents)
        if (known := await self._recalled(tenant, session_id, key, request)) is not None:
            return known
        head, status = await self._standing(tenant, session_id)
        ask_id = answer.ask_id or (status.open_asks[0] if len(status.open_asks) == 1 else "")
        is_open = status.awaiting_user_input and ask_id in status.open_asks
        if is_open:
            rows = await self._database.read(lambda tx: tx.rows("questions_of", session_id, tenant))
            told = [e.payload for e in (decode(body) for (body,) in rows) if isinstance(e, AskUser)]
            check_answer(next(asked for asked in reversed(told) if asked.ask_id == ask_id), answer)
        reply = Reply(
            tenant=tenant,
            session_id=session_id,
            run_id=self._ids.new(),
            at=self._clock.now(),
            key=key,
            system=head.system,
            answer=await self._log.redacted(tenant, replace(answer, ask_id=ask_id)),
            documents=await self._found(tenant, documents),
            is_checked=is_open,
            request=request,
        )
        return await self._dispatch.reply(reply)

    async def regenerate(self, tenant: str, session_id: str, *, key: str | None = None) -> Accepted:
        """Answer the last message once more, in a round that takes the place of the last."""
        request = "regenerate"
        if (known := await self._recalled(tenant, session_id, key, request)) is not None:
            return known
        head = await self._log.head(tenant, session_id)
        command = Regenerate(
            tenant=tenant,
            session_id=session_id,
            run_id=self._ids.new(),
            at=self._clock.now(),
            key=key,
            request=request,
            system=head.system,
            system_version=await self._systems.current(tenant, head.system),
        )
        return await self._dispatch.regenerate(command)

    async def fork(self, tenant: str, session_id: str, position: int | None) -> Session:
        """Begin another session with all that was said in this one up to the end of a run."""
        new, limits = self._ids.new(), self._quotas.limits(tenant)
        await self._database.submit(fork_many, Fork(tenant, session_id, new, position, self._clock.now(), limits))
        return await self.find(tenant, new, titled=True)

    async def stop(self, tenant: str, session_id: str, *, reason: str | None = None) -> Stopped:
        """End what is under way; nothing happens if nothing is."""
        head = await self._log.head(tenant, session_id)
        stop = Stop(
            tenant=tenant,
            session_id=session_id,
            run_id=self._ids.new(),
            at=self._clock.now(),
            system=head.system,
            asked=await self._log.redacted(tenant, StopAsked(by="user", reason=reason)),
        )
        return await self._dispatch.stop(stop)

    async def _found(self, tenant: str, documents: Sequence[str]) -> list[Document]:
        found = [(each, await self._documents.find(tenant, each)) for each in dict.fromkeys(documents)]
        for document_id, document in found:
            if document is None:
                raise unknown_file(document_id)
        return [document for _, document in found if document is not None]

    async def _recalled(self, tenant: str, session_id: str, key: str | None, request: str) -> Accepted | None:
        """Asked first: what the request led to, such as a question or the limit that it has reached, must not judge it
        when it comes again."""
        known = None
        if key is not None:
            known = await self._database.read(lambda tx: recalled(tx, tenant, session_id, key=key, request=request))
        if known is None:
            await self._quotas.admit(tenant, session_id)
        return known

    async def _standing(self, tenant: str, session_id: str) -> tuple[Head, Status]:
        head = await self._log.head(tenant, session_id)
        return head, await self._database.read(lambda tx: standing(tx, tenant, session_id))

    async def find(self, tenant: str, session_id: str, *, titled: bool = False) -> Session:
        statement = "session_shown" if titled else "session_standing"  # only the log knows the title
        row = await self._database.read(lambda tx: tx.row(statement, session_id, tenant))
        if row is None:
            raise unknown_session(session_id)
        return _session(row)

    async def list(self, tenant: str, *, before: tuple[float, str] | None, limit: int) -> list[Session]:
        """By their last activity, the latest first; ``before`` are that and the id of the last one seen."""
        behind = before or (float("inf"), "")
        rows = await self._database.read(lambda tx: tx.rows("standings", tenant, *behind, limit))
        return [_session(row) for row in rows]

    async def delete(self, tenant: str, session_id: str, *, position: int | None = None) -> None:
        """With a ``position``, only if nothing has happened behind it."""
        system = (await self._log.head(tenant, session_id)).system
        # First the rows: that fences off the driver by itself, and a delete that is refused harms no run.
        documents = self._documents.of(tenant, session_id)  # on the writer, right before: none comes in between
        try:
            await self._log.delete(tenant, session_id, at=self._clock.now(), position=position)
        finally:
            left = await documents
        await self._dispatch.abandon(session_id)
        await self._documents.release(tenant, left)
        folders = await self._systems.checklist_folders(tenant, system)
        await in_thread(self._todolists.remove, folders, session_id)


def _session(row: tuple[Any, ...]) -> Session:
    session_id, system, user, created_at, last_activity_at, position, state, first = row
    standing = Status() if state is None else msgspec.json.decode(state, type=Status)
    return Session(
        id=session_id,
        sid=session_id,
        agent_system_id=system,
        title=None if first is None else title(first),
        user_id=msgspec.UNSET if user is None else user,
        created_at=created_at,
        last_activity_at=last_activity_at,
        position=position,
        status=standing.status,
        round=standing.round,
        awaiting_user_input=standing.awaiting_user_input,
    )
