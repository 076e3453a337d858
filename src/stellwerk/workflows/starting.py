"""Start a workflow, or go on with one: a prompt and files become a session's message, or the answer it waits for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from stellwerk.database.port import Database
from stellwerk.documents.numbers import FileNumbers
from stellwerk.documents.store import unknown_file
from stellwerk.envelope.canonical import clean_text
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import Conflict, InvalidField, SpecError, StellwerkError
from stellwerk.ids import ID_LENGTH
from stellwerk.runs.commands import Accepted, Input
from stellwerk.runs.sessions import Sessions
from stellwerk.runs.tables import standing
from stellwerk.systems.registry import Systems
from stellwerk.tenants.audited import about, unrecorded
from stellwerk.views.status import Status
from stellwerk.workflows.folds import unknown_workflow

BUSY = "session_busy"
_OFFICE, _DEMO = "office", "demo"
_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a client wants to have worked on."""

    prompt: str
    files: Sequence[int | str] = ()
    """Numbers of files, or their ids, which messages show with ``doc_`` in front."""
    workflow_id: str | None = None
    """Of the one to go on with; None for a new one."""
    system: str | None = None
    user: str | None = None


class Started(Struct, frozen=True, kw_only=True, rename="camel"):
    """It is under way."""

    id: str
    status: str = "running"
    current_round: int


@dataclass
class Starting:
    database: Database
    sessions: Sessions
    systems: Systems
    numbers: FileNumbers
    _kinds: dict[str, dict[tuple[str, int], str | None]] = field(default_factory=dict)
    """For each tenant, of the systems that it had when this was last asked."""

    async def start(self, tenant: str, wish: Wish) -> tuple[Started, list[str]]:
        """Also the ids of its files.

        Raises:
            NotFound: no such workflow, agent system or file.
            Conflict: it is at work.
        """
        documents = await self._documents(tenant, wish.files)
        if wish.workflow_id is not None:
            about(workflow_id=wish.workflow_id)
            accepted = await self._go_on(tenant, wish.workflow_id, wish, documents)
            return Started(id=wish.workflow_id, current_round=accepted.round), documents
        system = wish.system or await self._default_system(tenant)
        with unrecorded():  # what counts is that its first message is accepted
            session = await self.sessions.begin(tenant, system, wish.user, is_workflow=True)
        about(made=session.id)
        try:
            said = Input(text=wish.prompt, documents=documents)
            accepted = await self.sessions.send(tenant, session.id, said)
        except StellwerkError:
            with unrecorded():
                await self.sessions.delete(tenant, session.id)  # no client knows its id
            raise
        return Started(id=session.id, current_round=accepted.round), documents

    async def _go_on(self, tenant: str, workflow_id: str, wish: Wish, documents: Sequence[str]) -> Accepted:
        session = await self.sessions.find(tenant, workflow_id)
        if wish.system not in (None, session.agent_system_id):
            told = f"agentSystemId: this workflow belongs to {session.agent_system_id!r}; leave it out"
            raise InvalidField(told, field="agentSystemId")
        status = await self.database.read(lambda tx: standing(tx, tenant, workflow_id))
        if status.status == "idle":  # nothing was said in it: a session, and no workflow
            raise unknown_workflow(workflow_id)
        try:
            return await self._said(tenant, workflow_id, wish, documents, status)
        except Conflict as error:
            raise still_working(workflow_id) if error.code == BUSY else error from None

    async def _said(
        self, tenant: str, workflow_id: str, wish: Wish, documents: Sequence[str], status: Status
    ) -> Accepted:
        if status.awaiting_user_input and len(status.open_asks) > 1:  # the others stay open, and are asked for next
            answer = Answered(ask_id=status.open_asks[0], text=clean_text(wish.prompt))
            return await self.sessions.answer(tenant, workflow_id, answer, documents=documents)
        return await self.sessions.send(tenant, workflow_id, Input(text=wish.prompt, documents=documents))

    async def _documents(self, tenant: str, files: Sequence[int | str]) -> list[str]:
        named = [int(file) if _is_number(str(file)) else str(file).removeprefix("doc_") for file in files]
        numbers = [file for file in named if isinstance(file, int)]
        known = await self.numbers.documents(tenant, numbers) if numbers else {}
        for number in numbers:
            if number not in known:
                raise unknown_file(str(number))
        return [known[file] if isinstance(file, int) else file for file in named]

    async def _default_system(self, tenant: str) -> str:
        """The office; without one, the first that works by plan; without any, the demo."""
        after, names = "", list[tuple[str, int]]()
        while page := await self.systems.list(tenant, after=after, limit=_PAGE):
            names += [(each.id, each.version) for each in page]
            after = page[-1].id
        if any(name == _OFFICE for name, _ in names):
            return _OFFICE
        known = self._kinds.get(tenant, {})
        kinds = self._kinds[tenant] = {each: known[each] for each in names if each in known}
        for each in names:
            if each not in kinds:
                kinds[each] = await self._kind(tenant, each[0])
            if kinds[each] == "workplan":
                return each[0]
        return _DEMO

    async def _kind(self, tenant: str, name: str) -> str | None:
        try:
            return (await self.systems.describe(tenant, name)).resolved.root.kind
        except SpecError:  # of an older server, which took what this one refuses
            return None


def still_working(workflow_id: str) -> Conflict:
    place = f"/api/workflows/{workflow_id}"
    remedy = f"ask {place}/status until it is over, or stop it by POST {place}/stop, and send this again"
    return Conflict(f"the workflow is at work; {remedy}", code=BUSY)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < ID_LENGTH
