"""/crons: messages by a schedule. /delayed-runs: runs that start later. /webhook-deliveries: reported ends of runs."""

import re
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from stellwerk.api.http.auth import RequireAdmin, RequireRead, RequireRun, on_behalf
from stellwerk.api.schema.openapi import BODY, STORED, UNUSABLE, documented_router, returns
from stellwerk.api.schema.responses import CronPage, DefaultWebhook, DelayedRuns, DeliveryPage
from stellwerk.api.schema.shared import Json, Limit, MessageContent, RequestBody, address
from stellwerk.api.services import Services
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import IfBusy
from stellwerk.runs.jobs.crons import Cron, CronMessage, CronSpec
from stellwerk.runs.jobs.webhooks import DeliveryQuery, DeliveryState
from stellwerk.tenants.principals import Principal

_CURSOR = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,20})?)_(.{1,100})", re.DOTALL)
CronId = Annotated[str, Path(description="the id of a cron")]
DeliveryId = Annotated[str, Path(description="the id of a delivery")]


class ScheduledMessage(MessageContent):
    """A message that a cron sends, like one of `POST /sessions/{sid}/messages`."""

    if_busy: IfBusy = Field(
        "enqueue", description="while the session is busy: run it afterwards, reject it, or stop that round"
    )


class CronRequest(RequestBody):
    schedule: str = Field(
        max_length=100, description="five fields: minute, hour, day, month, weekday", examples=["0 7 * * mon-fri"]
    )
    timezone: str = Field("UTC", max_length=64, description="such as Europe/Berlin")
    agent_system_id: Annotated[str | None, Field(min_length=1, max_length=64)] = Field(
        None, description="each tick begins a new session with it; this, or `session_id`", examples=["demo"]
    )
    session_id: Annotated[str | None, Field(min_length=1, max_length=64)] = Field(
        None, description="each tick sends the message to this session"
    )
    user_id: Annotated[str | None, Field(max_length=128)] = Field(
        None, description="the user that the new sessions belong to"
    )
    message: ScheduledMessage
    on_completion: Literal["keep", "delete"] = Field(
        "keep", description="delete: a session that a tick began is deleted a minute after its run has ended"
    )
    enabled: bool = True

    def spec(self, services: Services, who: Principal) -> CronSpec:
        """
        Raises:
            InvalidField: fields do not fit together, or the message cannot be sent.
        """
        message = self.message
        if (self.agent_system_id is None) == (self.session_id is None):
            said = "give either an agent_system_id (a new session each time) or a session_id"
            raise InvalidField(f"agent_system_id: {said}", field="agent_system_id")
        if self.session_id is not None and self.on_completion == "delete":
            said = "delete is for sessions that a tick begins, and session_id names one that exists"
            raise InvalidField(f"on_completion: {said}; leave it out", field="on_completion")
        if message.start_at is not None or message.after_seconds is not None:
            said = "the schedule says when it starts; leave this out"
            raise InvalidField(f"message.start_at: {said}", field="message.start_at")
        services.webhooks.check(who.tenant, message.webhook)
        given = message.parameters(who)
        return CronSpec(
            schedule=self.schedule,
            timezone=self.timezone,
            agent_system_id=self.agent_system_id,
            session_id=self.session_id,
            user_id=on_behalf(who, self.user_id) if self.session_id is None else None,
            message=CronMessage(
                text=message.checked_text(),
                documents=message.documents,
                input=given.input,
                config=given.config,
                context=given.context,
                if_busy=message.if_busy,
                webhook=message.webhook,
            ),
            on_completion=self.on_completion,
            enabled=self.enabled,
        )


class DefaultWebhookRequest(RequestBody):
    webhook: str = Field(min_length=1, max_length=2048, description="a URL that ends of runs are reported to")


class DeliveriesQuery(BaseModel):
    session_id: str | None = Field(None, max_length=64, description="only those of this session")
    state: DeliveryState | None = Field(None, description="only those in this state")
    before: str | None = Field(None, description="the `next` of the page before")
    limit: int = Field(50, ge=1, le=500, description="how many, at most")


