"""Follow a log: read, then wait, then read again, without gap or repetition.

The watch begins before the first read, so that nothing can fall between them.
"""

from collections.abc import AsyncGenerator

from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, decode
from stellwerk.log.durable import DurableLog
from stellwerk.log.notify import WakeUps

PAGE = 500


async def read_envelopes(
    log: DurableLog, *, tenant: str, session_id: str, after: int = 0, before: int | None = None
) -> list[Envelope]:
    """What is stored behind ``after``, and in front of ``before`` if that is given."""
    found: list[Envelope] = []
    limit = PAGE
    while before is None or (limit := min(PAGE, before - after - 1)) > 0:
        page = await log.read(tenant, session_id, after=after, limit=limit)
        if not page:
            break
        found += [decode(stored.body) for stored in page]
        after = page[-1].position
    return found


async def follow(
    log: DurableLog, wakes: WakeUps, *, tenant: str, session_id: str, after: int
) -> AsyncGenerator[list[Stored], None]:
    """Yield what is behind ``after``, then whatever comes, until the session is deleted.

    An empty list says that nothing has happened for a while.
    """
    with wakes.watch(session_id) as channel:
        while not channel.gone:
            while batch := channel.since(after) or await log.read(tenant, session_id, after=after, limit=PAGE):
                after = batch[-1].position
                yield batch
                if after == channel.head:
                    break  # the tail says that there is no more; the log need not be asked
            while not await channel.beyond(after):
                yield []
