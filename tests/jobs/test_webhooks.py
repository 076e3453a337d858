"""Webhooks: the end of a run is reported, signed and retried, and what became of it can be read."""

import datetime
import hashlib
import hmac
import shutil
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stellwerk.app import Parts
from stellwerk.database.folder import DATABASE
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests import stores
from tests.api.tenants import shared_server
from tests.conftest import own_server, without_pauses
from tests.crash.waiting import eventually
from tests.jobs.receiver import POLICY, SECRET, Receiver, receiving
from tests.runs.talking import answer, begin, rest_of_run, send, stop
from tests.samples import SetClock


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


class Served:
    """One server after the other on the same data folder."""

    def __init__(self, folder: Path, clock: SetClock) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.parts = Parts(clock=clock, timings=Timings(jobs=0.02), demo_systems=without_pauses)

    @asynccontextmanager
    async def up(self, policy: str = POLICY) -> AsyncIterator[httpx2.AsyncClient]:
        config = self.folder / "operator.yaml"
        config.write_text(policy)
        async with own_server(Settings(data=self.data, config=config, demo=True), parts=self.parts) as client:
            yield client

    def crash(self) -> None:
        """The next server finds what is committed at this moment."""
        left = self.folder / "left"
        shutil.copytree(self.data, left, ignore=shutil.ignore_patterns(f"{DATABASE}*", "*lock*"))
        stores.copy(self.data, left)
        self.data = left


@pytest.fixture
def served(tmp_path: Path, clock: SetClock) -> Served:
    return Served(tmp_path, clock)


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with served.up() as made:
        await store_secret(made)
        yield made


async def store_secret(client: httpx2.AsyncClient, value: str = SECRET) -> None:
    assert (await client.put("/secrets/webhook_secret", json={"value": value})).status_code == 204


async def deliveries(client: httpx2.AsyncClient, **params: str) -> list[dict[str, Any]]:
    found = await client.get("/webhook-deliveries", params=params)
    assert found.status_code == 200, found.text
    return list(found.json()["deliveries"])


async def delivery_in(client: httpx2.AsyncClient, state: str, attempts: int) -> dict[str, Any]:
    """The newest delivery, once it is in this state after so many attempts."""

    async def is_there() -> bool:
        found = await deliveries(client)
        return bool(found) and (found[0]["state"], found[0]["attempts"]) == (state, attempts) and found[0]["outcome"]

    await eventually(is_there, within=60, what=f"no delivery is {state} after {attempts} attempts")
    return (await deliveries(client))[0]


