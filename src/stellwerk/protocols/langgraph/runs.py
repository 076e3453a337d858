"""/threads/{id}/runs and /runs: runs as LangGraph's clients start, follow and cancel them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import parse_cursor
from stellwerk.dialects.base import Cursor
from stellwerk.dialects.langgraph import runs
from stellwerk.errors import NotFound
from stellwerk.protocols.langgraph import shapes
from stellwerk.protocols.langgraph.bodies import RunBody, wanted_modes
from stellwerk.protocols.langgraph.reading import ThreadStates
from stellwerk.protocols.langgraph.starting import StartedRun, Starting
from stellwerk.protocols.requests import LARGEST, body_of
from stellwerk.protocols.run_streams import FollowedRun, StoppedWithClient, end_of_run, stream_of_run
from stellwerk.protocols.threads import find_thread
from stellwerk.runs.run_info import RunInfo
from stellwerk.tenants.principals import Principal

_FROM_START = "-1"
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID")]
Modes = Annotated[list[str] | None, Query()]


class Runs:
    def __init__(self, services: Services, states: ThreadStates) -> None:
        self.services = services
        self.states = states
        self.starting = Starting(services, states)

    async def created(self, who: Principal, thread_id: str | None, body: RunBody) -> Response:
        started = await self.starting.start(who, thread_id, body)
        place = _place(started, thread_id)
        info = await self._info(started.run)
        return Json(_shown(info, started.thread_id, body), headers={"Content-Location": place})

    async def streamed(self, who: Principal, thread_id: str | None, body: RunBody) -> Response:
        modes = body.modes(("values",))
        started = await self.starting.start(who, thread_id, body, is_streamed=True)
        place = _place(started, thread_id)
        again = "&".join(f"stream_mode={mode}" for mode in sorted(modes))
        headers = {"Content-Location": place, "Location": f"{place}/stream?{again}"}
        options = _options(started, modes, subgraphs=bool(body.stream_subgraphs))
        return await self.stream(started.run, options, headers=headers, cancels=body.on_disconnect == "cancel")

    async def stream(
        self,
        run: FollowedRun,
        options: runs.RunsOptions,
        *,
        cursor: Cursor | None = None,
        headers: dict[str, str] | None = None,
        cancels: bool = False,
    ) -> Response:
        dialect = replace(runs.DIALECT, options=options)
        response = await stream_of_run(self.services, run, dialect, cursor=cursor, headers=headers)
        return StoppedWithClient(response, self.services, run) if cancels else response

    async def waited(self, who: Principal, thread_id: str | None, body: RunBody) -> Response:
        started = await self.starting.start(who, thread_id, body)
        place = _place(started, thread_id)
        headers = {"Content-Location": place, "Location": f"{place}/join"}
        return Json(await self.final_values(started.run), headers=headers)

    async def final_values(self, run: FollowedRun) -> shapes.Json:
        """The values at the end of a run."""
        end = await end_of_run(self.services, run)
        session = await self.services.sessions.find(run.who.tenant, run.session_id)
        history = await self.states.head(run.who.tenant, session)
        if end is not None and end.payload.status == "failed":
            code, message = end.payload.code or "failed", end.payload.reason or "the run failed"
            return {"__error__": {"error": code, "message": message}}
        asked = [shapes.interrupt(each) for each in history.interrupts]
        return history.values | ({"__interrupt__": asked} if asked else {})

    async def found(self, who: Principal, thread_id: str, run_id: str) -> tuple[RunInfo, StartedRun]:
        opened = await find_thread(self.services, who, thread_id)
        info = await self.services.sessions.run(who.tenant, opened.session.id, run_id)
        run = FollowedRun(who, opened.session.id, run_id, info.after)
        system = opened.session.agent_system_id
        known = await self.states.about(who.tenant, system)
        return info, StartedRun(run, opened.thread.id, system, known.agents)

    async def cancel(self, who: Principal, thread_id: str, run_id: str) -> None:
        """
        Raises:
            NotFound: there is no such run, or it has ended.
        """
        info, started = await self.found(who, thread_id, run_id)
        if info.is_enqueued:
            await self.services.sessions.withdraw(who.tenant, started.run.session_id, run_id=run_id)
        elif info.status in ("waiting", "running"):
            await self.services.sessions.stop(who.tenant, started.run.session_id)
        else:
            raise NotFound("run", run_id, remedy="it has ended, so there is nothing to cancel")

    async def _info(self, run: FollowedRun) -> RunInfo:
        return await self.services.sessions.run(run.who.tenant, run.session_id, run.run_id)


def routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(prefix="/threads/{thread_id}/runs", include_in_schema=False)
    served = Runs(services, states)

    @router.post("")
    async def create(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        return await served.created(who, thread_id, await body_of(request, RunBody))

    @router.post("/stream")
    async def stream(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        return await served.streamed(who, thread_id, await body_of(request, RunBody))

    @router.post("/wait")
    async def wait(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        return await served.waited(who, thread_id, await body_of(request, RunBody))

    @router.get("")
    async def listed(
        who: RequireReadTolerant, thread_id: str, limit: int = 10, offset: int = 0, status: str | None = None
    ) -> Response:
        opened = await find_thread(services, who, thread_id)
        place = {"limit": min(1000, max(1, limit)), "offset": min(LARGEST, max(0, offset))}
        found = await services.sessions.runs(who.tenant, opened.session.id, **place)
        shown = [_shown(each, opened.thread.id) for each in found]
        return Json([each for each in shown if status is None or each["status"] == status])

    @router.get("/{run_id}")
    async def get(who: RequireReadTolerant, thread_id: str, run_id: str) -> Response:
        info, started = await served.found(who, thread_id, run_id)
        return Json(_shown(info, started.thread_id))

    @router.get("/{run_id}/join")
    async def join(who: RequireReadTolerant, thread_id: str, run_id: str) -> Response:
        _, started = await served.found(who, thread_id, run_id)
        return Json(await served.final_values(started.run))

    @router.get("/{run_id}/stream")
    async def join_stream(
        who: RequireReadTolerant,
        thread_id: str,
        run_id: str,
        stream_mode: Modes = None,
        cancel_on_disconnect: str = "",
        last_event_id: LastEventId = None,
    ) -> Response:
        _, started = await served.found(who, thread_id, run_id)
        modes = wanted_modes(_split(stream_mode), sorted(runs.ALL_MODES))
        cursor = None if last_event_id in (None, "", _FROM_START) else parse_cursor(last_event_id)
        cancels = cancel_on_disconnect.lower() in ("1", "true") and who.may("run")
        options = _options(started, modes, subgraphs=True)
        return await served.stream(started.run, options, cursor=cursor, cancels=cancels)

    @router.post("/{run_id}/cancel", status_code=202)
    async def cancel(who: RequireRunTolerant, thread_id: str, run_id: str, wait: str = "") -> Response:
        await served.cancel(who, thread_id, run_id)
        return Json({}, 200) if wait.lower() in ("1", "true") else Response(status_code=202)

    return router


def stateless_routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(prefix="/runs", include_in_schema=False)
    served = Runs(services, states)

    @router.post("")
    async def create(who: RequireRunTolerant, request: Request) -> Response:
        return await served.created(who, None, await body_of(request, RunBody))

    @router.post("/stream")
    async def stream(who: RequireRunTolerant, request: Request) -> Response:
        return await served.streamed(who, None, await body_of(request, RunBody))

    @router.post("/wait")
    async def wait(who: RequireRunTolerant, request: Request) -> Response:
        return await served.waited(who, None, await body_of(request, RunBody))

    return router


def _split(modes: Sequence[str] | None) -> list[str] | None:
    return [part for mode in modes or () for part in mode.split(",") if part] or None


def _place(started: StartedRun, thread_id: str | None) -> str:
    """Where the run is, below the address that the client was given."""
    run = f"/runs/{started.run.run_id}"
    return run if thread_id is None else f"/threads/{started.thread_id}{run}"


def _options(started: StartedRun, modes: frozenset[str], *, subgraphs: bool) -> runs.RunsOptions:
    name = None if started.thread_id == started.run.session_id else started.thread_id
    return runs.RunsOptions(modes, subgraphs, started.agents, name)


def _shown(info: RunInfo, thread_id: str, body: RunBody | None = None) -> shapes.Json:
    more: shapes.Json = {}
    if body is not None:
        more = {"metadata": body.metadata or {}, "multitask_strategy": body.multitask_strategy or "enqueue"}
    return shapes.run(info, thread_id) | more
