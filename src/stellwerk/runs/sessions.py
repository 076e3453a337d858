"""Sessions: create, list, send messages, answer questions, stop, fork and delete.

A command reads all it depends on in one trip to the database. The transaction
that accepts the command checks again whatever may have changed since.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict, Unpack
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from stellwerk.agents.runtime.conversation import NO_PARAMETERS, RunParameters, Turn
from stellwerk.database.port import Row, Transaction
from stellwerk.documents.store import Document
from stellwerk.envelope.model import AskUser, decode
from stellwerk.envelope.payloads import Answered, FilePart, StopAsked
from stellwerk.ids import Clock, SortableIds, digest_id
from stellwerk.log.log import CreateSession
from stellwerk.log.transactions import unknown_session
from stellwerk.runs.commands import (
    Accepted,
    DelayedRun,
    IfBusy,
    InputRequest,
    Regenerate,
    Reply,
    Send,
    SendOptions,
    Stop,
    Stopped,
    Withdrawn,
    send_request,
)
from stellwerk.runs.fork import Fork, fork_many
from stellwerk.runs.inbox import Withdraw, withdraw_many
from stellwerk.runs.look_up import (
    SessionContext,
    files_of,
    known_files,
    look_up,
    session_context,
)
from stellwerk.runs.run_info import RunInfo, find_run, list_runs
from stellwerk.runs.scheduler import Scheduler, SessionStorage
from stellwerk.runs.session_defaults import ChangeDefaults, change_defaults_many, encoded_defaults, stored_defaults
from stellwerk.runs.systems import Systems
from stellwerk.spec.model import ChatMessage
from stellwerk.tenants.audit import without_audit
from stellwerk.threads import in_thread
from stellwerk.views.questions import answers_to, check_answer, decided
from stellwerk.views.status import State, Status
from stellwerk.views.transcript import title


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it, with its status."""

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
    config: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """For its messages, unless they have their own; not in lists."""
    context: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    start_at: float | msgspec.UnsetType = msgspec.UNSET
    """When its run starts, at the earliest, as long as that is delayed."""


class SessionOptions(TypedDict, total=False):
    """Of a new session: an id that the caller derived from something else, and what it is used for."""

    session_id: str
    is_workflow: bool
    is_ephemeral: bool