async def test_the_end_of_a_run_is_reported_with_its_result_and_a_signature(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    sid = await begin(client)
    accepted = await send(client, sid, "weather", webhook=f"{receiver.url}?token=abc")
    (end,) = [event for event in await rest_of_run(client, sid) if event["type"] == "run_end"]
    (got,) = await receiver.has(1)
    assert got.is_signed_with(SECRET)
    assert (got.path, got.headers["content-type"]) == ("/hook?token=abc", "application/json")
    event = got.event
    assert event["type"] == "run.completed"
    assert event["data"] == {
        "session_id": sid,
        "run_id": accepted["run_id"],
        "trace_id": end["trace_id"],
        "position": end["position"],
        **end["payload"],
    }
    shown = await delivery_in(client, "delivered", 1)
    assert (shown["id"], shown["outcome"], shown["session_id"]) == (got.headers["webhook-id"], "status 200", sid)
    assert shown["url"] == receiver.url  # its query may be a secret
    assert 'stellwerk_webhook_attempts_total{outcome="delivered"} 1' in (await client.get("/metrics")).text


async def test_a_failed_attempt_is_repeated_later_with_the_same_id(
    client: httpx2.AsyncClient, receiver: Receiver, clock: SetClock
) -> None:
    receiver.statuses = [500, 302, 200]
    receiver.location = receiver.url.replace("/hook", "/elsewhere")
    sid = await begin(client)
    await send(client, sid, "weather", webhook=receiver.url)
    first = await delivery_in(client, "pending", 1)
    assert first["outcome"] == "status 500"
    clock.set_by += 6
    second = await delivery_in(client, "pending", 2)
    assert second["outcome"] == "status 302: redirects are not followed"
    clock.set_by += 61
    assert (await delivery_in(client, "delivered", 3))["next_attempt_at"] is None
    assert {got.path for got in receiver.requests} == {"/hook"}
    assert len({got.headers["webhook-id"] for got in receiver.requests}) == 1
    assert len({got.body for got in receiver.requests}) == 1
    assert len({got.headers["webhook-timestamp"] for got in receiver.requests}) == 3
    assert all(got.is_signed_with(SECRET) for got in receiver.requests)


async def test_after_the_last_attempt_it_has_failed_and_can_be_retried(
    client: httpx2.AsyncClient, receiver: Receiver, clock: SetClock
) -> None:
    receiver.statuses = [503] * 8
    sid = await begin(client)
    await send(client, sid, "weather", webhook=receiver.url)
    for attempt in range(1, 8):
        await delivery_in(client, "pending", attempt)
        clock.set_by += 36_001
    failed = await delivery_in(client, "failed", 8)
    assert await deliveries(client, state="failed", session_id=sid) == [failed]
    assert await deliveries(client, state="pending") == []
    path = f"/webhook-deliveries/{failed['id']}/retry"
    assert (await client.post(path)).status_code == 204
    await delivery_in(client, "delivered", 1)
    assert (await client.post(path)).json()["code"] == "not_failed"


async def test_a_receiver_that_is_gone_is_not_asked_again(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    receiver.statuses = [410]
    await send(client, await begin(client), "weather", webhook=receiver.url)
    assert (await delivery_in(client, "failed", 1))["outcome"] == "status 410"


async def test_each_run_of_a_message_is_reported_a_question_and_a_stop_too(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    sid = await begin(client)
    await send(client, sid, "ask", webhook=receiver.url)
    await receiver.has(1)
    await answer(client, sid, text="red")
    await receiver.has(2)
    await send(client, sid, "ask", webhook=receiver.url)
    await receiver.has(3)
    await stop(client, sid)
    kinds = [got.event["type"] for got in await receiver.has(4)]
    assert sorted(kinds) == ["run.awaiting_user", "run.awaiting_user", "run.completed", "run.stopped"]
    await send(client, sid, "weather")
    await rest_of_run(client, sid)
    assert len(await deliveries(client)) == 4, "a message without a webhook is reported to none"


async def test_the_default_of_the_tenant_gets_the_ends_of_all_runs_whose_messages_name_no_other(
    served: Served, receiver: Receiver
) -> None:
    other = receiver.url.replace("/hook", "/other")
    async with served.up() as client:
        refused = await client.put("/default-webhook", json={"webhook": receiver.url})
        assert (refused.status_code, refused.json()["code"]) == (409, "missing_secret")
        await store_secret(client)
        refused = await client.put("/default-webhook", json={"webhook": "http://10.1.2.3/"})
        assert (refused.status_code, refused.json()["field"]) == (422, "webhook")
        assert (await client.get("/default-webhook")).json() == {"webhook": None}
        assert (await client.put("/default-webhook", json={"webhook": receiver.url})).status_code == 200
    async with served.up() as client:
        assert (await client.get("/default-webhook")).json() == {"webhook": receiver.url}
        sid = await begin(client)
        await send(client, sid, "ask")
        (asked,) = await receiver.has(1)
        await answer(client, sid, text="red")
        await receiver.has(2)
        await rest_of_run(client, sid)
        await send(client, sid, "weather", webhook=other)
        paths = [got.path for got in await receiver.has(3)]
        await rest_of_run(client, sid)
        assert (asked.event["type"], paths) == ("run.awaiting_user", ["/hook", "/hook", "/other"])
        one_shot = {"agent_system_id": "demo", "messages": [{"role": "user", "content": "weather"}]}
        await client.post("/stream-test", json=one_shot)
        assert [got.path for got in await receiver.has(4)][-1] == "/hook"
        assert (await client.delete("/default-webhook")).status_code == 204
        await send(client, sid, "weather")
        await rest_of_run(client, sid)
        assert len(await deliveries(client)) == 4


async def test_only_an_admin_sees_and_changes_the_default_of_their_tenant(tmp_path: Path) -> None:
    async with shared_server(tmp_path / "data") as shared:
        await shared.acme.put("/secrets/webhook_secret", json={"value": SECRET})
        assert (await shared.acme.put("/default-webhook", json={"webhook": "https://example.com/"})).status_code == 200
        assert (await shared.other.get("/default-webhook")).json() == {"webhook": None}
        member = {"Authorization": f"Bearer {(await shared.key('acme', role='member'))['token']}"}
        for method in ("GET", "PUT", "DELETE"):
            body = {"webhook": "https://example.org/"} if method == "PUT" else None
            refused = await shared.acme.request(method, "/default-webhook", headers=member, json=body)
            assert refused.status_code == 403
        entries = (await shared.acme.get("/audit")).json()["entries"]
        assert "/default-webhook" in str(entries)
        assert (await shared.acme.get("/default-webhook")).json() == {"webhook": "https://example.com/"}


async def test_an_enqueued_message_has_its_own_webhook(
    client: httpx2.AsyncClient, receiver: Receiver, clock: SetClock
) -> None:
    sid = await begin(client)
    await send(client, sid, "weather", after_seconds=3600)
    queued = await send(client, sid, "table", if_busy="enqueue", webhook=receiver.url)
    assert queued["status"] == "enqueued"
    clock.set_by += 3601
    (got,) = await receiver.has(1)
    told = await rest_of_run(client, sid)
    starts = [event for event in told if event["type"] == "run_start"]
    assert got.event["data"]["run_id"] != starts[0]["run_id"]


async def test_a_report_survives_a_restart_and_a_crash_during_an_attempt(
    served: Served, clock: SetClock, receiver: Receiver
) -> None:
    receiver.held.clear()
    async with served.up() as client:
        await store_secret(client)
        await send(client, await begin(client), "weather", webhook=receiver.url)
        await receiver.has(1)  # and no response comes
        served.crash()
    async with served.up() as client:
        (waiting,) = await deliveries(client)
        assert (waiting["state"], waiting["attempts"]) == ("pending", 1)
        receiver.held.set()
        clock.set_by += 61
        await delivery_in(client, "delivered", 2)
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


async def test_without_a_secret_to_sign_with_nothing_is_accepted(served: Served, receiver: Receiver) -> None:
    async with served.up() as client:
        sid = await begin(client)
        refused = await client.post(f"/sessions/{sid}/messages", json={"text": "weather", "webhook": receiver.url})
        assert (refused.status_code, refused.json()["code"]) == (409, "missing_secret")
        assert "PUT /secrets/webhook_secret" in refused.json()["detail"]
        assert (await client.get(f"/sessions/{sid}")).json()["position"] == 0


async def test_by_default_only_public_servers_with_https_are_accepted(served: Served, receiver: Receiver) -> None:
    async with served.up(policy="{}") as client:
        await store_secret(client)
        sid = await begin(client)
        for url, reason in (
            (receiver.url, "plain http"),
            (receiver.url.replace("http:", "https:"), "not a public address"),
            ("https://localhost/", "not a public address"),
            ("https://169.254.169.254/latest/meta-data", "not a public address"),
        ):
            refused = await client.post(f"/sessions/{sid}/messages", json={"text": "weather", "webhook": url})
            assert (refused.status_code, refused.json()["field"]) == (422, "webhook")
            assert reason in refused.json()["detail"]
        assert (await client.get(f"/sessions/{sid}")).json()["position"] == 0
    assert receiver.requests == []


async def test_a_policy_that_became_narrower_stops_what_waits(
    served: Served, receiver: Receiver, clock: SetClock
) -> None:
    receiver.statuses = [500]
    async with served.up() as client:
        await store_secret(client)
        await send(client, await begin(client), "weather", webhook=receiver.url)
        await delivery_in(client, "pending", 1)
    clock.set_by += 6
    async with served.up(policy="{}") as client:
        assert "plain http" in (await delivery_in(client, "pending", 2))["outcome"]
    assert len(receiver.requests) == 1


async def test_a_slow_receiver_delays_no_other(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    receiver.held.clear()
    for _ in range(6):
        await send(client, await begin(client), "weather", webhook=receiver.url)
    await receiver.has(4)  # as many as one tenant has at once
    with receiving() as quick:
        receiver.held.set()
        await send(client, await begin(client), "weather", webhook=quick.url)
        await quick.has(1)
    await receiver.has(6)


async def test_a_deleted_session_withdraws_its_reports(client: httpx2.AsyncClient, receiver: Receiver) -> None:
    receiver.statuses = [500]
    sid = await begin(client)
    await send(client, sid, "weather", webhook=receiver.url)
    await delivery_in(client, "pending", 1)
    assert (await client.delete(f"/sessions/{sid}")).status_code == 204
    assert await deliveries(client) == []


async def test_a_secret_of_a_library_is_decoded_and_redacted_from_reports(
    client: httpx2.AsyncClient, receiver: Receiver
) -> None:
    await store_secret(client, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    sid = await begin(client)
    await send(client, sid, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", webhook=receiver.url)
    (got,) = await receiver.has(1)
    assert b"MfKQ9r8G" not in got.body
    got_signature = got.headers["webhook-signature"]
    assert got_signature == _signed("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", got.headers, got.body)


def _signed(secret: str, headers: dict[str, str], body: bytes) -> str:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return f"v1,{b64encode(hmac.new(b64decode(secret), signed, hashlib.sha256).digest()).decode()}"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of a server called localhost, signed by itself; key and certificate in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file = tmp_path / "localhost.pem"
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file


async def test_the_certificate_is_that_of_the_name_though_the_connection_goes_to_the_checked_address(
    served: Served, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with receiving(tls, host="localhost") as named, receiving(tls, host="127.0.0.1") as unnamed:
        async with served.up() as client:
            await store_secret(client)
            await send(client, await begin(client), "weather", webhook=named.url)
            (got,) = await named.has(1)
            assert got.headers["host"] == named.url.split("/")[2]
            await send(client, await begin(client), "weather", webhook=unnamed.url)
            refused = await delivery_in(client, "pending", 1)
            assert "certificate" in refused["outcome"].lower()
        assert unnamed.requests == []
