"""Which runs are this node's: what it drives is compared with the run table.

Its row says who drives a run, and the epoch in it fences everyone else. A driver whose run has gone
elsewhere could write nothing more; here it is ended at once. A run of this node that nothing drives
goes back into the queue, and the runs of nodes that are gone are taken over.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stellwerk.cluster.member import Member
from stellwerk.database.port import Database, Transaction
from stellwerk.log.log import Lease
from stellwerk.runs.scheduler import Scheduler, SessionStorage

if TYPE_CHECKING:
    from stellwerk.cluster.cluster import Cluster


def own_runs(cluster: "Cluster", storage: SessionStorage, scheduler: Scheduler) -> None:
    """From here on this node and the others hear of each other's writes, and take over each other's runs."""
    ownership = Ownership(storage.database, scheduler, cluster)
    storage.log.announce = cluster.announce_session
    cluster.on_written = ownership.written
    cluster.on_waiting = scheduler.claim_here
    cluster.on_look = ownership.look
    cluster.start()


class _Seen(NamedTuple):
    epochs: dict[str, int]
    """Of the runs that are driven here."""
    mine: list[Lease]
    """Running, by the table, on this node."""
    has_orphans: bool


class Ownership:
    def __init__(self, database: Database, scheduler: Scheduler, node: Member) -> None:
        self._database, self._scheduler, self._node = database, scheduler, node
        self._undriven: set[Lease] = set()
        """As the last look found them."""

    async def written(self, sessions: Collection[str]) -> None:
        """Another node has written these sessions: it may have stopped or deleted what is driven here."""
        driven = self._scheduler.driven()
        if concerned := [driven[session_id] for session_id in sessions if session_id in driven]:
            self._end_lost(concerned, await self._look(concerned))

    async def look(self) -> None:
        """Once a second: what is lost, what is left over, and what others have left."""
        driven = [*self._scheduler.driven().values()]
        seen = await self._look(driven)
        self._end_lost(driven, seen)
        await self._put_back_strays(seen.mine)
        if seen.has_orphans and self._node.is_steady and self._scheduler.free:
            self._node.count_taken_over(await self._scheduler.take_over())

    async def _look(self, driven: Collection[Lease]) -> _Seen:
        names = msgspec.json.encode([lease.run_id for lease in driven]).decode()

        def read(tx: Transaction) -> _Seen:
            epochs = {run_id: epoch for run_id, _, epoch in tx.rows("states_of_runs", names)}
            mine = [Lease(*row) for row in tx.rows("leases_running")]
            return _Seen(epochs, mine, has_orphans=tx.row("orphans", 1) is not None)

        return await self._database.read(read)

    def _end_lost(self, driven: Collection[Lease], seen: _Seen) -> None:
        """With its own epoch in the table, a run that is over or waits was brought there by its driver."""
        lost = [lease for lease in driven if seen.epochs.get(lease.run_id) not in (lease.epoch, 0)]
        for lease in lost:
            self._scheduler.lose(lease)
        if lost:
            self._node.count_lost(len(lost))
            self._scheduler.claim()

    async def _put_back_strays(self, mine: Collection[Lease]) -> None:
        """Twice in a row: the acknowledgement of a claim may still be under way."""
        driven = {*self._scheduler.driven().values()}
        undriven = {
            lease for lease in mine if lease not in driven and not self._scheduler.is_closing_run(lease.session_id)
        }
        strays, self._undriven = undriven & self._undriven, undriven
        for lease in strays:
            await self._scheduler.put_back(lease)
        if strays:
            self._node.count_strays(len(strays))
            self._scheduler.claim()
