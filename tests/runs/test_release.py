"""A run that is put back into the queue goes on as a paused one only if it was paused."""

import asyncio
from pathlib import Path

from stellwerk.app import _services
from stellwerk.log.notify import WakeUps
from stellwerk.runs import transactions
from stellwerk.settings import Settings
from stellwerk.tenants.principals import LOCAL_TENANT


async def test_a_run_that_lost_its_driver_is_still_cut_off_after_it_was_put_back(tmp_path: Path) -> None:
    async with _services(Settings(data=tmp_path, demo=True), WakeUps(), {}) as services, asyncio.timeout(60):
        database = services.database
        session = await services.sessions.begin(LOCAL_TENANT, "demo", None)
        await services.sessions.send(LOCAL_TENANT, session.id, "slow")

        async def put_back(*, paused: bool) -> transactions.ClaimedRun:
            (lease,) = await database.submit(transactions.running_many, None)
            assert await database.submit(transactions.release_many, transactions.Release(lease, 0.0, paused))
            (claimed,) = await database.submit(transactions.claim_many, (1, 0.0))
            return claimed

        assert (await put_back(paused=False)).cut_off
        assert not (await put_back(paused=True)).cut_off
        assert (await put_back(paused=False)).cut_off, "its driver had the run in between"
