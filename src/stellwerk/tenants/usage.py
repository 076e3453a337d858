"""Usage: what was used, by day, user, system and model. It is counted when runs end, and outlives their sessions."""

from datetime import UTC, datetime

import msgspec

from stellwerk.database.port import Database
from stellwerk.ids import Clock
from stellwerk.tenants.limits import DAY


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Of one day (UTC). ``model`` is null where no model is meant: runs, seconds, tool calls."""

    day: str
    user: str | None
    system: str
    model: str | None
    model_calls: int
    input_tokens: int
    output_tokens: int
    tool_calls: int
    runs: int
    seconds: float


def day_of(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"


class UsageBook:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    async def page(self, tenant: str, *, days: int, after: int, limit: int) -> list[UsageRow]:
        """Of the last days, the newest first; ``after`` is how many rows were seen."""
        since = day_of(self._clock.now() - (days - 1) * DAY)
        rows = await self._database.read(lambda tx: tx.rows("usage_page", tenant, since, limit, after))
        return [
            UsageRow(
                day=day,
                user=user or None,
                system=system,
                model=model or None,
                model_calls=calls,
                input_tokens=sent,
                output_tokens=got,
                tool_calls=tools,
                runs=runs,
                seconds=round(seconds, 3),
            )
            for day, user, system, model, calls, sent, got, tools, runs, seconds in rows
        ]
