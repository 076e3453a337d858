"""API keys: ``sw_<id>_<secret>``. The id finds the key, the secret proves it; only its digest is kept.

A secret has 256 random bits, so a plain SHA-256 of it is enough. All keys are held in memory,
because every request needs one.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from stellwerk.database.port import Database, Lock, Row, Transaction, locking
from stellwerk.errors import Conflict, NotFound
from stellwerk.ids import Clock, random_token
from stellwerk.tenants.principals import Principal, Role, Scope, unknown_tenant
from stellwerk.tenants.quotas import count_rows

_TOKEN = re.compile(r"sw_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})")
_NO_KEY = hashlib.sha256(b"").digest()
_VALID_AT_ONCE = 2  # of one name: the one in use, and the one that takes its place
AT_MOST = 1000  # of one tenant; of those that are no longer valid, the oldest makes room


class KeyInfo(Struct, frozen=True):
    """A key without its secret, which is not stored."""

    id: str
    tenant: str
    name: str
    user: str | None
    role: Role
    scopes: tuple[Scope, ...] | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used: float | None

    def valid(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def principal(self) -> Principal:
        scopes = None if self.scopes is None else frozenset(self.scopes)
        return Principal(self.tenant, self.role, self.user, scopes, self.id)


class ApiKeys:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, KeyInfo] = {}
        self._digests: dict[str, bytes] = {}
        self._used: dict[str, float] = {}
        self._listeners: list[Callable[[], None]] = []
        self._changes = 0
        """Made or revoked by this process."""

    async def open(self) -> None:
        """Read the keys; again when another node has made or revoked some."""
        while True:
            changes = self._changes
            rows = await self._database.read(lambda tx: tx.rows("keys"))
            if changes == self._changes:  # else it may lack what was just changed here
                break
        self._known.clear()
        for id, tenant, name, user, role, scopes, digest, *times in rows:
            limited_to = None if scopes is None else tuple(scopes.split(","))
            self._known[id] = KeyInfo(id, tenant, name, user, role, limited_to, *times)
            self._digests[id] = digest
        self._notify()

    @property
    def asked_for(self) -> bool:
        """Whether requests need a key: from the first one on, even if it is no longer valid."""
        return bool(self._known)

    def principal(self, token: str) -> Principal | None:
        """Whose token this is; takes as long for a wrong secret as for a wrong id."""
        parts = _TOKEN.fullmatch(token)
        id, secret = parts.groups() if parts else ("", "-")
        key = self._known.get(id)
        proven = hmac.compare_digest(_digest(secret), self._digests.get(id, _NO_KEY))
        if key is None or not proven or not key.valid(self._clock.now()):
            return None
        self._used[key.id] = self._clock.now()
        return key.principal()

    def holds(self, principal: Principal) -> bool:
        """Whether the credential of an open stream is still valid."""
        now = self._clock.now()
        if principal.key_id is None:
            return principal.until is None or now < principal.until
        key = self._known.get(principal.key_id)
        return key is not None and key.valid(now)

    def of(self, tenant: str) -> list[KeyInfo]:
        """With when each was used last, as far as this process knows."""
        mine = (key for key in self._known.values() if key.tenant == tenant)
        return [structs.replace(key, last_used=self._used.get(key.id, key.last_used)) for key in mine]

    def is_last(self, tenant: str, key_id: str) -> bool:
        """Whether this is the only valid key by which the tenant can make others."""
        now = self._clock.now()
        mine = (key for key in self._known.values() if key.tenant == tenant and key.valid(now))
        return [key.id for key in mine if key.principal().may("administer")] == [key_id]

    async def make(
        self,
        *,
        tenant: str,
        name: str,
        role: Role,
        user: str | None = None,
        scopes: tuple[Scope, ...] | None = None,
        expires_in: float | None = None,
    ) -> tuple[KeyInfo, str]:
        """A new key, and its token, which is shown only now."""
        id, secret, now = random_token(12), random_token(43), self._clock.now()
        until = None if expires_in is None else now + expires_in
        made = KeyInfo(id, tenant, name, user, role, scopes, now, until, None, None)
        digest = _digest(secret)
        gone = await self._database.submit(insert_many, (made, digest))
        self._changes += 1
        is_first = not self._known
        for old in gone:
            self._known.pop(old, None)
        self._known[id] = made
        self._digests[id] = digest
        if is_first:  # requests without a key are rejected from now on
            self._notify()
        return made, f"sw_{id}_{secret}"

    async def revoke(self, tenant: str, key_id: str) -> None:
        """From now on it opens nothing, and its streams are closed."""
        key = self._known.get(key_id)
        if key is None or key.tenant != tenant:
            raise NotFound("key", key_id, remedy="GET /keys lists the keys")
        now = self._clock.now()
        await self._database.submit(revoke_many, (tenant, key_id, now), urgent=True)
        self._changes += 1
        if key.revoked_at is None:  # also if it was stored before, and we were cut off
            self._known[key_id] = structs.replace(self._known.get(key_id, key), revoked_at=now)
            self._notify()

    def when_revoked(self, listener: Callable[[], None]) -> None:
        """Also called for the first key, which closes the server to requests without one."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    async def keep_uses(self) -> None:
        """Store when keys were used; to be called now and then."""
        used, self._used = self._used, {}
        for key_id in used.keys() & self._known.keys():
            self._known[key_id] = structs.replace(self._known[key_id], last_used=used[key_id])
        if used:
            await self._database.submit(_used_many, list(used.items()))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


@locking(lambda item: [Lock("keys", item[0].tenant)])
def insert_many(tx: Transaction, items: Sequence[tuple[KeyInfo, bytes]]) -> list[list[str] | Exception]:
    return [_insert(tx, *item) for item in items]


def _insert(tx: Transaction, key: KeyInfo, digest: bytes) -> list[str] | Exception:
    """Returns the ids of those that made room for it."""
    if count_rows(tx, "valid_keys_named", key.tenant, key.name, key.created_at) >= _VALID_AT_ONCE:
        remedy = "revoke the older one, or choose another name"
        return Conflict(f"two keys named {key.name!r} are valid already; {remedy}", code="two_keys_valid")
    gone: Sequence[Row] = ()
    if count_rows(tx, "count_keys", key.tenant) >= AT_MOST:
        gone = tx.rows("drop_invalid_key", key.tenant, key.created_at)
        if not gone:
            said = f"a tenant has at most {AT_MOST} keys; revoke unused ones"
            return Conflict(said, code="too_many_keys")
    scopes = None if key.scopes is None else ",".join(key.scopes)
    owner = (key.id, key.tenant, key.name, key.user, key.role, scopes)
    if not tx.run("insert_key", *owner, digest, key.created_at, key.expires_at):
        return unknown_tenant(key.tenant)
    return [old for (old,) in gone]


@locking(lambda item: [Lock("keys", item[0])])
def revoke_many(tx: Transaction, items: Sequence[tuple[str, str, float]]) -> list[None | Exception]:
    tx.run_many("revoke_key", items)
    return [None] * len(items)


def _used_many(tx: Transaction, items: Sequence[list[tuple[str, float]]]) -> list[None | Exception]:
    for item in items:
        tx.run_many("key_was_used", item)
    return [None] * len(items)
