"""Recovery: what a crash left open goes on, or is closed in the log, where everybody sees it.

At start no run has an owner: the data folder is locked against a second
process. Each orphan is claimed, which fences off whoever might still write,
and driven on by the runner. A run of this process whose driver ended without
it, which would be a bug and must not be a hang, is closed as ``crashed``. So
is, by the same function, one that somebody stopped.
"""

import structlog

from stellwerk.agents.checkpoint_reconciling import waiting_messages
from stellwerk.database.port import Database
from stellwerk.envelope.model import RunEnd
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import entry
from stellwerk.log.tables import Append
from stellwerk.runs import tables
from stellwerk.runs.assignment import assignment
from stellwerk.runs.finishing import Finish, finish_many
from stellwerk.stream.endings import crash_ending, stop_ending

logger = structlog.get_logger(__name__)


async def orphans(database: Database, clock: Clock) -> list[tables.Claimed]:
    """Every run that a former process left open; ours from now on."""
    if await database.read(lambda tx: tx.row("runs_running")) is None:
        return []
    return await database.submit(tables.orphans, clock.now(), urgent=True)


async def close(database: Database, log: DurableLog, clock: Clock, claimed: tables.Claimed) -> int:
    """End a run that nobody drives: as stopped, if somebody asked for that, else as crashed. The end's position."""
    lease = claimed.lease
    work = await assignment(log, database, claimed)
    waiting = await waiting_messages(database, lease.tenant, lease.run_id)
    if work.stop is None:
        ending = crash_ending(work.history, run_id=lease.run_id, ts=clock.now(), waiting=waiting)
        logger.warning("run_crashed", session=lease.session_id, run=lease.run_id)
    else:
        ending = stop_ending(work.history, work.stop.payload, run_id=lease.run_id, ts=clock.now(), waiting=waiting)
        logger.info("run_stopped", session=lease.session_id, run=lease.run_id)
    entries = [entry(envelope) for envelope in ending]
    finish = Finish(Append(lease, 1, entries), [e for e in ending if isinstance(e, RunEnd)])
    done = await log.commit(finish_many, finish, lease.session_id, lambda done: done.stored, urgent=True)
    return done.position
