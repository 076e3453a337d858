"""Stream tickets: they stand in the URL of an EventSource, which can send no header with a key.

URLs are logged, so a ticket is for one session, for one use, for half a minute. All are
in memory; a restart forgets them.
"""

from collections import Counter
from dataclasses import dataclass

from stellwerk.errors import Overloaded
from stellwerk.ids import Clock, random_token
from stellwerk.tenants.principals import Principal

LASTS = 30.0
AT_ONCE = 1000  # of one tenant, so that one tenant cannot use up those of others


@dataclass(frozen=True, slots=True)
class Ticket:
    value: str
    session_id: str
    holder: Principal
    until: float
    """Shown to clients. ``ends`` decides, as its clock cannot be set."""
    ends: float


class Tickets:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[str, Ticket] = {}  # the oldest first, as all last equally long
        self._of_tenants: Counter[str] = Counter()

    def issue(self, holder: Principal, session_id: str) -> Ticket:
        now = self._clock.steady()
        while self._issued and (oldest := next(iter(self._issued.values()))).ends <= now:
            self._forget(oldest)
        if self._of_tenants[holder.tenant] >= AT_ONCE:
            said = "your tenant has too many tickets that are not used; send this again in a few seconds"
            raise Overloaded(said)
        ticket = Ticket(random_token(43), session_id, holder, self._clock.now() + LASTS, now + LASTS)
        self._issued[ticket.value] = ticket
        self._of_tenants[holder.tenant] += 1
        return ticket

    def redeem(self, value: str, session_id: str) -> Principal | None:
        """Its principal, if it is valid for this session. Every attempt uses it up."""
        ticket = self._issued.get(value)
        if ticket is None:
            return None
        self._forget(ticket)
        is_valid = ticket.session_id == session_id and self._clock.steady() < ticket.ends
        return ticket.holder if is_valid else None

    def _forget(self, ticket: Ticket) -> None:
        del self._issued[ticket.value]
        self._of_tenants[ticket.holder.tenant] -= 1
