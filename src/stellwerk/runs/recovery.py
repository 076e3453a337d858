"""Recovery: what a crash left open is closed, in the log, where everybody sees it.

At start no run has an owner: the data folder is locked against a second
process. Each orphan is claimed, which fences off whoever might still write,
and ended as ``failed`` with the code ``crashed``. So is a run of this process
whose driver ended without it, which would be a bug, and must not be a hang.
"""

from functools import partial

import structlog

from stellwerk.database.port import Database
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.follow import story
from stellwerk.log.log import Lease, entry, placed
from stellwerk.log.tables import Append
from stellwerk.runs import tables
from stellwerk.stream.endings import crash_ending

logger = structlog.get_logger(__name__)


async def recover(database: Database, log: DurableLog, clock: Clock) -> None:
    """Close every run that a former process left open."""
    if await database.read(lambda tx: tx.row("runs_running")) is not None:
        for orphan in await database.submit(tables.orphans, None, urgent=True):
            await _close(log, clock, orphan)


async def close_broken(database: Database, log: DurableLog, clock: Clock, lease: Lease) -> None:
    """Close a run of this process whose driver ended before it did; nothing, if somebody else has seen to it."""
    for orphan in await database.submit(tables.reclaim_many, lease, urgent=True):
        await _close(log, clock, orphan)


async def _close(log: DurableLog, clock: Clock, orphan: tables.Claimed) -> None:
    lease = orphan.lease
    told = await story(log, tenant=lease.tenant, session_id=lease.session_id, after=orphan.after)
    ending = crash_ending(told, run_id=lease.run_id, ts=clock.now())
    entries = [entry(envelope) for envelope in ending]
    finish = tables.Finish(Append(lease, 1, entries), ending)
    stored = partial(placed, entries=entries)
    await log.commit(tables.finish_many, finish, lease.session_id, stored, urgent=True)
    logger.warning("run_crashed", session=lease.session_id, run=lease.run_id)
