"""Crons: messages that are sent again and again, by a schedule.

The table is the schedule; nothing is planned in memory. A tick is started with ids that follow
from the cron and the tick's time, so it starts one run, however often a crash, or another
process, repeats it. Of ticks that were missed, only the last one is started.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import structlog
from croniter import CroniterError, croniter

from stellwerk.agents.runtime.conversation import RunParameters, Turn
from stellwerk.database.port import Database, Lock, Row, Transaction, locking
from stellwerk.errors import Conflict, InvalidField, NotFound, StellwerkError, StorageFull, StorageGone
from stellwerk.ids import Clock, SortableIds, digest_id
from stellwerk.log.durable import DurableLog
from stellwerk.log.transactions import Overtaken
from stellwerk.metrics import Counter
from stellwerk.runs.commands import Accepted, IfBusy, JobOptions
from stellwerk.runs.sessions import Sessions
from stellwerk.tenants.audit import Action, Audit, recording, without_audit
from stellwerk.tenants.principals import Principal
from stellwerk.tenants.quotas import count_rows

logger = structlog.get_logger(__name__)

MOST = 100
"""Crons of one tenant."""
_PAGE = 50
_NAMES = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT"
_FIELD = re.compile(rf"(?:[0-9*,/#L-]|{_NAMES})+", re.IGNORECASE)
_FORM = "write five fields, minute hour day month weekday, such as 0 7 * * mon-fri"


class CronMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is sent at each tick."""

    text: str = ""
    documents: tuple[str, ...] = ()
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    if_busy: IfBusy = "enqueue"
    webhook: str | None = None

    @property
    def parameters(self) -> RunParameters:
        return RunParameters(input=self.input, config=self.config, context=self.context)


class CronSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and what starts by it: a new session with an agent system, or a message to a session."""

    schedule: str
    """Five fields: minute, hour, day, month, weekday."""
    timezone: str = "UTC"
    agent_system_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    """Whom the sessions belong to."""
    message: CronMessage
    on_completion: Literal["keep", "delete"] = "keep"
    """What becomes of a session that a tick began."""
    enabled: bool = True


class LastTick(msgspec.Struct, frozen=True, kw_only=True):
    """The last tick, and what came of it."""

    tick: float
    session_id: str | None = None
    run_id: str | None = None
    error: str | None = None
    """Why nothing was started."""


class Cron(CronSpec, frozen=True, kw_only=True):
    id: str
    created_at: float
    next_tick: float | None
    """None if it is not enabled."""
    last: LastTick | None


class _NewCron(NamedTuple):
    tenant: str
    cron_id: str
    spec: CronSpec
    at: float
    next_at: float


class _Due(NamedTuple):
    tenant: str
    id: str
    spec: CronSpec
    next_at: float


class _Advance(NamedTuple):
    due: _Due
    next_at: float
    last: LastTick


class Crons:
    def __init__(self, database: Database, log: DurableLog, sessions: Sessions, audit: Audit, clock: Clock) -> None:
        self._database = database
        self._log = log
        self._sessions = sessions
        self._audit = audit
        self._clock = clock
        self._ids = SortableIds(clock)
        self.ticks = Counter("stellwerk_cron_ticks_total", "Ticks of crons, by what came of them.", "outcome")

    async def create(self, tenant: str, spec: CronSpec) -> Cron:
        """
        Raises:
            InvalidField: schedule or time zone cannot be understood, or the message does not fit its graph.
            NotFound: there is no such agent system, session or file.
            Conflict: the tenant has as many crons as it may have.
        """
        now = self._clock.now()
        await self._check(tenant, spec)
        spec = await self._cleaned(tenant, spec)
        new = _NewCron(tenant, self._ids.new(), spec, now, next_tick(spec, now))
        await self._database.submit(create_many, new)
        return await self.find(tenant, new.cron_id)

    async def change(self, tenant: str, cron_id: str, spec: CronSpec) -> Cron:
        """Replace a cron as a whole; its next tick is counted from now.

        Raises like ``create``; but whatever its message became since, a cron can be paused.
        """
        now = self._clock.now()
        if spec.enabled:
            await self._check(tenant, spec)
        spec = await self._cleaned(tenant, spec)
        await self._database.submit(change_many, _NewCron(tenant, cron_id, spec, now, next_tick(spec, now)))
        return await self.find(tenant, cron_id)

    async def delete(self, tenant: str, cron_id: str) -> None:
        await self._database.submit(delete_many, (tenant, cron_id))

    async def find(self, tenant: str, cron_id: str) -> Cron:
        row = await self._database.read(lambda tx: tx.row("cron_of", cron_id, tenant))
        if row is None:
            raise _unknown(cron_id)
        return _cron(row)

    async def list(self, tenant: str, *, after: str, limit: int) -> list[Cron]:
        return [_cron(row) for row in await self._database.read(lambda tx: tx.rows("cron_page", tenant, after, limit))]

    async def _check(self, tenant: str, spec: CronSpec) -> None:
        message = spec.message
        session_id = spec.session_id or self._ids.new()
        turn = Turn(session_id, user_id=spec.user_id, text=message.text, parameters=message.parameters)
        await self._sessions.check(tenant, turn, message.documents, system=spec.agent_system_id)

    async def _cleaned(self, tenant: str, spec: CronSpec) -> CronSpec:
        """As it is stored: no known secret is in it."""
        if spec.session_id is not None:
            await self._log.head(tenant, spec.session_id)  # its row refers to the session
        return msgspec.structs.replace(spec, message=await self._log.redacted(tenant, spec.message))

    async def fire_due(self) -> None:
        """Start the ticks that are due, side by side: one that waits or fails holds up no other.

        With a full disk they stay due.
        """
        now = self._clock.now()
        rows = await self._database.read(lambda tx: tx.rows("crons_due", now, _PAGE))
        due = [_Due(tenant, id_, msgspec.json.decode(spec, type=CronSpec), at) for tenant, id_, spec, at in rows]
        ends = await asyncio.gather(*(self._fire(each, now) for each in due), return_exceptions=True)
        for each, error in zip(due, ends, strict=True):
            if isinstance(error, StorageFull | StorageGone):
                logger.warning("cron_tick_delayed", cron=each.id, error=error.message)
            elif error is not None:
                raise error

    async def _fire(self, due: _Due, now: float) -> None:
        tick = last_tick(due.spec, now, not_before=due.next_at)
        begun = logger.bind(cron=due.id, tick=tick)
        try:
            session_id, accepted = await self._start(due, tick)
        except (StorageFull, StorageGone):
            raise
        except StellwerkError as error:
            begun.error("cron_tick_failed", error=error.message)
            last = LastTick(tick=tick, error=f"{error.code}: {error.message}")
        else:
            begun.info("cron_tick_started", session=session_id, run=accepted.run_id)
            last = LastTick(tick=tick, session_id=session_id, run_id=accepted.run_id)
        self.ticks.add("started" if last.error is None else "failed")
        await self._database.submit(_advance_many, _Advance(due, next_tick(due.spec, now), last))

    async def _start(self, due: _Due, tick: float) -> tuple[str, Accepted]:
        """Send the message of a tick: once, because session and key follow from cron and tick."""
        spec, message = due.spec, due.spec.message
        key = f"cron {due.id} {tick:.0f}"
        session_id = spec.session_id or digest_id("cron", due.id, f"{tick:.0f}")
        if spec.session_id is None:
            await self._begin(due, session_id)
        who = Principal(due.tenant, "member", f"cron {due.id}")
        action = Action(who, "POST /sessions/{sid}/messages", {"sid": session_id, "cron_id": due.id})
        try:
            with recording(self._audit.due(action, 202)):
                return session_id, await self._sessions.send(
                    due.tenant,
                    session_id,
                    message.text,
                    parameters=message.parameters,
                    documents=message.documents,
                    if_busy=message.if_busy,
                    key=key,
                    run=JobOptions(webhook=message.webhook),
                )
        except (StorageFull, StorageGone):
            raise
        except StellwerkError:
            if spec.session_id is None:  # nothing has begun in it
                with without_audit(), suppress(NotFound, Overtaken):
                    await self._sessions.delete(due.tenant, session_id, position=0)
            raise

    async def _begin(self, due: _Due, session_id: str) -> None:
        spec = due.spec
        try:
            with without_audit():  # its message has the entry
                await self._sessions.begin(
                    due.tenant,
                    spec.agent_system_id or "",
                    spec.user_id,
                    session_id=session_id,
                    is_ephemeral=spec.on_completion == "delete",
                )
        except Conflict as error:
            if error.code != "id_taken":  # this tick was begun before
                raise


def check_schedule(spec: CronSpec) -> None:
    """
    Raises:
        InvalidField: the schedule or the time zone is none, or no tick ever comes.
    """
    fields = spec.schedule.split(" ")
    if len(fields) != 5 or not all(map(_FIELD.fullmatch, fields)):
        raise InvalidField(f"schedule: {spec.schedule[:80]!r} is not a cron expression; {_FORM}", field="schedule")
    try:
        ZoneInfo(spec.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        said = f"there is no time zone {spec.timezone[:80]!r}; write it like Europe/Berlin or UTC"
        raise InvalidField(f"timezone: {said}", field="timezone") from error
    if not croniter.is_valid(spec.schedule):
        raise InvalidField(f"schedule: {spec.schedule[:80]!r} is not a cron expression; {_FORM}", field="schedule")


def next_tick(spec: CronSpec, after: float) -> float:
    """The first tick behind a time.

    Raises:
        InvalidField: there is none.
    """
    check_schedule(spec)
    ticks = croniter(spec.schedule, _local(spec, after))
    try:
        tick = float(ticks.get_next(float))
        while _is_repeated(spec, tick):
            tick = float(ticks.get_next(float))
        return tick
    except CroniterError as error:
        said = f"{spec.schedule!r} never comes; there is no such date"
        raise InvalidField(f"schedule: {said}", field="schedule") from error


def last_tick(spec: CronSpec, now: float, *, not_before: float) -> float:
    """The last tick up to now; those before it were missed."""
    ticks = croniter(spec.schedule, _local(spec, now + 1))
    found = float(ticks.get_prev(float))
    while _is_repeated(spec, found):
        found = float(ticks.get_prev(float))
    return found if not_before <= found <= now else not_before


def _is_repeated(spec: CronSpec, tick: float) -> bool:
    """Whether the clock was set back and shows the tick's time for the second time, if hours are named."""
    hours = spec.schedule.split(" ")[1]
    return _local(spec, tick).fold == 1 and not hours.startswith("*")


