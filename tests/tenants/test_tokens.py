"""JWTs: taken from one issuer, for us, signed by his key, and for as long as they say."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
import structlog
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from stellwerk.errors import SettingsError, Unauthorized
from stellwerk.tenants.jwt import Issuer, Tokens
from stellwerk.tenants.principals import Principal
from tests.samples import StillClock

OURS = ECKey.generate_key("P-256", {"kid": "ours"})
CLAIMS = {"iss": "https://id.test", "aud": "stellwerk", "sub": "ada", "tenant": "acme", "role": "admin"}


def signed(claims: dict[str, Any], *, key: Any = OURS, alg: str = "ES256", kid: str = "ours") -> str:
    return jwt.encode({"alg": alg, "kid": kid}, claims, key, algorithms=[alg])


def publish(folder: Path, *keys: Any) -> Path:
    """Beside the file, then in its place, as one who changes it should."""
    new = folder / "new.json"
    new.write_text(json.dumps(KeySet(list(keys)).as_dict(private=False)))
    return new.rename(folder / "jwks.json")


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def tokens(tmp_path: Path, clock: StillClock) -> Tokens:
    jwks = publish(tmp_path, OURS)
    return Tokens(Issuer("https://id.test", "stellwerk", str(jwks), "tenant", "role"), clock)


def soon() -> int:
    return int(StillClock().now()) + 60


def test_a_token_says_who_asks_and_until_when(tokens: Tokens) -> None:
    assert tokens.principal(signed({**CLAIMS, "exp": soon()})) == Principal("acme", "admin", "ada", until=soon())
    plain = {name: value for name, value in CLAIMS.items() if name != "role"}
    assert tokens.principal(signed({**plain, "exp": soon()})) == Principal("acme", "member", "ada", until=soon())


@pytest.mark.parametrize(
    "wrong",
    [
        {"iss": "https://evil.test"},
        {"aud": "another"},
        {"exp": 1},
        {"exp": None},
        {"exp": int("9" * 400)},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"sub": None},
        {"sub": ""},
        {"sub": "a" * 129},
        {"sub": "ada\nroot"},
        {"sub": "\x1b[2J"},
        {"tenant": None},
        {"tenant": 7},
        {"role": "operator"},
        {"nbf": 10**10},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_token_that_is_not_for_us_is_not_taken(tokens: Tokens, wrong: dict[str, Any]) -> None:
    claims = {**CLAIMS, "exp": soon(), **wrong}
    claim = next(iter(wrong))
    with pytest.raises(Unauthorized, match=f"'{claim}'" if wrong != {"exp": 1} else "it has expired"):
        tokens.principal(signed({name: value for name, value in claims.items() if value is not None}))


@pytest.mark.parametrize("head", [{"alg": "ES256", "crit": 1}, {"alg": []}, [], {"alg": "ES256", "kid": {}}], ids=str)
def test_what_only_looks_like_a_token_is_not_taken(tokens: Tokens, head: object) -> None:
    parts = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, CLAIMS, "x"))
    with pytest.raises(Unauthorized, match="no JWT that is signed"):
        tokens.principal(".".join(parts))


def test_a_token_that_another_has_signed_is_not_taken(tokens: Tokens) -> None:
    claims = {**CLAIMS, "exp": soon()}
    public = json.dumps(OURS.as_dict(private=False))
    forged = [
        signed(claims, key=ECKey.generate_key("P-256")),
        signed(claims, key=RSAKey.generate_key(2048), alg="RS256"),
        signed(claims, key=OctKey.import_key(public), alg="HS256"),
        signed(claims, kid="another"),
        "",
        "a.b.c",
        signed(claims)[:-4] + "AAAA",
        "eyJhbGciOiJub25lIn0." + signed(claims).split(".")[1] + ".",
    ]
    for token in forged:
        with pytest.raises(Unauthorized, match="no JWT that is signed"):
            tokens.principal(token)


def test_keys_that_the_issuer_changes_count_within_seconds(tokens: Tokens, tmp_path: Path, clock: StillClock) -> None:
    another = ECKey.generate_key("P-256", {"kid": "another"})
    claims = {**CLAIMS, "exp": soon()}
    old, new = signed(claims), signed(claims, key=another, kid="another")
    assert tokens.principal(old).user == "ada"
    publish(tmp_path, OURS, another)
    clock.pass_by(5)
    assert tokens.principal(old) == tokens.principal(new)
    publish(tmp_path, another)
    clock.pass_by(5)
    with pytest.raises(Unauthorized, match="no JWT that is signed"):
        tokens.principal(old)
    assert tokens.principal(new).user == "ada"


def test_a_file_that_is_broken_or_gone_changes_nothing_and_is_told_once(
    tokens: Tokens, tmp_path: Path, clock: StillClock
) -> None:
    token = signed({**CLAIMS, "exp": soon()})
    with structlog.testing.capture_logs() as lines:
        for text in ("{", "[]", "null", '{"keys": null}', None):
            file = tmp_path / "jwks.json"
            file.unlink() if text is None else file.write_text(text)
            for _ in range(3):
                clock.pass_by(5)
                assert tokens.principal(token).user == "ada"
    assert [line["event"] for line in lines] == ["issuer_keys_not_read"] * 5
    assert all("the keys that it had before count on" in line["reason"] for line in lines)


def test_a_file_that_holds_no_keys_prevents_the_start(tmp_path: Path) -> None:
    for name, text in (("none.json", None), ("bad.json", "{"), ("other.json", "{}"), ("list.json", "[]")):
        if text is not None:
            (tmp_path / name).write_text(text)
        with pytest.raises(SettingsError, match="JWKS"):
            Tokens(Issuer("i", "a", str(tmp_path / name), "tenant", "role"), StillClock())