class Sessions:
    def __init__(
        self, storage: SessionStorage, systems: Systems, scheduler: Scheduler, clock: Clock, ids: SortableIds
    ) -> None:
        self._database = storage.database
        self._log = storage.log
        self._storage = storage
        self._systems = systems
        self._scheduler = scheduler
        self._clock = clock
        self._ids = ids
        self._sending: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def begin(
        self,
        tenant: str,
        system: str,
        user: str | None,
        *,
        defaults: RunParameters = NO_PARAMETERS,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Create a session; ``defaults`` are config and context for its messages.

        Raises:
            Conflict: a session has this id, or had it before it was deleted.
            InvalidField: they do not fit the graph.
            MissingSecret: they refer to a secret that is not stored.
        """
        version = await self._systems.newest(tenant, system)
        if not defaults.is_empty:
            agent = await self._systems.agent(tenant, system, version)
            await agent.check_given(defaults)
        stored = await self._log.redacted(tenant, defaults)
        at = self._clock.now()
        new = CreateSession(
            tenant=tenant,
            session_id=options.get("session_id") or self._ids.new(),
            system=system,
            created_at=at,
            user=user,
            is_workflow=options.get("is_workflow", False),
            defaults=encoded_defaults(stored),
            is_ephemeral=options.get("is_ephemeral", False),
        )
        await self._log.create(new)
        return _session((new.session_id, system, user, at, at, 0, None, None, None), stored)

    async def change(self, tenant: str, session_id: str, **changes: Any) -> Session:
        """Replace ``config`` or ``context`` of a session; None removes it. Raises like ``begin``."""
        head = await self._log.head(tenant, session_id)
        given = RunParameters(**changes)
        if not given.is_empty:
            newest = await self._database.read(lambda tx: self._systems.newest_version(tx, tenant, head.system))
            version = await self._systems.usable(tenant, head.system, newest)
            agent = await self._systems.agent(tenant, head.system, version)
            await agent.check_given(given)
        clean = await self._log.redacted(tenant, given)
        parts = {name: getattr(clean, name) for name in changes}
        change = ChangeDefaults(tenant=tenant, session_id=session_id, **parts)
        await self._database.submit(change_defaults_many, change)
        return await self.find(tenant, session_id, titled=True)

    async def check(self, tenant: str, turn: Turn, documents: Sequence[str], *, system: str | None) -> None:
        """Check a message that is sent later, to a session or, with a ``system``, as the first of a new one.

        Raises like ``send``, whatever the session is doing now.
        """
        request = InputRequest(tenant, turn.session_id, None, "", documents)
        version = None if system is None else await self._systems.newest(tenant, system)

        def read(tx: Transaction) -> SessionContext | None:
            if system is None:
                return session_context(tx, request=request, newest_version=self._systems.newest_version)
            return SessionContext(system, turn.user_id, version, Status(), files_of(tx, request), (), NO_PARAMETERS)

        found = await self._database.read(read)
        if found is None:
            raise unknown_session(turn.session_id)
        await self._checked(request, found, turn.text, turn.parameters)

    async def delayed(self, tenant: str, *, limit: int) -> list[DelayedRun]:
        """Runs that start later, the next one first."""
        now = self._clock.now()
        rows = await self._database.read(lambda tx: tx.rows("delayed_runs", tenant, now, limit))
        return [
            DelayedRun(
                run_id=run_id, session_id=sid, agent_system_id=system, start_at=start_at, accepted_at=accepted_at
            )
            for run_id, sid, system, start_at, accepted_at in rows
        ]

    async def send(
        self,
        tenant: str,
        session_id: str,
        text: str,
        *,
        parameters: RunParameters = NO_PARAMETERS,
        **options: Unpack[SendOptions],
    ) -> Accepted:
        """Send a user's message; ``documents`` are ids of uploaded files.

        While exactly one question is open, the message is its answer, unless it has parameters.

        Raises:
            InvalidField: text or parameters do not fit the graph.
            MissingSecret: the parameters refer to a secret that is not stored.
            Conflict: the session has another message with this id, or the round cannot be replaced.
        """
        request = send_request(tenant, session_id, text, parameters, options)
        async with self._once(request):
            return await self._send(request, text, options.get("if_busy", "reject"), parameters=parameters)

    def _once(self, request: InputRequest) -> asyncio.Lock:
        """The same request twice at once: the second must not interrupt the run of the first."""
        lock = asyncio.Lock()
        if request.key is None:
            return lock
        return self._sending.setdefault((request.tenant, request.session_id, request.key), lock)

    async def send_conversation(
        self,
        tenant: str,
        session_id: str,
        messages: Sequence[ChatMessage],
        *,
        parameters: RunParameters = NO_PARAMETERS,
        **options: Unpack[SendOptions],
    ) -> Accepted:
        """Send the first message of a session, together with the messages from before it.

        There may be none if the parameters have an input.
        """
        text = messages[-1].content if messages else ""
        # As of the last message alone, which is what a retry may send.
        request = send_request(tenant, session_id, text, parameters, options)
        async with self._once(request):
            return await self._send(request, text, "reject", messages[:-1], parameters)

    async def _send(
        self,
        request: InputRequest,
        text: str,
        if_busy: IfBusy,
        earlier: Sequence[ChatMessage] = (),
        parameters: RunParameters = NO_PARAMETERS,
    ) -> Accepted:
        tenant = request.tenant
        found = await self._look_up(request)
        if isinstance(found, Accepted):
            return found
        status = found.status
        is_asked = len(status.open_asks) == 1 and status.awaiting_user_input
        is_answer = parameters.is_empty and request.options.start_at is None and request.replaces is None
        if is_asked and if_busy == "reject" and is_answer:
            (cleaned,) = await self._log.cleaned(tenant, text)
            answer = Answered(ask_id=status.open_asks[0], text=cleaned or None)
            return await self._reply(request, found, answer)
        version, files, given = await self._checked(request, found, text, parameters)
        withdrawn = await self._interrupt(request, status, if_busy)
        cleaned, *contents = await self._log.cleaned(tenant, text, *(said.content for said in earlier))
        clean_earlier = [
            ChatMessage(role=said.role, content=content) for said, content in zip(earlier, contents, strict=True)
        ]
        send = Send(
            **self._common(request, found),
            system_version=version,
            documents=files,
            text=cleaned,
            message_id=request.message_id or self._ids.new(),
            is_clients_id=request.message_id is not None,
            if_busy=if_busy,
            parameters=await self._log.redacted(tenant, given),
            earlier=clean_earlier,
            withdrawn=withdrawn,
            replaces=request.replaces,
        )
        return await self._scheduler.accept(send)

    async def _interrupt(self, request: InputRequest, status: Status, if_busy: IfBusy) -> Sequence[Withdrawn]:
        """Stop the round under way if the command interrupts it; the messages that this withdrew."""
        if if_busy != "interrupt" or status.status != "running":
            return ()
        with without_audit():  # the command has the entry
            stopped = await self.stop(request.tenant, request.session_id)
        return stopped.withdrawn or ()

    async def _checked(
        self, request: InputRequest, found: SessionContext, text: str, parameters: RunParameters
    ) -> tuple[int, list[Document], RunParameters]:
        """The version, files and parameters of a message that fits its graph."""
        version = await self._systems.usable(request.tenant, found.system, found.version)
        files = known_files(request, found)
        agent = await self._systems.agent(request.tenant, found.system, version)
        parts = [FilePart(document_id=file.document_id, filename=file.filename, mime=file.mime) for file in files]
        given = parameters.over(found.defaults)
        turn = Turn(request.session_id, user_id=found.user, text=text, files=parts, parameters=given)
        await agent.check(turn)
        return version, files, given

    def _common(self, request: InputRequest, found: SessionContext) -> dict[str, Any]:
        return {
            "tenant": request.tenant,
            "session_id": request.session_id,
            "run_id": self._ids.new(),
            "at": self._clock.now(),
            "system": found.system,
            "key": request.key,
            "request": request.digest,
            "options": request.options,
        }

    async def answer(
        self, tenant: str, session_id: str, answer: Answered, *, documents: Sequence[str] = (), key: str | None = None
    ) -> Accepted:
        """Answer an open question; one without ask_id answers the only one.

        Raises:
            Conflict: no question is open, or several are and ask_id is missing.
            InvalidField: the answer does not fit the question, which stays open.
        """
        digest = digest_id(msgspec.json.encode(answer).decode(), *documents)
        request = InputRequest(tenant, session_id, key, digest, documents)
        found = await self._look_up(request)
        return found if isinstance(found, Accepted) else await self._reply(request, found, answer)

    async def _reply(self, request: InputRequest, found: SessionContext, answer: Answered) -> Accepted:
        status = found.status
        open_asks = status.open_asks if status.awaiting_user_input else ()
        questions = {e.payload.ask_id: e for e in map(decode, found.asked) if isinstance(e, AskUser)}
        asked = {ask_id: question.payload for ask_id, question in questions.items()}
        if not answer.ask_id and len(open_asks) == 1:
            answer = replace(answer, ask_id=open_asks[0])
        answers = answers_to([asked[ask_id] for ask_id in open_asks], answer)
        is_open = all(each.ask_id in open_asks for each in answers)
        if is_open:
            for each in answers:
                check_answer(asked[each.ask_id], each)
            answers = [decided(asked[each.ask_id], each) for each in answers]
        first, *others = [await self._log.redacted(request.tenant, each) for each in answers]
        reply = Reply(
            **self._common(request, found),
            answer=first,
            others=others,
            seqs={each.ask_id: questions[each.ask_id].seq for each in answers if each.ask_id in questions},
            documents=known_files(request, found),
            is_checked=is_open,
        )
        return await self._scheduler.accept(reply)

    async def regenerate(
        self,
        tenant: str,
        session_id: str,
        *,
        run_id: str | None = None,
        if_busy: IfBusy = "reject",
        key: str | None = None,
    ) -> Accepted:
        """Answer the message of a run once more, in a round that replaces that round and all later ones.

        Without a run, that of the last round.
        """
        digest = "regenerate" if run_id is None else digest_id("regenerate", run_id)
        request = InputRequest(tenant, session_id, key, digest, replaces=run_id, keeps_message=True)
        async with self._once(request):
            found = await self._look_up(request)
            if isinstance(found, Accepted):
                return found
            version = await self._systems.usable(tenant, found.system, found.version)
            withdrawn = await self._interrupt(request, found.status, if_busy)
            common = self._common(request, found)
            command = Regenerate(**common, system_version=version, replaces=run_id, withdrawn=withdrawn)
            return await self._scheduler.accept(command)

    async def _look_up(self, request: InputRequest) -> SessionContext | Accepted:
        """Read all that a command depends on; or the answer, if the same request came before.

        The answer comes first: a repeated request must not be judged by its own effects, such as
        the question it led to or the limit it reached.

        Raises:
            LimitReached: the tenant or the session has used up a quota.
            NotFound: there is no such session.
        """
        limits = self._storage.quotas.limits(request.tenant)
        read = partial(look_up, request=request, limits=limits, newest_version=self._systems.newest_version)
        found = await self._database.read(read)
        if isinstance(found, Accepted):
            return found
        usage, context = found
        self._storage.quotas.admit(request.tenant, usage)
        if context is None:
            raise unknown_session(request.session_id)
        return context

    async def fork(self, tenant: str, session_id: str, position: int | None) -> Session:
        """Create a session with everything that was said in this one up to the end of a run."""
        new = self._ids.new()
        limits = self._storage.quotas.limits(tenant)
        fork = Fork(tenant, session_id, new, position, self._clock.now(), limits)
        await self._database.submit(fork_many, fork)
        return await self.find(tenant, new, titled=True)

    async def stop(self, tenant: str, session_id: str, *, reason: str | None = None) -> Stopped:
        head = await self._log.head(tenant, session_id)
        stop = Stop(
            tenant=tenant,
            session_id=session_id,
            run_id=self._ids.new(),
            at=self._clock.now(),
            system=head.system,
            asked=await self._log.redacted(tenant, StopAsked(by="user", reason=reason)),
        )
        return await self._scheduler.stop(stop)

    async def withdraw(self, tenant: str, session_id: str, *, message_id: str = "", run_id: str = "") -> Withdrawn:
        """Withdraw one enqueued message, by its id or by that of the run that it would start.

        Raises:
            Conflict: it is not waiting any more.
            NotFound: there is no such session, message or run.
        """
        item = Withdraw(
            tenant=tenant, session_id=session_id, at=self._clock.now(), message_id=message_id, run_id=run_id
        )
        return (await self._log.commit(withdraw_many, item, session_id, lambda done: done.stored)).withdrawn

    async def run(self, tenant: str, session_id: str, run_id: str) -> RunInfo:
        """Raises NotFound if there is no such session, or no such run in it."""
        return await self._database.read(lambda tx: find_run(tx, tenant, session_id, run_id))

    async def runs(self, tenant: str, session_id: str, *, limit: int = 20, offset: int = 0) -> list[RunInfo]:
        """The runs of a session, the newest first; enqueued messages come before all others."""
        return await self._database.read(lambda tx: list_runs(tx, tenant, session_id, limit=limit, offset=offset))

    async def find(self, tenant: str, session_id: str, *, titled: bool = False) -> Session:
        statement = "session_shown" if titled else "session_standing"  # only the log has the title

        def read(tx: Transaction) -> Session:
            row = tx.row(statement, session_id, tenant)
            if row is None:
                raise unknown_session(session_id)
            return _session(row, stored_defaults(tx, tenant, session_id))

        return await self._database.read(read)

    async def list(self, tenant: str, *, before: tuple[float, str] | None, limit: int) -> list[Session]:
        """Latest activity first; ``before`` is the activity and id of the last one seen."""
        cursor = before or (float("inf"), "")
        rows = await self._database.read(lambda tx: tx.rows("standings", tenant, *cursor, limit))
        return [_session(row) for row in rows]

    async def delete(self, tenant: str, session_id: str, *, position: int | None = None) -> None:
        """With a ``position``, only if the log still ends there."""
        system = (await self._log.head(tenant, session_id)).system
        # The rows first: that fences the driver, and a delete that is rejected harms no run.
        # On the writer, right before: none comes in between.
        documents = self._storage.documents.of(tenant, session_id)
        try:
            await self._log.delete(tenant, session_id, at=self._clock.now(), position=position)
        finally:
            left = await documents
        await self._scheduler.abandon(session_id)
        await self._storage.documents.release(tenant, left)
        folders = await self._systems.checklist_folders(tenant, system)
        await in_thread(self._storage.todolists.remove, folders, session_id)


def _session(row: Row, defaults: RunParameters = NO_PARAMETERS) -> Session:
    session_id, system, user, created_at, last_activity_at, position, state, first, start_at = row
    status = Status() if state is None else msgspec.json.decode(state, type=Status)
    return Session(
        id=session_id,
        sid=session_id,
        agent_system_id=system,
        title=None if first is None else title(first),
        user_id=msgspec.UNSET if user is None else user,
        created_at=created_at,
        last_activity_at=last_activity_at,
        position=position,
        status=status.status,
        round=status.round,
        awaiting_user_input=status.awaiting_user_input,
        config=msgspec.UNSET if defaults.config is None else defaults.config,
        context=msgspec.UNSET if defaults.context is None else defaults.context,
        start_at=msgspec.UNSET if start_at is None else start_at,
    )