def _local(spec: CronSpec, at: float) -> datetime:
    return datetime.fromtimestamp(at, ZoneInfo(spec.timezone))


@locking(lambda new: [Lock("crons", new.tenant)])
def create_many(tx: Transaction, items: Sequence[_NewCron]) -> list[None | Exception]:
    return [_create(tx, new) for new in items]


def _create(tx: Transaction, new: _NewCron) -> None | Exception:
    if count_rows(tx, "count_crons", new.tenant) >= MOST:
        return Conflict(f"a tenant has at most {MOST} crons; delete one that is not used", code="too_many_crons")
    spec = new.spec
    row = (new.cron_id, new.tenant, spec.session_id, msgspec.json.encode(spec), spec.enabled, new.at, new.next_at)
    tx.run("insert_cron", *row)
    return None


def change_many(tx: Transaction, items: Sequence[_NewCron]) -> list[None | Exception]:
    return [_change(tx, new) for new in items]


def _change(tx: Transaction, new: _NewCron) -> None | Exception:
    spec = new.spec
    row = (new.cron_id, new.tenant, spec.session_id, msgspec.json.encode(spec), spec.enabled, new.next_at)
    return None if tx.run("change_cron", *row) else _unknown(new.cron_id)


def delete_many(tx: Transaction, items: Sequence[tuple[str, str]]) -> list[None | Exception]:
    return [None if tx.run("delete_cron", id_, tenant) else _unknown(id_) for tenant, id_ in items]


def _advance_many(tx: Transaction, items: Sequence[_Advance]) -> list[None | Exception]:
    for due, next_at, last in items:
        tx.run("advance_cron", due.id, due.tenant, due.next_at, next_at, msgspec.json.encode(last))
    return [None] * len(items)


def _unknown(cron_id: str) -> NotFound:
    return NotFound("cron", cron_id, remedy="GET /crons lists them")


def _cron(row: Row) -> Cron:
    id_, body, enabled, created_at, next_at, last = row
    spec = msgspec.json.decode(body, type=CronSpec)
    return Cron(
        id=id_,
        created_at=created_at,
        next_tick=next_at if enabled else None,
        last=None if last is None else msgspec.json.decode(last, type=LastTick),
        **msgspec.structs.asdict(spec),
    )
