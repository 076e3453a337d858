"""What /me, /tenants, /keys and /audit answer."""

from typing import Any, Self, get_args

from msgspec import Struct

from stellwerk.tenants.audit import Recorded
from stellwerk.tenants.keys import ApiKey
from stellwerk.tenants.principals import LOCAL_TENANT, Principal, Role, Scope
from stellwerk.tenants.tenants import Tenant


class TenantTold(Struct, frozen=True, kw_only=True):
    """``number`` is the mandateId of workflows."""

    name: str
    number: int
    created_at: float
    locked: bool
    """Its credentials open nothing."""

    @classmethod
    def of(cls, tenant: Tenant) -> Self:
        return cls(name=tenant.name, number=tenant.number, created_at=tenant.created_at, locked=tenant.locked)


class TenantList(Struct, frozen=True, kw_only=True):
    tenants: list[TenantTold]


class Me(Struct, frozen=True, kw_only=True):
    """Who asks, and all that he may."""

    tenant: str
    user: str | None
    role: Role
    scopes: list[Scope]

    @classmethod
    def of(cls, who: Principal) -> Self:
        told = [scope for scope in get_args(Scope) if scope != "metrics" or who.tenant == LOCAL_TENANT]
        scopes = [scope for scope in told if who.may(scope)]
        return cls(tenant=who.tenant, user=who.user, role=who.role, scopes=scopes)


class KeyTold(Struct, frozen=True, kw_only=True):
    """A key without its secret, which nobody has but its owner."""

    id: str
    tenant: str
    name: str
    user: str | None
    role: Role
    scopes: list[Scope] | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    last_used: float | None

    @classmethod
    def of(cls, key: ApiKey) -> Self:
        return cls(**cls.fields_of(key))

    @staticmethod
    def fields_of(key: ApiKey) -> dict[str, Any]:
        found = {name: getattr(key, name) for name in KeyTold.__struct_fields__}
        return {**found, "scopes": None if key.scopes is None else list(key.scopes)}


class NewKey(KeyTold, frozen=True, kw_only=True):
    token: str
    """``sw_<id>_<secret>``: told once."""


class KeyList(Struct, frozen=True, kw_only=True):
    keys: list[KeyTold]


class AuditPage(Struct, frozen=True, kw_only=True):
    """What was done, the oldest first; ``next`` is the ``after`` of the next page."""

    entries: list[Recorded]
    next: int | None


class SecretTold(Struct, frozen=True, kw_only=True):
    """A secret without its value, which is never told."""

    name: str
    agent_system_id: str | None
    """None for one that all agent systems of the tenant use."""
    created_at: float
    updated_at: float
    readable: bool
    """False if no master key of the server opens it; store it again."""


class SecretList(Struct, frozen=True, kw_only=True):
    secrets: list[SecretTold]


class SecretsRotated(Struct, frozen=True, kw_only=True):
    key: str
    """The name of the master key that seals from now on."""
    sealed: int
    left: int
    """Those that could not be opened; as long as there are any, the old keys are needed."""
    changed: bool
    """False if the command has told no new master key, and all is as it was."""


class TicketTold(Struct, frozen=True, kw_only=True):
    """What to add to the address of a stream as ``?ticket=…``; once, and before it expires."""

    ticket: str
    expires_at: float


ANSWERS = (
    *(TicketTold, Me, TenantTold, TenantList, KeyTold, KeyList, NewKey, AuditPage),
    *(SecretTold, SecretList, SecretsRotated),
)
