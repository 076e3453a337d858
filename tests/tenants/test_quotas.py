"""Quotas: what is refused at the door, with what was used and when there is room again."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stellwerk.database.port import Database
from stellwerk.documents.files import FolderFiles
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import make_blob
from stellwerk.errors import LimitReached, NotFound, QuotaExceeded
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import CreateSession
from stellwerk.log.notify import WakeUps
from stellwerk.tenants.quotas import DAY, Limits, TenantQuotas, stored_usage
from stellwerk.tenants.tenants import Tenants
from tests.samples import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock(1000 * DAY + 100.0)


@pytest.fixture
async def quotas(database: Database, clock: StillClock) -> TenantQuotas:
    await Tenants(database, clock).make("acme")
    return TenantQuotas(database, clock)


def refused(work: Callable[[], Any]) -> tuple[str, str]:
    """Which limit, with how much of it, and when there is room again."""
    with pytest.raises(LimitReached) as raised:
        work()
    return raised.value.message, raised.value.headers().get("Retry-After", "")


async def test_in_no_minute_there_are_more_requests_than_allowed(quotas: TenantQuotas, clock: StillClock) -> None:
    await quotas.limit("acme", Limits(requests=3, session_requests=2))
    quotas.request("acme", None)
    clock.pass_by(50)
    for _ in range(2):
        quotas.request("acme", "s1")
    said, again = refused(lambda: quotas.request("acme", None))
    assert said.startswith("requests: 3 are used of the 3 requests that your tenant may send in a minute; ")
    assert again == "10"
    quotas.request("other", None)
    clock.pass_by(10)
    said, again = refused(lambda: quotas.request("acme", "s1"))
    assert (said.partition(":")[0], again) == ("session_requests", "50")
    quotas.request("acme", "s2")
    assert refused(lambda: quotas.request("acme", "s3"))[0].startswith("requests:")
    assert (await quotas.used("acme")).requests == 3


@pytest.mark.parametrize("set_by", [-3600, 3600])
async def test_a_clock_that_is_set_neither_locks_a_tenant_out_nor_lets_more_in(
    quotas: TenantQuotas, clock: StillClock, set_by: float
) -> None:
    await quotas.limit("acme", Limits(requests=2, session_requests=2))
    for _ in range(2):
        quotas.request("acme", "s1")
    clock.set_by(set_by)
    assert refused(lambda: quotas.request("acme", "s1"))[1] == "60"
    assert (await quotas.used("acme")).requests == 2
    clock.pass_by(60)
    quotas.request("acme", "s1")
    assert (await quotas.used("acme")).requests == 1


@pytest.mark.parametrize("set_by", [-3600, 7200])
async def test_the_seconds_of_a_run_are_those_that_passed(
    quotas: TenantQuotas, clock: StillClock, set_by: float
) -> None:
    clock.pass_by(DAY / 2)
    await quotas.limit("acme", Limits(seconds=20, session_seconds=20))
    meter = await quotas.run_usage("acme", "s1")
    with meter.running():
        clock.pass_by(5)
        clock.set_by(set_by)
        clock.pass_by(5)
        assert (await quotas.used("acme")).seconds == 10
        meter.check()
        clock.pass_by(10)
        with pytest.raises(QuotaExceeded, match="20 are used of the 20"):
            meter.check()
    assert (await quotas.used("acme")).seconds == 20


async def test_a_stream_holds_its_place_until_it_ends(quotas: TenantQuotas) -> None:
    await quotas.limit("acme", Limits(streams=2, session_streams=1))
    with ExitStack() as opened:
        opened.enter_context(quotas.stream("acme", "s1"))
        assert refused(lambda: quotas.stream("acme", "s1"))[0].startswith("session_streams: 1 are used of the 1 ")
        opened.enter_context(quotas.stream("acme", "s2"))
        assert refused(lambda: quotas.stream("acme", "s3")) == (
            "streams: 2 are used of the 2 streams that your tenant may have open; close one",
            "5",
        )
    assert (await quotas.used("acme")).streams == 0


async def admit(quotas: TenantQuotas, database: Database) -> None:
    """As a message to a session of the tenant is admitted."""
    limits = quotas.limits("acme")
    quotas.admit("acme", await database.read(lambda tx: stored_usage(tx, limits, "acme", "s1")))


async def test_what_is_used_up_today_is_there_again_tomorrow(
    quotas: TenantQuotas, database: Database, clock: StillClock
) -> None:
    await quotas.limit("acme", Limits(tokens=10, seconds=100))
    meter = await quotas.run_usage("acme", "s1")
    with meter.running():
        meter.check()
        meter.spend(12)
        with pytest.raises(QuotaExceeded, match="tokens: 12 are used of the 10 tokens"):
            meter.check()
        with pytest.raises(LimitReached) as door:
            await admit(quotas, database)
        assert door.value.headers() == {"Retry-After": str(DAY - 100)}
        clock.pass_by(DAY - 150)
        await quotas.limit("acme", Limits(seconds=100))
        with pytest.raises(QuotaExceeded, match=f"seconds: {DAY - 150} are used"):
            meter.check()
        clock.pass_by(100)  # it is midnight, and fifty seconds of the run are today's
        meter.check()
    assert (await quotas.used("acme")).seconds == 50
    assert (await quotas.used("acme")).tokens == 0


async def test_files_of_a_run_count_at_once_and_equal_ones_once(
    quotas: TenantQuotas, database: Database, clock: StillClock, tmp_path: Path
) -> None:
    await DurableLog(database, WakeUps()).create(CreateSession("acme", "s1", "demo", 0.0))
    store = DocumentStore(database, FolderFiles(tmp_path / "documents"), clock, quotas.files_changed)
    await quotas.limit("acme", Limits(bytes=100, session_bytes=120))
    meter = await quotas.run_usage("acme", "s1")
    for _ in range(2):
        await store.keep("acme", "s1", [make_blob(b"a" * 60, mime="text/plain", filename="a.txt")])
    meter.check()
    await store.keep("acme", "s1", [make_blob(b"b" * 60, mime="text/plain", filename="b.txt")])
    with pytest.raises(QuotaExceeded, match="bytes: 120 are used of the 100 bytes"):
        meter.check()
    await quotas.limit("acme", Limits(session_bytes=120))
    with pytest.raises(QuotaExceeded, match="session_bytes: 120 are used of the 120 bytes"):
        meter.check()
    with pytest.raises(LimitReached, match="session_bytes: 120"):
        await admit(quotas, database)


async def test_limits_are_kept_and_are_those_of_a_tenant_that_there_is(
    quotas: TenantQuotas, database: Database, clock: StillClock
) -> None:
    with pytest.raises(NotFound):
        await quotas.limit("nobody", Limits(runs=1))
    await quotas.limit("acme", Limits(runs=1, tokens=5))
    await quotas.limit("acme", Limits(runs=0))
    again = TenantQuotas(database, clock)
    await again.open()
    assert again.limits("acme") == Limits(runs=0)
    assert again.limits("other") == Limits()
