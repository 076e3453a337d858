"""Secrets of a tenant or of one of its agent systems: stored encrypted, used, and never shown.

Each is sealed for its tenant, system and name, so that a moved row cannot be opened. All are
held in memory, because redaction searches every text for them.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import structlog
from msgspec import Struct
from pydantic import SecretStr

from stellwerk.database.port import Database, Lock, Row, Transaction, locking
from stellwerk.errors import Conflict, InvalidField, NotFound, SettingsError, StorageGone
from stellwerk.ids import Clock
from stellwerk.redaction.redactor import Redactors
from stellwerk.tenants.master_key import KeyFile, KeySource, MasterKeys, Unopened
from stellwerk.tenants.quotas import count_rows
from stellwerk.threads import in_thread

logger = structlog.get_logger(__name__)
R = TypeVar("R")

MOST = 100  # secrets of one tenant: whatever is written is searched for each of them
MOST_CHARACTERS = 65_536
"""Of all secrets of one tenant together: each is held in memory in up to twenty forms."""
SHORTEST, LONGEST = 8, 8192
"""Characters. A shorter one would be found in texts that mean something else."""
_SECRETS = Lock("secrets")
_REMEMBERED = 20  # replaced or deleted values that are still redacted: a run may be using them
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PLAIN_WORD = re.compile(r"[a-z_. -]{1,24}")
"""Words that occur in every log, such as ``tool_start``: they cannot be redacted."""


class SecretName(NamedTuple):
    tenant: str
    system: str  # empty for one that all agent systems of the tenant use
    name: str

    def about(self) -> bytes:
        return "|".join(self).encode()


class SecretInfo(Struct, frozen=True):
    """A secret without its value, which is never shown."""

    name: str
    agent_system_id: str | None  # None if all agent systems of the tenant use it
    created_at: float
    updated_at: float
    readable: bool  # False if no master key of the server decrypts it; store it again


class SecretsRotated(Struct, frozen=True):
    key: str  # the id of the master key that encrypts from now on
    sealed: int
    left: int
    """Those that could not be decrypted; as long as there are any, the old keys are needed."""
    changed: bool  # False if the command printed the same master key as before


_OTHER_KEY = (
    "the secrets in the database are sealed with a master key that this node has not; let all nodes have one "
    "STELLWERK_MASTER_KEY_COMMAND, or copy master.key of the node that stored them into this data folder"
)


@dataclass(frozen=True, slots=True)
class _Sealed:
    place: SecretName
    key: str
    sealed: bytes
    at: float
    known: frozenset[str] | None
    """The keys that this node has; None where there is only one node."""


class Secrets:
    """Made by ``open_secrets``."""

    def __init__(
        self,
        database: Database,
        source: KeySource,
        keys: MasterKeys,
        redactors: Redactors,
        clock: Clock,
        *,
        is_shared: bool = False,
    ) -> None:
        self._database, self._is_shared = database, is_shared
        self._source = source
        self._keys = keys
        self._redactors = redactors
        self._clock = clock
        self.most_characters = MOST_CHARACTERS
        self._values: dict[SecretName, SecretStr] = {}
        self._gone: dict[str, deque[SecretStr]] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    def open(self, rows: Iterable[Row]) -> None:
        for tenant, system, name, key, sealed in rows:
            place = SecretName(tenant, system, name)
            try:
                self._values[place] = SecretStr(self._keys.open(key, sealed, place.about()))
            except Unopened as error:
                logger.error("secret_not_opened", tenant=tenant, system=system, name=name, reason=str(error))
        for tenant in {place.tenant for place in self._values}:
            self._redact(tenant)

    def derived_keys(self, purpose: str) -> Sequence[bytes]:
        """Keys that are the same after a restart; the first one seals."""
        return self._keys.derived(purpose)

    def find(self, tenant: str, system: str, name: str) -> str | None:
        """That of the system, or else that of the tenant."""
        for place in (SecretName(tenant, system, name), SecretName(tenant, "", name)):
            if place in self._values:
                return self._values[place].get_secret_value()
        return None

    def _redact(self, tenant: str) -> None:
        """Redact what is stored, and what was until a short while ago."""
        held = [value for place, value in self._values.items() if place.tenant == tenant]
        gone = self._gone.get(tenant, ())
        self._redactors.set_secrets(tenant, [value.get_secret_value() for value in (*held, *gone)])

    def when_changed(self, listener: Callable[[str], None]) -> None:
        """The listener gets the name of the tenant."""
        self._listeners.append(listener)

    async def list(self, tenant: str) -> list[SecretInfo]:
        async with self._changing:  # one that was just stored is not known yet
            rows = await self._database.read(lambda tx: tx.rows("secrets_of", tenant))
            return [
                SecretInfo(name, system or None, created, updated, (tenant, system, name) in self._values)
                for system, name, created, updated in rows
            ]

    async def put(self, tenant: str, name: str, value: str, *, system: str | None = None) -> None:
        """Store it, in the place of what is stored there."""
        place = SecretName(tenant, system or "", _checked_name(name))
        await self._whole(self._put(place, _checked_value(value)))

    async def _put(self, place: SecretName, value: str) -> None:
        async with self._changing:
            self._refuse_too_long(place, value)
            known = frozenset(self._keys.names) if self._is_shared else None
            sealed = _Sealed(place, *self._keys.seal(value, place.about()), self._clock.now(), known)
            await self._database.submit(put_many, sealed)
            self._replace(place, SecretStr(value))

    def _refuse_too_long(self, place: SecretName, value: str) -> None:
        """One that replaces another may always be as long as that: an earlier version took more."""
        sizes = {at: len(each) for at, each in self._values.items() if at.tenant == place.tenant}
        before = sum(sizes.values())
        after = before - sizes.get(place, 0) + len(value)
        if after > max(self.most_characters, before):
            limit = f"the secrets of a tenant have at most {self.most_characters} characters together"
            remedy = "delete one that is not used"
            raise Conflict(f"{limit}, and with this one {after}; {remedy}", code="too_many_secrets")

    async def delete(self, tenant: str, name: str, *, system: str | None = None) -> None:
        await self._whole(self._delete(SecretName(tenant, system or "", name)))

    async def _delete(self, place: SecretName) -> None:
        async with self._changing:
            if not await self._database.submit(delete_many, place, urgent=True):
                raise NotFound("secret", place.name, remedy="GET /secrets lists the secrets")
            self._replace(place, None)

    async def rotate(self) -> SecretsRotated:
        """Seal every secret again, with a new master key, or with the first one that the command prints now.

        After an interruption everything can still be opened, and the rotation can be repeated.
        """
        return await self._whole(self._rotate())

    async def _rotate(self) -> SecretsRotated:
        async with self._changing:
            before = self._keys.current
            self._keys = keys = await in_thread(self._source.begin)
            sealed, left = await self._database.submit(rewrap_many, keys)
            if not left:
                await in_thread(self._source.finish, keys)
            await self._database.truncate()
            is_changed = sealed > 0 or keys.current != before
            return SecretsRotated(keys.current, sealed, left, is_changed)

    async def _whole(self, change: Coroutine[Any, Any, R]) -> R:
        """In a task of its own: a cancelled caller must not leave memory and database different."""
        changing = asyncio.create_task(change)
        self._under_way.add(changing)
        changing.add_done_callback(self._under_way.discard)
        return await asyncio.shield(changing)

    def _replace(self, place: SecretName, value: SecretStr | None) -> None:
        before = self._values.pop(place, None)
        if before is not None:
            self._gone.setdefault(place.tenant, deque(maxlen=_REMEMBERED)).append(before)
        if value is not None:
            self._values[place] = value
        self._redact(place.tenant)
        for listener in self._listeners:
            listener(place.tenant)


async def open_secrets(
    database: Database, source: KeySource, redactors: Redactors, clock: Clock, *, is_shared: bool = False
) -> Secrets:
    """All that are stored; from now on the redactors know them.

    Raises:
        SettingsError: there is no usable key; or several nodes share the database (``is_shared``),
            and others have sealed secrets with a key that this one has not.
    """
    rows = await database.read(lambda tx: tx.rows("sealed_secrets"))
    if is_shared and rows and isinstance(source, KeyFile) and not source.path.exists():
        raise SettingsError(_OTHER_KEY)
    keys = await in_thread(source.read, may_make=not rows)
    if is_shared and not {key for *_, key, _ in rows} <= {*keys.names}:
        raise SettingsError(_OTHER_KEY)
    secrets = Secrets(database, source, keys, redactors, clock, is_shared=is_shared)
    secrets.open(rows)
    return secrets


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        said = "small letters, digits and underscores, a letter first, 64 at most"
        raise InvalidField(f"name: {name[:80]!r} cannot be a secret's; {said}", field="name")
    return name


def _checked_value(value: str) -> str:
    value = value.strip()
    if not SHORTEST <= len(value) <= LONGEST:
        said = f"a secret has {SHORTEST} to {LONGEST} characters, without the white space around it"
        raise InvalidField(f"value: {said}; a shorter one would be found everywhere", field="value")
    if _PLAIN_WORD.fullmatch(value):
        said = "value: this is a plain word; take one with digits or capitals in it"
        raise InvalidField(said, field="value")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        said = "value: there is a character in it that no text has; take it out"
        raise InvalidField(said, field="value")
    return value


@locking(lambda _: [_SECRETS])
def put_many(tx: Transaction, items: Sequence[_Sealed]) -> list[None | Exception]:
    return [_put(tx, item) for item in items]


def _put(tx: Transaction, item: _Sealed) -> Exception | None:
    if item.known is not None and not {key for (key,) in tx.rows("keys_of_secrets")} <= item.known:
        return StorageGone(_OTHER_KEY)
    if count_rows(tx, "count_other_secrets", *item.place) >= MOST:
        said = f"a tenant has at most {MOST} secrets; delete an unused one"
        return Conflict(said, code="too_many_secrets")
    tx.run("put_secret", *item.place, item.key, item.sealed, item.at)
    return None


@locking(lambda _: [_SECRETS])
def delete_many(tx: Transaction, items: Sequence[SecretName]) -> list[bool | Exception]:
    return [tx.run("delete_secret", *place) > 0 for place in items]


@locking(lambda _: [_SECRETS])
def rewrap_many(tx: Transaction, items: Sequence[MasterKeys]) -> list[tuple[int, int] | Exception]:
    return [_rewrap(tx, keys) for keys in items]


def _rewrap(tx: Transaction, keys: MasterKeys) -> tuple[int, int]:
    """How many were sealed again, and how many left as they are."""
    renewed: list[tuple[object, ...]] = []
    left = 0
    for tenant, system, name, key, sealed in tx.rows("sealed_secrets"):
        place = SecretName(tenant, system, name)
        try:
            value = keys.open(key, sealed, place.about())
        except Unopened:
            left += 1
            continue
        if key != keys.current:
            renewed.append((*place, *keys.seal(value, place.about())))
    tx.run_many("rewrap_secret", renewed)
    return len(renewed), left
