"""The audit: who did what, when, from where, and what came of it; never what was said.

One chain for each tenant, apart from the logs of sessions, so that it outlives
them. Each hash covers an entry and the hash before it: whoever changes,
removes or slips in an entry breaks the chain from there on. An entry is committed
with what it records (``audited.py``), or by itself where nothing was stored.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec
import structlog

from stellwerk.database.port import Database, Row, Transaction
from stellwerk.envelope.redaction import Redactors
from stellwerk.errors import StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.tenants.audited import Due, Write
from stellwerk.tenants.principals import Principal

logger = structlog.get_logger(__name__)

OPERATOR = "operator"
_BEGIN = bytes(32)
_PAGE = 500
_LONGEST = 200
"""Characters of an id: whoever asks for something that there is not may call it anything."""
_FORBIDDEN = 403
REFUSALS = 60
"""Of a tenant that are recorded in a minute: whoever is refused over and over does not fill the disk."""
_MINUTE = 60


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    at: float
    who: str
    """The user, or the key if it has none."""
    what: str
    """Method and route: ``DELETE /sessions/{sid}``."""
    outcome: int
    """The status of the answer."""
    on: dict[str, str] = {}
    """The ids that it was about."""
    origin: str = ""
    """The address that asked."""
    key_id: str | None = None


class Recorded(Entry, frozen=True, kw_only=True):
    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of the chain of a tenant: how far it holds."""

    tenant: str
    entries: int
    """Whose order and hashes are right, from the first one."""
    hash: bytes
    """Of the last of them."""
    whole: bool
    """False if others follow, of which the first was changed, or stands where another was."""


class Audit:
    def __init__(self, database: Database, clock: Clock, redactors: Redactors | None = None) -> None:
        self._database, self._clock, self._redactors = database, clock, redactors or Redactors()
        self._refusals: dict[str, tuple[int, int]] = {}
        """By tenant: a minute, and how many there were in it."""

    async def record(self, who: Principal, what: str, outcome: int, *, on: Mapping[str, str], origin: str) -> None:
        """To be called before anybody hears of the outcome."""
        if outcome == _FORBIDDEN and not self._is_new(who.tenant):
            return
        entry = self.entry(who, what, outcome, on=on, origin=origin)
        try:
            await self._database.submit(_append_many, (who.tenant, entry), urgent=True)
        except (StorageFull, StorageGone) as error:  # what was done is done; the operator's log has it at least
            logger.error("audit_not_written", error=error.message, what=what, outcome=outcome, who=entry.who)

    def entry(self, who: Principal, what: str, outcome: int, *, on: Mapping[str, str], origin: str) -> Entry:
        redacted = self._redactors.of(who.tenant).redact_text
        return Entry(
            at=self._clock.now(),
            who=who.user or who.key_id or who.tenant,
            what=what,
            outcome=outcome,
            on={name: redacted(id)[:_LONGEST] for name, id in on.items()},
            origin=origin,
            key_id=who.key_id,
        )

    def due(self, who: Principal, what: str, outcome: int, *, on: Mapping[str, str], origin: str) -> Due:
        """To be recorded with what is done (``audited.recording``)."""

        def compose(ids: Mapping[str, str]) -> Write:
            return writing([(who.tenant, self.entry(who, what, outcome, on={**on, **ids}, origin=origin))])

        return Due(compose)

    def due_of_operator(self, who: Principal, what: str, outcome: int, *, tenant: str) -> Due:
        """The same for what the operator does to a tenant."""
        return Due(lambda ids: writing(self.entries(who, what, outcome, on=ids, origin="", tenant=tenant)))

    def entries(
        self, who: Principal, what: str, outcome: int, *, on: Mapping[str, str], origin: str, tenant: str
    ) -> list[tuple[str, Entry]]:
        """The entry in the chain of the principal; and one in the chain of the tenant, if that is another one."""
        if tenant == who.tenant:
            return [(tenant, self.entry(who, what, outcome, on=on, origin=origin))]
        own = self.entry(who, what, outcome, on={"tenant": tenant, **on}, origin=origin)
        return [(who.tenant, own), (tenant, self.entry(_operator(tenant), what, outcome, on=on, origin=""))]

    async def record_for(self, tenant: str, what: str, outcome: int, *, on: Mapping[str, str]) -> None:
        """What whoever runs the server did to a tenant. Who that was and from where is in his own chain."""
        await self.record(_operator(tenant), what, outcome, on=on, origin="")

    def _is_new(self, tenant: str) -> bool:
        minute = int(self._clock.now() // _MINUTE)
        before, count = self._refusals.get(tenant, (minute, 0))
        self._refusals[tenant] = minute, count + 1 if before == minute else 1
        return self._refusals[tenant][1] <= REFUSALS

    async def page(self, tenant: str, *, after: int, limit: int) -> list[Recorded]:
        rows = await self._database.read(lambda tx: tx.rows("audit_page", tenant, after, limit))
        return [_recorded(row) for row in rows]


def writing(entries: Sequence[tuple[str, Entry]]) -> Write:
    """Each in the chain of its tenant."""
    return partial(_append_all, entries)


def _operator(tenant: str) -> Principal:
    """The operator, as the tenant sees it."""
    return Principal(tenant, "admin", OPERATOR)


def verdict(tx: Transaction, tenant: str) -> Verdict:
    before, last = _BEGIN, 0
    for number, entry, hashed in _chain(tx, tenant):
        sound = number == last + 1 and isinstance(entry, bytes)  # whoever writes into a database may change types, too
        if not sound or _hash(tenant, number, before, entry) != hashed:
            return Verdict(tenant, last, before, whole=False)
        before, last = hashed, number
    return Verdict(tenant, last, before, whole=last > 0)  # that a tenant was made is its first entry


def _chain(tx: Transaction, tenant: str) -> Iterator[Row]:
    last = 0
    while page := tx.rows("audit_page", tenant, last, _PAGE):
        yield from page
        last = page[-1][0]


def _append_many(tx: Transaction, items: Sequence[tuple[str, Entry]]) -> list[None | Exception]:
    _append_all(items, tx)
    return [None] * len(items)


def _append_all(items: Sequence[tuple[str, Entry]], tx: Transaction) -> None:
    for tenant, entry in items:
        last = tx.row("last_audit", tenant) or (0, _BEGIN)
        body, number = msgspec.json.encode(entry), last[0] + 1
        tx.run("insert_audit", tenant, number, body, _hash(tenant, number, last[1], body))


def _hash(tenant: str, number: int, before: bytes, entry: bytes) -> bytes:
    return hashlib.sha256(b"%b\0%d\0%b%b" % (tenant.encode(), number, before, entry)).digest()


def _recorded(row: Row) -> Recorded:
    number, body, hashed = row
    entry = msgspec.json.decode(body, type=Entry)
    fields = {name: getattr(entry, name) for name in Entry.__struct_fields__}
    return Recorded(**fields, number=number, hash=hashed.hex())
