"""/runs/crons: messages by a schedule; the same as those at /crons of this server."""

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import UNSET, Struct, UnsetType

from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant, on_behalf
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import InvalidField
from stellwerk.protocols.langgraph import shapes
from stellwerk.protocols.langgraph.assistants import system_of
from stellwerk.protocols.langgraph.bodies import RunBody, said_in
from stellwerk.protocols.langgraph.reading import ThreadStates
from stellwerk.protocols.langgraph.starting import stored_file
from stellwerk.protocols.requests import body_of
from stellwerk.protocols.threads import open_thread
from stellwerk.runs.jobs.crons import MOST, Cron, CronMessage, CronSpec
from stellwerk.tenants.principals import Principal


class CronBody(RunBody):
    schedule: str | UnsetType = UNSET
    timezone: str | None = None
    enabled: bool | None = None
    on_run_completed: str | None = None
    end_time: Any = None


class CronSearch(Struct):
    assistant_id: str | None = None
    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    enabled: bool | None = None
    limit: int = 10
    offset: int = 0


class CronJobs:
    def __init__(self, services: Services, states: ThreadStates) -> None:
        self._services = services
        self._states = states

    async def create(self, who: Principal, body: CronBody, thread_id: str | None) -> shapes.Json:
        """For a thread, each tick is a message of it; else each begins one of its own."""
        services = self._services
        system = await system_of(services, who.tenant, body.assistant_id)
        message = await self._message(who, system, body)
        if body.schedule is UNSET:
            raise InvalidField("schedule: write five fields, such as 0 7 * * mon-fri", field="schedule")
        spec = CronSpec(
            schedule=body.schedule,
            timezone=body.timezone or "UTC",
            enabled=body.enabled is not False,
            agent_system_id=system,
            user_id=on_behalf(who, None),
            message=message,
            on_completion="keep" if body.on_run_completed == "keep" else "delete",
        )
        if thread_id is None:
            return await self._shown(who, await services.crons.create(who.tenant, spec))
        async with open_thread(services, who, thread_id, system) as opened:
            place: dict[str, Any] = {"session_id": opened.session.id, "on_completion": "keep"}
            spec = msgspec.structs.replace(spec, agent_system_id=None, user_id=None, **place)
            return await self._shown(who, await services.crons.create(who.tenant, spec))

    async def change(self, who: Principal, cron_id: str, body: CronBody) -> shapes.Json:
        """What the body names; the rest of the cron stays."""
        known = await self._services.crons.find(who.tenant, cron_id)
        changed = {
            "schedule": known.schedule if body.schedule is UNSET else body.schedule,
            "timezone": body.timezone or known.timezone,
            "enabled": known.enabled if body.enabled is None else body.enabled,
        }
        if body.on_run_completed is not None and known.session_id is None:
            changed["on_completion"] = "keep" if body.on_run_completed == "keep" else "delete"
        given = await self._message(who, await self._system(who, known), body)
        said = {name: getattr(given, name) for name in CronMessage.__struct_fields__ if getattr(given, name)}
        if body.multitask_strategy is None:
            del said["if_busy"]
        kept = {name: getattr(known, name) for name in CronSpec.__struct_fields__}
        spec = CronSpec(**kept | changed | {"message": msgspec.structs.replace(known.message, **said)})
        return await self._shown(who, await self._services.crons.change(who.tenant, cron_id, spec))

    async def matching(self, who: Principal, wanted: CronSearch) -> list[shapes.Json]:
        """The newest first."""
        found = await self._services.crons.list(who.tenant, after="", limit=MOST)
        shown = [await self._shown(who, each) for each in reversed(found)]
        return [each for each in shown if _matches(each, wanted)]

    async def found(self, who: Principal, cron_id: str) -> shapes.Json:
        return await self._shown(who, await self._services.crons.find(who.tenant, cron_id))

    async def _message(self, who: Principal, system: str, body: CronBody) -> CronMessage:
        body.check_supported()
        if body.end_time is not None:
            raise InvalidField(
                "end_time: a cron runs until it is deleted or disabled; leave this out", field="end_time"
            )
        self._services.webhooks.check(who.tenant, body.webhook)
        said, others = said_in(body.input)
        is_graph = (await self._states.about(who.tenant, system)).is_graph
        given = body.parameters(who, others if is_graph else None)
        files = () if said is None else said.files
        documents = [await stored_file(self._services, who, file) for file in files]
        return CronMessage(
            text="" if said is None else clean_text(said.text),
            documents=tuple(documents),
            input=given.input,
            config=given.config,
            context=given.context,
            if_busy=body.if_busy,
            webhook=body.webhook,
        )

    async def _system(self, who: Principal, cron: Cron) -> str:
        if cron.agent_system_id is not None:
            return cron.agent_system_id
        return (await self._services.sessions.find(who.tenant, cron.session_id or "")).agent_system_id

    async def _shown(self, who: Principal, cron: Cron) -> shapes.Json:
        system, message = await self._system(who, cron), cron.message
        thread_id = cron.session_id
        if thread_id is not None:
            named = await self._services.threads.of_sessions(who.tenant, [thread_id])
            thread_id = named[thread_id].id if thread_id in named else thread_id
        said = {"messages": [{"type": "human", "content": message.text}]} if message.text else {}
        payload = {
            "assistant_id": shapes.assistant_id(system),
            "input": {**said, **(message.input or {})},
            "config": message.config or {},
            "context": message.context or {},
            "webhook": message.webhook,
        }
        created = shapes.moment(cron.created_at)
        return {
            "cron_id": cron.id,
            "assistant_id": payload["assistant_id"],
            "thread_id": thread_id,
            "on_run_completed": None if cron.session_id is not None else cron.on_completion,
            "end_time": None,
            "schedule": cron.schedule,
            "timezone": cron.timezone,
            "created_at": created,
            "updated_at": created,
            "payload": payload,
            "user_id": cron.user_id,
            "next_run_date": None if cron.next_tick is None else shapes.moment(cron.next_tick),
            "metadata": (message.config or {}).get("metadata") or {},
            "enabled": cron.enabled,
        }


def routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    jobs = CronJobs(services, states)

    @router.post("/runs/crons")
    async def create(who: RequireRunTolerant, request: Request) -> Response:
        return Json(await jobs.create(who, await body_of(request, CronBody), None))

    @router.post("/threads/{thread_id}/runs/crons")
    async def create_for_thread(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        return Json(await jobs.create(who, await body_of(request, CronBody), thread_id))

    @router.post("/runs/crons/search")
    async def search(who: RequireReadTolerant, request: Request) -> Response:
        wanted = await body_of(request, CronSearch)
        found = await jobs.matching(who, wanted)
        page = found[max(0, wanted.offset) :][: max(0, wanted.limit)]
        return Json(page, headers={"X-Pagination-Total": str(len(found))})

    @router.post("/runs/crons/count")
    async def count(who: RequireReadTolerant, request: Request) -> Response:
        return Json(len(await jobs.matching(who, await body_of(request, CronSearch))))

    @router.get("/runs/crons/{cron_id}")
    async def get(who: RequireReadTolerant, cron_id: str) -> Response:
        return Json(await jobs.found(who, cron_id))

    @router.patch("/runs/crons/{cron_id}")
    async def change(who: RequireRunTolerant, request: Request, cron_id: str) -> Response:
        return Json(await jobs.change(who, cron_id, await body_of(request, CronBody)))

    @router.delete("/runs/crons/{cron_id}")
    async def delete(who: RequireRunTolerant, cron_id: str) -> Response:
        await services.crons.delete(who.tenant, cron_id)
        return Json({})

    return router


def _matches(cron: shapes.Json, wanted: CronSearch) -> bool:
    system = wanted.assistant_id
    return (
        (system is None or cron["assistant_id"] in (system, shapes.assistant_id(system)))
        and wanted.thread_id in (None, cron["thread_id"])
        and wanted.enabled in (None, cron["enabled"])
        and all(cron["metadata"].get(key) == value for key, value in (wanted.metadata or {}).items())
    )
