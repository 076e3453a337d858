"""API keys: ``sw_<id>_<secret>``. The id finds the key, the secret proves it; only its digest is kept.

A secret is 256 bits of chance, so a plain SHA-256 of it is enough: there is
nothing to guess. All keys are held in memory, because every request asks.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stellwerk.database.port import Database, Row, Transaction
from stellwerk.errors import Conflict, NotFound
from stellwerk.ids import Clock, chance
from stellwerk.tenants.principals import Principal, Role, Scope

_TOKEN = re.compile(r"sw_([0-9A-Za-z]{12})_([0-9A-Za-z]{43})")
_NOBODY = hashlib.sha256(b"").digest()
_VALID_AT_ONCE = 2
"""Of one name: the one in use, and the one that takes its place."""
AT_MOST = 1000
"""Of one tenant, as all are held in memory; of those that are valid no longer, the oldest make room."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    tenant: str
    name: str
    user: str | None
    role: Role
    scopes: tuple[Scope, ...] | None
    hash: bytes
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    last_used: float | None = None

    def valid(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def principal(self) -> Principal:
        scopes = None if self.scopes is None else frozenset(self.scopes)
        return Principal(self.tenant, self.role, self.user, scopes, self.id)


class Keys:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._known: dict[str, ApiKey] = {}
        self._used: dict[str, float] = {}
        self._listeners: list[Callable[[], None]] = []

    async def open(self) -> None:
        self._known = {key.id: key for key in map(_key, await self._database.read(lambda tx: tx.rows("keys")))}

    @property
    def asked_for(self) -> bool:
        """Whether one must be shown: from the first that was made, even if it is valid no longer."""
        return bool(self._known)

    def principal(self, token: str) -> Principal | None:
        """Whose token this is; takes as long for a wrong secret as for a wrong id."""
        parts = _TOKEN.fullmatch(token)
        key = self._known.get(parts[1]) if parts else None
        digest = hashlib.sha256(parts[2].encode() if parts else b"-").digest()
        proven = hmac.compare_digest(digest, _NOBODY if key is None else key.hash)
        if key is None or not proven or not key.valid(self._clock.now()):
            return None
        self._used[key.id] = self._clock.now()
        return key.principal()

    def holds(self, principal: Principal) -> bool:
        """Whether what was shown when a stream began would still be taken."""
        now = self._clock.now()
        if principal.key_id is None:
            return principal.until is None or now < principal.until
        key = self._known.get(principal.key_id)
        return key is not None and key.valid(now)

    def of(self, tenant: str) -> list[ApiKey]:
        """With when each was used last, as far as this process knows."""
        mine = (key for key in self._known.values() if key.tenant == tenant)
        return [replace(key, last_used=self._used.get(key.id, key.last_used)) for key in mine]

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
    ) -> tuple[ApiKey, str]:
        """A new key, and the token that is told this once.

        Raises:
            Conflict: two of this name are valid already, or as many as a tenant may have.
            NotFound: there is no such tenant.
        """
        id, secret, now = chance(12), chance(43), self._clock.now()
        digest = hashlib.sha256(secret.encode()).digest()
        until = None if expires_in is None else now + expires_in
        made = ApiKey(id, tenant, name, user, role, scopes, digest, created_at=now, expires_at=until)
        gone = await self._database.submit(insert_many, made)
        is_first = not self._known
        for old in gone:
            self._known.pop(old, None)
        self._known[id] = made
        if is_first:  # who was let in without one is so no longer
            self._tell_listeners()
        return made, f"sw_{id}_{secret}"

    async def revoke(self, tenant: str, key_id: str) -> None:
        """From now on it opens nothing, and what it has opened is closed. Once more changes nothing.

        Raises:
            NotFound: this tenant has no such key.
        """
        key = self._known.get(key_id)
        if key is None or key.tenant != tenant:
            raise NotFound("key", key_id, remedy="GET /keys lists those that there are")
        now = self._clock.now()
        await self._database.submit(revoke_many, (tenant, key_id, now), urgent=True)
        if self._known[key_id].revoked_at is None:  # also if it was stored before, and we were cut off
            self._known[key_id] = replace(self._known[key_id], revoked_at=now)
            self._tell_listeners()

    def when_revoked(self, listener: Callable[[], None]) -> None:
        """Also when the first one is made, which closes the server for whoever has none."""
        self._listeners.append(listener)

    def _tell_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    async def keep_uses(self) -> None:
        """Store when keys were used; to be called now and then."""
        used, self._used = self._used, {}
        for key_id in used.keys() & self._known.keys():
            self._known[key_id] = replace(self._known[key_id], last_used=used[key_id])
        if used:
            await self._database.submit(_used_many, list(used.items()))


def insert_many(tx: Transaction, keys: Sequence[ApiKey]) -> list[list[str] | Exception]:
    return [_insert(tx, key) for key in keys]


def _insert(tx: Transaction, key: ApiKey) -> list[str] | Exception:
    """Which ones made room for it."""
    valid = tx.row("valid_keys_named", key.tenant, key.name, key.created_at)
    if valid is not None and valid[0] >= _VALID_AT_ONCE:
        said = f"two keys named {key.name!r} are valid already; revoke the older one, or choose another name"
        return Conflict(said, code="two_keys_valid")
    scopes = None if key.scopes is None else ",".join(key.scopes)
    values = (key.id, key.tenant, key.name, key.user, key.role, scopes, key.hash, key.created_at, key.expires_at)
    count = tx.row("count_keys", key.tenant)
    gone = tx.rows("drop_invalid_key", key.tenant, key.created_at) if count and count[0] >= AT_MOST else []
    if not gone and count is not None and count[0] >= AT_MOST:
        return Conflict(f"a tenant has at most {AT_MOST} keys; revoke those that nobody uses", code="too_many_keys")
    if not tx.run("insert_key", *values):
        return NotFound("tenant", key.tenant, remedy="GET /tenants lists those that there are")
    return [old for (old,) in gone]


def revoke_many(tx: Transaction, items: Sequence[tuple[str, str, float]]) -> list[None | Exception]:
    tx.run_many("revoke_key", items)
    return [None] * len(items)


def _used_many(tx: Transaction, items: Sequence[list[tuple[str, float]]]) -> list[None | Exception]:
    for item in items:
        tx.run_many("key_was_used", item)
    return [None] * len(items)


def _key(row: Row) -> ApiKey:
    id, tenant, name, user, role, scopes, *rest = row
    return ApiKey(id, tenant, name, user, role, None if scopes is None else tuple(scopes.split(",")), *rest)
