"""Calls of a graph to the server that it runs in, in the words of LangGraph's SDK (``get_client()`` without a URL).

A thread is a session, an assistant is an agent system. A session belongs to one system, so a run of another assistant
on a thread gets a session of its own beside it, which is found again by both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stellwerk.agents.graphs.parameters import is_reserved, refers_to_secrets
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.agents.runtime.loopback import not_answered
from stellwerk.agents.runtime.session_user import USER_ID
from stellwerk.envelope.to_json import canonical
from stellwerk.errors import InvalidField, NotFound
from stellwerk.ids import Clock, digest_id, random_token
from stellwerk.log.log import Lease
from stellwerk.runs.commands import IfBusy, JobOptions
from stellwerk.runs.graph_states import GraphStates
from stellwerk.runs.sessions import Session, Sessions

_STRATEGIES: Mapping[str, IfBusy] = {
    "reject": "reject",
    "enqueue": "enqueue",
    "interrupt": "interrupt",
    "rollback": "interrupt",
}
_TAKEN = {"assistant_id", "input", "config", "context", "metadata", "multitask_strategy", "after_seconds"}
_WITHOUT_EFFECT = {
    *("stream_mode", "stream_subgraphs", "stream_resumable", "if_not_exists", "on_disconnect", "on_completion"),
    *("durability", "checkpoint_during", "strict_resume", "langsmith_tracer"),
}
_STATUS = {"idle": "idle", "running": "busy", "completed": "idle", "stopped": "idle", "failed": "error"}


@dataclass(frozen=True, slots=True)
class LoopbackCalls:
    """Of the run of one session."""

    sessions: Sessions
    states: GraphStates
    clock: Clock
    lease: Lease
    system: str
    user: str | None

    async def answer(self, method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
        """
        Raises:
            InvalidInput: it is not answered here.
        """
        match method, path:
            case "POST", ("threads",):
                return _thread(given.get("thread_id") or random_token(22), "idle")
            case "GET", ("threads", thread):
                found = await self._found(thread)
                status = "interrupted" if found.awaiting_user_input else _STATUS[found.status]
                return _thread(thread, status)
            case "GET", ("threads", thread, "state"):
                return await self._state(thread)
            case "POST", ("threads", thread, "runs"):
                return await self._run(thread, given)
            case "POST", ("runs",):
                return await self._run(random_token(22), given)
        raise not_answered(method, path)

    async def _state(self, thread: str) -> dict[str, Any]:
        found = await self.states.values(self.lease.tenant, (await self._found(thread)).id)
        checkpoint = {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": found.checkpoint_id}
        return {
            "values": found.values,
            "next": found.next,
            "checkpoint": checkpoint,
            "metadata": {},
            "created_at": found.created_at,
            "tasks": [],
        }

    async def _run(self, thread: str, given: dict[str, Any]) -> dict[str, Any]:
        unknown = {name for name, value in given.items() if value is not None} - _TAKEN - _WITHOUT_EFFECT
        if unknown:
            problem = f"{min(unknown)}: runs.create() inside a run does not take this"
            raise InvalidField(f"{problem}; it takes {', '.join(sorted(_TAKEN))}", field=min(unknown))
        system = str(given["assistant_id"])
        parameters, user = self._parameters(given)
        session = await self._session(thread, system, self.user or user)
        strategy = given.get("multitask_strategy") or "enqueue"
        options = JobOptions()
        if (delay := given.get("after_seconds")) is not None:
            options = JobOptions(start_at=self.clock.now() + float(delay))
            if session.status == "running" and session.start_at:  # the later one replaces it
                strategy = "interrupt"
        if_busy = _STRATEGIES.get(strategy, "enqueue")
        accepted = await self.sessions.send(
            self.lease.tenant, session.id, "", parameters=parameters, if_busy=if_busy, run=options
        )
        now = self.clock.now()
        return {
            "run_id": accepted.run_id,
            "thread_id": session.id,
            "assistant_id": system,
            "created_at": now,
            "updated_at": now,
            "status": "pending",
            "metadata": {},
            "multitask_strategy": strategy,
        }

    def _parameters(self, given: dict[str, Any]) -> tuple[RunParameters, str | None]:
        """What the run gets, without keys of ``configurable`` that the server sets; and the user that is named.

        Raises:
            InvalidField: it refers to a secret. A graph may pass on what a user wrote, who may have no right to it.
        """
        config = dict(given.get("config") or {})
        configurable = dict(config.get("configurable") or {})
        user = configurable.pop(USER_ID, None)
        config["configurable"] = {key: value for key, value in configurable.items() if not is_reserved(key)}
        if given.get("metadata"):
            config["metadata"] = {**(config.get("metadata") or {}), **given["metadata"]}
        plain = canonical({"input": given.get("input"), "config": config, "context": given.get("context")})
        parameters = RunParameters(**plain.value)
        if refers_to_secrets(parameters):
            problem = "config: runs.create() inside a run takes no reference to a secret"
            raise InvalidField(f"{problem}; put it into the agent system {given['assistant_id']!r}", field="config")
        return parameters, None if user is None else str(user)

    async def _session(self, thread: str, system: str, user: str | None) -> Session:
        if thread == self.lease.session_id and system != self.system:
            thread = digest_id("beside", thread, system)[:22]
        try:
            found = await self._found(thread)
        except NotFound:
            return await self.sessions.begin(self.lease.tenant, system, user, session_id=self._id_of(thread))
        if found.agent_system_id != system:
            problem = f"assistant_id: the thread {thread} belongs to {found.agent_system_id!r}"
            raise InvalidField(f"{problem}; use another thread for {system!r}", field="assistant_id")
        return found

    async def _found(self, thread: str) -> Session:
        """The session that a thread names by its id, or that was begun for a name of the graph's own."""
        try:
            return await self.sessions.find(self.lease.tenant, thread)
        except NotFound:
            return await self.sessions.find(self.lease.tenant, self._id_of(thread))

    def _id_of(self, thread: str) -> str:
        """Ids of sessions are unique on the server, and a name is not: another tenant may use it as well."""
        return digest_id("thread", self.lease.tenant, thread)


def _thread(thread: str, status: str) -> dict[str, Any]:
    return {"thread_id": thread, "status": status, "metadata": {}, "values": None, "interrupts": {}}
