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
_LEEWAY = 30  # seconds by which two clocks may differ
_LATEST = 253_402_300_800  # the end of the year 9999; a later expiry is no time
_LONGEST_USER = 128  # characters, as for the users of keys and sessions
_CHECK_EVERY = 5  # seconds between two checks whether the file with the keys has changed


@dataclass(frozen=True, slots=True)
class Issuer:
    issuer: str
    audience: str
    jwks: str  # the file with its public keys
    tenant_claim: str
    role_claim: str


class Tokens:
    def __init__(self, issuer: Issuer, clock: Clock) -> None:
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
        """Whose token this is. Raises ``Unauthorized``, with the reason, if it is not valid."""
        keys = self._keys.latest()
        try:
            found = jwt.decode(token, keys, algorithms=_SIGNED_BY)
        except (JoseError, ValueError, TypeError) as error:  # fields of its header may have any type
            raise _not_taken("it is no JWT that is signed with a key of the issuer") from error
        try:
            self._claims.validate(found.claims)
        except ExpiredTokenError as error:
            raise _not_taken("it has expired") from error
        except ClaimError as error:
            raise _not_taken(f"its claim {error.claim!r} is not as it must be") from error
        except (JoseError, ValueError, TypeError) as error:
            raise _not_taken("its claims cannot be read") from error
        return self._principal_in(found.claims)

    def _principal_in(self, claims: dict[str, Any]) -> Principal:
        issuer = self._issuer
        tenant = claims.get(issuer.tenant_claim)
        role = claims.get(issuer.role_claim, "member")
        if not isinstance(tenant, str):
            raise _not_taken(f"its claim {issuer.tenant_claim!r} names no tenant")
        if role not in get_args(Role):
            roles = ", ".join(get_args(Role))
            raise _not_taken(f"its claim {issuer.role_claim!r} is no role; {roles} are")
        if not claims["exp"] < _LATEST:
            raise _not_taken("its claim 'exp' is no time")
        user = str(claims["sub"])
        if not 0 < len(user) <= _LONGEST_USER or not user.isprintable():
            limit = f"one line, {_LONGEST_USER} characters at most"
            raise _not_taken(f"its claim 'sub' is no name of a user: {limit}")
        return Principal(tenant, role, user, until=float(claims["exp"]))


class _KeyFile:
    """Read again when it has changed, so that an issuer can rotate its keys while the server runs."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._checked_at = clock.now()
        self._version = _version_of(path)
        self._keys = _key_set(path)

    def latest(self) -> KeySet:
        now = self._clock.now()
        if not 0 <= now - self._checked_at < _CHECK_EVERY:
            self._checked_at = now
            version = _version_of(self._path)
            if version != self._version:
                self._version = version
                self._read()
        return self._keys

    def _read(self) -> None:
        """A file that cannot be used, such as one that is being written, changes nothing."""
        try:
            self._keys = _key_set(self._path)
        except SettingsError as error:
            reason = f"{error.message}; the keys that it had before count on"
            logger.error("issuer_keys_not_read", reason=reason)
        else:
            logger.info("issuer_keys_read", path=str(self._path), keys=len(self._keys.keys))


def _version_of(path: Path) -> tuple[int, ...] | None:
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
        said = f"cannot use the keys of the issuer in {path}: {error}; it must be a JWKS file"
        raise SettingsError(said) from error
