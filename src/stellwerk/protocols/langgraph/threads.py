"""/threads: sessions as LangGraph's threads, with their states and histories."""

from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from msgspec import Struct

from stellwerk.agents.runtime.saved_states import StateUpdate
from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.errors import Conflict, InvalidField
from stellwerk.protocols.langgraph import shapes
from stellwerk.protocols.langgraph.reading import ThreadStates, first_messages
from stellwerk.protocols.requests import body_of
from stellwerk.protocols.threads import find_session
from stellwerk.runs.client_threads import Thread
from stellwerk.runs.graph_states import GraphStates
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import Principal

_PAGE = 500
_LONGEST = 1000
_SORTED = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")


class ThreadRequest(Struct):
    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    if_exists: str | None = None


class ThreadChange(Struct):
    metadata: dict[str, Any] | None = None


class ThreadSearch(Struct):
    ids: list[str] | None = None
    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    status: str | None = None
    limit: int | None = 10
    offset: int | None = 0
    sort_by: str | None = None
    sort_order: str | None = None
    select: list[str] | None = None


class HistoryQuery(Struct):
    limit: int | None = 10
    before: str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class NewThreadState(Struct):
    values: Any = None
    as_node: str | None = None
    checkpoint: dict[str, Any] | None = None
    checkpoint_id: str | None = None

    @property
    def wanted_checkpoint(self) -> str | None:
        found = self.checkpoint_id or (self.checkpoint or {}).get("checkpoint_id")
        return None if found is None else str(found)

    def to_update(self) -> StateUpdate:
        if isinstance(self.values, list):
            raise InvalidField("values: send one change at a time, as an object", field="values")
        return StateUpdate(self.values, self.as_node, self.wanted_checkpoint)


class _Listed(NamedTuple):
    thread: Thread
    session: Session | None


class Threads:
    def __init__(self, services: Services, states: ThreadStates) -> None:
        self.services = services
        self.states = states

    async def find(self, who: Principal, thread_id: str) -> _Listed:
        thread = await self.services.threads.find(who.tenant, thread_id)
        return _Listed(thread, await find_session(self.services, who, thread))

    async def created(self, who: Principal, body: ThreadRequest) -> shapes.Json:
        created = await self.services.threads.create(who.tenant, body.thread_id, body.metadata)
        if not created.is_new and body.if_exists != "do_nothing":
            raise Conflict(f"the thread {created.thread.id!r} exists; take another id", code="thread_exists")
        return await self.shown(who, await self.find(who, created.thread.id))

    async def delete(self, who: Principal, thread_id: str) -> None:
        found = await self.find(who, thread_id)
        if found.session is None:
            await self.services.threads.delete(who.tenant, found.thread.id)
        else:
            await self.services.sessions.delete(who.tenant, found.session.id)

    async def copied(self, who: Principal, thread_id: str) -> shapes.Json:
        found = await self.find(who, thread_id)
        if found.session is None:
            created = await self.services.threads.create(who.tenant, None, found.thread.metadata)
            return shapes.thread(created.thread, None, None)
        forked = await self.services.sessions.fork(who.tenant, found.session.id, None)
        if found.thread.metadata:
            await self.services.threads.change_metadata(who.tenant, forked.id, found.thread.metadata)
        return await self.shown(who, await self.find(who, forked.id))

    async def state(self, who: Principal, thread_id: str, checkpoint_id: str | None = None) -> shapes.Json:
        found = await self.find(who, thread_id)
        if found.session is None:
            return shapes.empty_state({})
        if checkpoint_id is not None:
            kept = await self.states.at(who.tenant, found.session, checkpoint_id)
            return shapes.state(found.thread.id, kept)
        history = await self.states.head(who.tenant, found.session)
        if history.latest is None:
            return shapes.empty_state(history.values)
        return shapes.state(found.thread.id, history.latest, history.values)

    async def history(self, who: Principal, thread_id: str, query: HistoryQuery) -> list[shapes.Json]:
        found = await self.find(who, thread_id)
        if found.session is None:
            return []
        limit = min(_LONGEST, max(1, 10 if query.limit is None else query.limit))
        kept = await self.states.checkpoints(
            who.tenant, found.session, before=_checkpoint_of(query.before), limit=limit
        )
        return [shapes.state(found.thread.id, each) for each in kept]

    async def shown(self, who: Principal, found: _Listed) -> shapes.Json:
        if found.session is None:
            return shapes.thread(found.thread, None, None)
        history = await self.states.head(who.tenant, found.session)
        return shapes.thread(found.thread, found.session, history.values, history.latest)

    async def matching(self, who: Principal, body: ThreadSearch) -> list[shapes.Json]:
        """Without values; the latest change first, unless another order is asked for."""
        if body.values:
            raise InvalidField("values: threads are not found by their values; leave this out", field="values")
        services, listed = self.services, list[_Listed]()
        before: tuple[float, str] | None = None
        while page := await services.sessions.list(who.tenant, before=before, limit=_PAGE):
            named = await services.threads.of_sessions(who.tenant, [session.id for session in page])
            listed += [_Listed(named.get(session.id) or _unnamed(session), session) for session in page]
            before = (page[-1].last_activity_at, page[-1].id)
        listed += [_Listed(each, None) for each in await services.threads.without_session(who.tenant, limit=_PAGE)]
        found = [shapes.thread(each.thread, each.session, None) | {"session": each.session} for each in listed]
        order = body.sort_by if body.sort_by in _SORTED else "updated_at"
        found.sort(key=lambda each: str(each[order]), reverse=body.sort_order != "asc")
        return [each for each in found if _matches(each, body)]

    async def search(self, who: Principal, body: ThreadSearch) -> tuple[list[shapes.Json], int]:
        found = await self.matching(who, body)
        start = max(0, body.offset or 0)
        page = found[start : start + min(_LONGEST, max(0, 10 if body.limit is None else body.limit))]
        sessions: list[Session] = [each["session"] for each in page if each["session"] is not None]
        titles = await first_messages(self.services, who.tenant, sessions)
        values = dict(zip([session.id for session in sessions], titles, strict=True))
        for each in page:
            session = each.pop("session")
            each["values"] = None if session is None else values[session.id]
        if body.select:
            page = [{name: each[name] for name in body.select if name in each} for each in page]
        return page, len(found)


def routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(prefix="/threads", include_in_schema=False)
    threads = Threads(services, states)

    @router.post("")
    async def create(who: RequireRunTolerant, request: Request) -> Response:
        return Json(await threads.created(who, await body_of(request, ThreadRequest)))

    @router.post("/search")
    async def search(who: RequireReadTolerant, request: Request) -> Response:
        page, total = await threads.search(who, await body_of(request, ThreadSearch))
        return Json(page, headers={"X-Pagination-Total": str(total)})

    @router.post("/count")
    async def count(who: RequireReadTolerant, request: Request) -> Response:
        return Json(len(await threads.matching(who, await body_of(request, ThreadSearch))))

    @router.get("/{thread_id}")
    async def get(who: RequireReadTolerant, thread_id: str) -> Response:
        return Json(await threads.shown(who, await threads.find(who, thread_id)))

    @router.patch("/{thread_id}")
    async def change(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        body = await body_of(request, ThreadChange)
        await services.threads.change_metadata(who.tenant, thread_id, body.metadata or {})
        return Json(await threads.shown(who, await threads.find(who, thread_id)))

    @router.delete("/{thread_id}", status_code=204)
    async def delete(who: RequireRunTolerant, thread_id: str) -> None:
        await threads.delete(who, thread_id)

    @router.post("/{thread_id}/copy")
    async def copy(who: RequireRunTolerant, thread_id: str) -> Response:
        return Json(await threads.copied(who, thread_id))

    return router


def state_routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(prefix="/threads/{thread_id}", include_in_schema=False)
    threads = Threads(services, states)
    graphs = GraphStates(
        services.database, services.log, services.systems, services.documents, services.quotas, services.clock
    )

    @router.get("/state")
    async def state(who: RequireReadTolerant, thread_id: str) -> Response:
        return Json(await threads.state(who, thread_id))

    @router.get("/state/{checkpoint_id}")
    async def state_at(who: RequireReadTolerant, thread_id: str, checkpoint_id: str) -> Response:
        return Json(await threads.state(who, thread_id, checkpoint_id))

    @router.post("/state/checkpoint")
    async def state_at_checkpoint(who: RequireReadTolerant, request: Request, thread_id: str) -> Response:
        body = await body_of(request, NewThreadState)
        return Json(await threads.state(who, thread_id, body.wanted_checkpoint))

    @router.post("/state")
    async def change(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        body = await body_of(request, NewThreadState)
        found = await threads.find(who, thread_id)
        changed = await graphs.change(who.tenant, _begun(found).id, body.to_update())
        ids = {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": changed.checkpoint_id}
        return Json({"checkpoint": ids, "configurable": ids, "checkpoint_id": changed.checkpoint_id})

    @router.post("/history")
    async def history(who: RequireReadTolerant, request: Request, thread_id: str) -> Response:
        return Json(await threads.history(who, thread_id, await body_of(request, HistoryQuery)))

    @router.get("/history")
    async def listed(who: RequireReadTolerant, thread_id: str, limit: int = 10, before: str | None = None) -> Response:
        return Json(await threads.history(who, thread_id, HistoryQuery(limit=limit, before=before)))

    return router


def _begun(found: _Listed) -> Session:
    if found.session is None:
        said = "nothing was sent to this thread yet, so it has no graph; send a message first"
        raise Conflict(said, code="nothing_said")
    return found.session


def _checkpoint_of(before: str | dict[str, Any] | None) -> str | None:
    if isinstance(before, dict):
        configured = before.get("configurable")
        places = [before, configured if isinstance(configured, dict) else {}]
        return next((str(each["checkpoint_id"]) for each in places if each.get("checkpoint_id")), None)
    return before


def _unnamed(session: Session) -> Thread:
    """A session that is known by its own id."""
    return Thread(
        id=session.id, session_id=session.id, created_at=session.created_at, updated_at=session.last_activity_at
    )


def _matches(thread: shapes.Json, wanted: ThreadSearch) -> bool:
    return (
        (wanted.ids is None or thread["thread_id"] in wanted.ids)
        and wanted.status in (None, thread["status"])
        and all(_has(thread["metadata"], *each) for each in (wanted.metadata or {}).items())
    )


def _has(metadata: shapes.Json, key: str, value: Any) -> bool:
    known = metadata.get(key)
    if key == "assistant_id":  # clients name a system by either id
        return value in (known, metadata.get("graph_id"))
    return bool(known == value)
