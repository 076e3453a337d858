"""Principals: the authenticated caller, its tenant, role and scopes.

A tenant is never named by a request: it follows from the credential alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from stellwerk.errors import NotFound

Role = Literal["reader", "member", "admin"]
Scope = Literal["read", "run", "register", "administer", "metrics"]

LOCAL_TENANT = "local"
"""The operator's own. Everything belongs to it as long as there is no API key."""
SCOPES: Mapping[Role, frozenset[Scope]] = {
    "reader": frozenset({"read"}),
    "member": frozenset({"read", "run"}),
    "admin": frozenset(get_args(Scope)),
}
"""What each role may at most; a key can be given less."""


@dataclass(frozen=True, slots=True)
class Principal:
    tenant: str
    role: Role
    user: str | None = None
    scopes: frozenset[Scope] | None = None  # None is everything that the role may
    key_id: str | None = None
    until: float | None = None  # when the credential expires, if it has an expiry of its own

    def may(self, scope: Scope) -> bool:
        return scope in SCOPES[self.role] and (self.scopes is None or scope in self.scopes)

    @property
    def operates(self) -> bool:
        """Whether it may create tenants: an admin of the operator's own tenant."""
        return self.tenant == LOCAL_TENANT and self.may("administer")


LOCAL = Principal(LOCAL_TENANT, "admin")
"""The operator of a server that has no keys: a request from the same machine that no proxy passed on."""


def unknown_tenant(name: str) -> NotFound:
    return NotFound("tenant", name, remedy="GET /tenants lists the tenants")