def cron_routes(services: Services) -> APIRouter:
    router = documented_router("jobs", "/crons")
    crons = services.crons
    unknown = ("unknown_agent_system", "unknown_session", "unknown_file")
    named = (*BODY, "invalid_schedule", *unknown, "missing_webhook_secret", *UNUSABLE, *STORED)

    @router.post("", **returns(201, Cron, "Created", *named, "too_many_crons"))
    async def create(who: RequireRun, request: Request, body: CronRequest) -> Response:
        """Create a cron: a message that is sent by a schedule.

        Each tick starts one run, also if the server is killed meanwhile. Of ticks that were missed while the server
        was down, only the last one is started. `last` of the cron says what came of its last tick.
        """
        cron = await crons.create(who.tenant, body.spec(services, who))
        return Json(cron, 201, {"Location": address(request, f"/crons/{cron.id}")})

    @router.get("", **returns(200, CronPage, "A page, the oldest first", "invalid_limit", "storage_gone"))
    async def list_crons(
        who: RequireRead,
        after: Annotated[str, Query(max_length=64, description="the `next` of the page before")] = "",
        limit: Limit = 50,
    ) -> Response:
        """List the crons of your tenant."""
        found = await crons.list(who.tenant, after=after, limit=limit)
        return Json(CronPage(crons=found, next=found[-1].id if len(found) == limit else None))

    @router.get("/{cron_id}", **returns(200, Cron, "With its next and last tick", "unknown_cron", "storage_gone"))
    async def find(who: RequireRead, cron_id: CronId) -> Response:
        """Read a cron."""
        return Json(await crons.find(who.tenant, cron_id))

    @router.put("/{cron_id}", **returns(200, Cron, "Changed", *named, "unknown_cron"))
    async def change(who: RequireRun, cron_id: CronId, body: CronRequest) -> Response:
        """Replace a cron as a whole.

        Its next tick is the first one from now on; `enabled: false` pauses it, also if its message no longer fits.
        """
        await crons.find(who.tenant, cron_id)
        return Json(await crons.change(who.tenant, cron_id, body.spec(services, who)))

    deleted = "Deleted; runs that it has started go on"

    @router.delete("/{cron_id}", **returns(204, None, deleted, "unknown_cron", *STORED))
    async def delete(who: RequireRun, cron_id: CronId) -> None:
        """Delete a cron."""
        await crons.delete(who.tenant, cron_id)

    return router


def delayed_routes(services: Services) -> APIRouter:
    router = documented_router("jobs")

    @router.get("/delayed-runs", **returns(200, DelayedRuns, "The next one first", "invalid_limit", "storage_gone"))
    async def delayed(who: RequireRead, limit: Limit = 100) -> Response:
        """List runs that were accepted and start later.

        `POST /sessions/{session_id}/stop` withdraws one.
        """
        return Json(DelayedRuns(runs=await services.sessions.delayed(who.tenant, limit=limit)))

    return router


def webhook_routes(services: Services) -> APIRouter:
    router = documented_router("jobs", "/webhook-deliveries")
    webhooks = services.webhooks

    @router.get("", **returns(200, DeliveryPage, "A page, the newest first", "invalid_limit", "storage_gone"))
    async def deliveries(who: RequireRead, query: Annotated[DeliveriesQuery, Query()]) -> Response:
        """List the ends of runs that were reported to webhooks, or are still to be reported."""
        before = None if query.before is None else _place(query.before)
        wanted = DeliveryQuery(before, query.session_id, query.state, query.limit)
        found = await webhooks.page(who.tenant, wanted)
        last = found[-1] if len(found) == query.limit else None
        cursor = None if last is None else f"{last.created_at!r}_{last.id}"
        return Json(DeliveryPage(deliveries=found, next=cursor))

    retried = "It is attempted again"

    @router.post("/{delivery_id}/retry", **returns(204, None, retried, "unknown_delivery", "not_failed", *STORED))
    async def retry(who: RequireRun, delivery_id: DeliveryId) -> None:
        """Attempt a failed delivery again."""
        await webhooks.retry(who.tenant, delivery_id)

    return router


def default_webhook_routes(services: Services) -> APIRouter:
    router = documented_router("jobs", "/default-webhook")
    webhooks = services.webhooks

    @router.get("", **returns(200, DefaultWebhook, "Null if there is none", "storage_gone"))
    async def read(who: RequireAdmin) -> Response:
        """Read where the ends of your tenant's runs are reported by default."""
        return Json(DefaultWebhook(webhook=await webhooks.default(who.tenant)))

    stored = "The ends of runs are reported there from now on"

    @router.put("", **returns(200, DefaultWebhook, stored, *BODY, "missing_webhook_secret", *STORED))
    async def put(who: RequireAdmin, body: DefaultWebhookRequest) -> Response:
        """Report the end of each run of your tenant to an address, unless its message names another one."""
        await webhooks.set_default(who.tenant, body.webhook)
        return Json(DefaultWebhook(webhook=body.webhook))

    @router.delete("", **returns(204, None, "Deleted; there may have been none", *STORED))
    async def delete(who: RequireAdmin) -> None:
        """Report the ends of runs only to the addresses that messages name."""
        await webhooks.set_default(who.tenant, None)

    return router


def _place(before: str) -> tuple[float, str]:
    found = _CURSOR.fullmatch(before)
    if found is None:
        said = "before: this is not the `next` of a page; send that of the page before"
        raise InvalidField(said, field="before")
    return float(found[1]), found[2]
