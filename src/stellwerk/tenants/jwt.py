"""JWT bearer tokens of an issuer that the operator trusts. Its public keys (JWKS) are in a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import structlog
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from stellwerk.errors import SettingsError, Unauthorized
from stellwerk.ids import Clock
from stellwerk.tenants.principals import Principal, Role

logger = structlog.get_logger(__name__)

_SIGNED_BY = ["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""Never by a shared secret, and never unsigned."""
_LEEWAY = 30
"""Seconds by which two clocks may differ."""
_LATEST = 253_402_300_800
"""The end of the year 9999: a token that says it is good for longer was not made with care."""
_LONGEST_USER = 128
"""Characters, as of everybody whom a key or a session names."""
_LOOK_AGAIN = 5
"""Seconds for which the file with the keys is not looked at again."""


@dataclass(frozen=True, slots=True)
class Issuer:
    issuer: str
    audience: str
    jwks: str
    """The file with its public keys."""
    tenant_claim: str
    role_claim: str


class Tokens:
    def __init__(self, issuer: Issuer, clock: Clock) -> None:
        """
        Raises:
            SettingsError: the file with the keys cannot be read.
        """
        self._issuer = issuer
        self._keys = _KeyFile(Path(issuer.jwks), clock)
        self._claims = jwt.JWTClaimsRegistry(
            now=lambda: int(clock.now()),
            leeway=_LEEWAY,
            iss={"essential": True, "value": issuer.issuer},
            aud={"essential": True, "value": issuer.audience},
            exp={"essential": True},
            sub={"essential": True},
        )

    def principal(self, token: str) -> Principal:
        """Whose token this is.

        Raises:
            Unauthorized: it was not made by the issuer, or not for us; it says why.
        """
        keys = self._keys.latest()
        try:
            found = jwt.decode(token, keys, algorithms=_SIGNED_BY)
        except (JoseError, ValueError, TypeError) as error:  # TypeError: fields of its header have wrong types
            raise _not_taken("it is no JWT that is signed with a key of the issuer") from error
        try:
            self._claims.validate(found.claims)
        except ExpiredTokenError as error:
            raise _not_taken("it has expired") from error
        except ClaimError as error:
            raise _not_taken(f"its claim {error.claim!r} is not as it must be") from error
        except (JoseError, ValueError, TypeError) as error:
            raise _not_taken("its claims cannot be read") from error
        return self._understood(found.claims)

    def _understood(self, claims: dict[str, Any]) -> Principal:
        tenant, role = claims.get(self._issuer.tenant_claim), claims.get(self._issuer.role_claim, "member")
        if not isinstance(tenant, str):
            raise _not_taken(f"its claim {self._issuer.tenant_claim!r} names no tenant")
        if role not in get_args(Role):
            raise _not_taken(f"its claim {self._issuer.role_claim!r} is no role; {', '.join(get_args(Role))} are")
        if not claims["exp"] < _LATEST:
            raise _not_taken("its claim 'exp' is no time")
        user = str(claims["sub"])
        if not 0 < len(user) <= _LONGEST_USER or not user.isprintable():
            raise _not_taken(f"its claim 'sub' is no name of a user: one line, {_LONGEST_USER} characters at most")
        return Principal(tenant, role, user, until=float(claims["exp"]))


class _KeyFile:
    """Read again when it has changed, so that an issuer can rotate its keys while the server runs."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._seen, self._looked_at = _look_of(path), clock.now()
        self._keys = _key_set(path)

    def latest(self) -> KeySet:
        now = self._clock.now()
        if not 0 <= now - self._looked_at < _LOOK_AGAIN:
            self._looked_at = now
            before, self._seen = self._seen, _look_of(self._path)
            if self._seen != before:
                self._read_again()
        return self._keys

    def _read_again(self) -> None:
        """A file that cannot be used, such as one that is being written, changes nothing and is logged once."""
        try:
            self._keys = _key_set(self._path)
        except SettingsError as error:
            logger.error("issuer_keys_not_read", reason=f"{error.message}; the keys that it had before count on")
        else:
            logger.info("issuer_keys_read", path=str(self._path), keys=len(self._keys.keys))


def _look_of(path: Path) -> tuple[int, ...] | None:
    """What differs when a file was written again, or replaced; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _not_taken(why: str) -> Unauthorized:
    return Unauthorized(f"this token is not taken: {why}; ask your issuer for another")


def _key_set(path: Path) -> KeySet:
    try:
        return KeySet.import_key_set(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, JoseError) as error:  # any JSON, and no JWKS
        raise SettingsError(f"cannot use the keys of the issuer in {path}: {error}; it must be a JWKS file") from error
