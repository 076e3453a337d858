"""Tasks in the log: a task is a trace, its id that of the first run, its context a session."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

from stellwerk.api.services import Services
from stellwerk.dialects.a2a import SUBMITTED, TaskTranslator, TaskView
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import RunEnd
from stellwerk.errors import NotFound
from stellwerk.protocols.run_events import envelopes_of_run
from stellwerk.protocols.run_streams import FollowedRun
from stellwerk.runs.run_info import RunInfo
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal

_READ = (
    *("run_start", "message", "user_answer", "llm_start", "llm_token", "llm_end"),
    *("tool_start", "log", "document", "ask_user", "run_end"),
)
_LATEST = 50
"""Runs of a session that are looked through for its tasks."""


class Caller(NamedTuple):
    who: Principal
    system: str
    files: str


@dataclass(slots=True)
class StoredTask:
    """A task, as it is up to a position of the log."""

    services: Services
    caller: Caller
    session: Session
    run: RunInfo
    """Its last run."""
    translator: TaskTranslator
    view: TaskView
    position: int = 0
    """The last one that was read."""

    def shown(self, history: int | None = None) -> Chunk:
        said = self.translator.history
        kept = said if history is None else said[len(said) - min(history, len(said)) :]
        return {**self.view.task, "history": kept}

    async def follow(self, run: FollowedRun) -> AsyncIterator[Chunk | None]:
        """What comes of this run; None when nothing has happened for a while."""
        async for envelope in envelopes_of_run(self.services, run, _READ):
            if envelope is None:
                yield None
                continue
            for chunk in self.translator.feed(0, envelope):
                self.view.apply(chunk)
                yield chunk


async def find_task(services: Services, caller: Caller, task_id: str) -> StoredTask:
    """
    Raises:
        NotFound: there is no such task of this agent system.
    """
    tenant = caller.who.tenant
    row = await services.database.read(lambda tx: tx.row("session_of_run", task_id, tenant))
    if row is None:
        raise unknown_task(task_id)
    session = await services.sessions.find(tenant, row[0])
    if session.agent_system_id != caller.system:
        raise unknown_task(task_id)
    runs = await services.sessions.runs(tenant, session.id, limit=_LATEST)
    of_task = [run for run in runs if run.trace_id == task_id] or [await services.sessions.run(tenant, row[0], task_id)]
    if of_task[-1].trace_id != task_id:
        raise unknown_task(task_id)
    return await read_task(services, caller, session, of_task[0], row[1] - 1)


async def read_task(services: Services, caller: Caller, session: Session, run: RunInfo, after: int) -> StoredTask:
    """The task whose trace begins behind ``after``, up to the end of the log or of its last run."""
    task = await new_task(services, caller, session, run)
    for position, envelope in enumerate(
        await services.log.envelopes(caller.who.tenant, session.id, after=after), after + 1
    ):
        task.position = position
        if envelope.trace_id != run.trace_id:
            continue
        for chunk in task.translator.feed(position, envelope):
            task.view.apply(chunk)
        if isinstance(envelope, RunEnd) and envelope.run_id == run.run_id:
            break
    return task


async def new_task(services: Services, caller: Caller, session: Session, run: RunInfo) -> StoredTask:
    """A task of which nothing has been read; as it is while its message is enqueued."""
    known = await services.threads.of_sessions(caller.who.tenant, [session.id])
    context_id = known[session.id].id if session.id in known else session.id
    translator = TaskTranslator(context_id, caller.files)
    view = TaskView()
    view.apply({"task": {"id": run.run_id, "contextId": context_id, "status": {"state": SUBMITTED}}})
    return StoredTask(services, caller, session, run, translator, view)


def unknown_task(task_id: str) -> NotFound:
    return NotFound("task", task_id, remedy="it was deleted with its session, or never was")
