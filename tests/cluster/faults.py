"""What happens to nodes, their network and their database. Each takes a while, and is mended afterwards."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from tests.cluster.fleet import Fleet, FleetNode, faketime, in_thread

SKEW = 300
"""Seconds by which a clock may be wrong, in either direction."""
SLOW = 100
"""Milliseconds before each write to a slow disk; PostgreSQL waits no longer."""
_LEAST, _MOST = 1.3, 2.5
"""Leases that a node is paused or cut from its database."""


@dataclass(frozen=True)
class Strike:
    """One fault: of what kind, whom it hits, and how long it takes."""

    kind: str
    node: FleetNode
    seconds: float
    random: Random


Fault = Callable[[Fleet, Strike], Awaitable[None]]


async def kill(fleet: Fleet, strike: Strike) -> None:
    """kill -9; another process comes at once, or after a while."""
    await strike.node.kill()
    if strike.random.random() < 0.5:
        await strike.node.start()
    else:
        await asyncio.sleep(strike.seconds)


async def pause(fleet: Fleet, strike: Strike) -> None:
    """SIGSTOP beyond the lease, then SIGCONT."""
    strike.node.send_signal(signal.SIGSTOP)
    await asyncio.sleep(strike.seconds)
    strike.node.send_signal(signal.SIGCONT)


async def cut_database(fleet: Fleet, strike: Strike) -> None:
    """The node and its database hear nothing of each other, or find all connections ended."""
    hold = strike.random.random() < 0.5
    for relay in strike.node.database:
        await in_thread(relay.hold if hold else relay.refuse)
    await asyncio.sleep(strike.seconds)


async def cut_clients(fleet: Fleet, strike: Strike) -> None:
    hold = strike.random.random() < 0.5
    await in_thread(strike.node.clients.hold if hold else strike.node.clients.refuse)
    await asyncio.sleep(strike.seconds)


async def cut_both(fleet: Fleet, strike: Strike) -> None:
    for relay in (strike.node.clients, *strike.node.database):
        await in_thread(relay.hold)
    await asyncio.sleep(strike.seconds)


async def restart_database(fleet: Fleet, strike: Strike) -> None:
    """It is killed, and is back within three seconds."""
    await in_thread(fleet.postgres.restart, strike.random.uniform(0.1, 3.0))


async def fail_over(fleet: Fleet, strike: Strike) -> None:
    """It is killed, and its standby is promoted."""
    await in_thread(fleet.postgres.fail_over, strike.random.uniform(0.1, 3.0))


async def term(fleet: Fleet, strike: Strike) -> None:
    """SIGTERM, as in a rolling restart."""
    await strike.node.stop()
    await strike.node.start()


async def skew(fleet: Fleet, strike: Strike) -> None:
    """It comes back with a clock that is wrong, or right again."""
    strike.node.skew = 0 if strike.node.skew else strike.random.choice((-SKEW, SKEW))
    await term(fleet, strike)


async def slow_disk(fleet: Fleet, strike: Strike) -> None:
    await in_thread(fleet.postgres.slow_down, SLOW)
    await asyncio.sleep(strike.seconds)
    await in_thread(fleet.postgres.slow_down, 0)


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "pause": pause,
    "cut database": cut_database,
    "cut clients": cut_clients,
    "cut both": cut_both,
    "restart database": restart_database,
    "failover": fail_over,
    "term": term,
    "skew": skew,
    "slow disk": slow_disk,
}
TAKEN_OVER = ("kill", "pause", "cut database", "cut both")
"""After these, the others take over what the node was driving."""
OF_DATABASE = ("restart database", "failover", "slow disk")
"""These hit all nodes."""


def known(fleet: Fleet) -> list[str]:
    """Those that are possible here."""
    lacking = {"skew": faketime() is None, "failover": len(fleet.postgres.ports) < 2}
    return [kind for kind in FAULTS if not lacking.get(kind)]


def strike(kind: str, fleet: Fleet, random: Random) -> Strike:
    """A fault of that kind, with all that chance decides."""
    node, leases = random.choice(fleet.nodes), random.uniform(_LEAST, _MOST)
    return Strike(kind, node, fleet.lease * leases, Random(random.randrange(10**9)))
