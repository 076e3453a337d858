"""Webhooks: the end of a run is reported to an address, signed, and retried until it is accepted.

The outbox is a table, filled in the transaction that ends the run. A delivery is claimed for a
while by the process that attempts it, so a crash repeats an attempt and loses none. The request
has the form of standardwebhooks.com; ``webhook-id`` is the same for all attempts.
"""

import asyncio
import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections import Counter as Tally
from collections.abc import Sequence
from typing import Literal, NamedTuple

import httpx2
import msgspec
import structlog

from stellwerk.database.port import Database, Row, Transaction
from stellwerk.errors import Conflict, InvalidField, NotFound, StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.metrics import Counter
from stellwerk.runs.jobs.addresses import AddressRefused, Resolver, check_url
from stellwerk.spec.operator import WebhookPolicy
from stellwerk.tenants.secrets import Secrets

logger = structlog.get_logger(__name__)

SECRET = "webhook_secret"
"""The secret of the tenant that its webhooks are signed with."""
BACKOFF = (5, 60, 300, 1800, 7200, 18_000, 36_000)
"""Seconds from a failed attempt to the next; after the last one the delivery has failed."""
_CLAIMED = 60.0
"""Seconds until an attempt whose process died is made again."""
_TIMEOUT = 10.0
_AT_ONCE = 20
_AT_ONCE_PER_TENANT = 4
_GONE = 410
"""By this status a receiver says that it wants no more: the delivery is not repeated."""
_PREFIX = "whsec_"

DeliveryState = Literal["pending", "delivered", "failed"]


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run's end, and how far it has come."""

    id: str
    """Sent as ``webhook-id``, the same for each attempt."""
    session_id: str
    run_id: str
    url: str
    """Without its query, which may have a token in it."""
    state: DeliveryState
    attempts: int
    outcome: str | None
    """Of the last attempt: the status of the response, or what went wrong; null while it is under way."""
    created_at: float
    next_attempt_at: float | None
    ended_at: float | None


class DeliveryQuery(NamedTuple):
    before: tuple[float, str] | None
    session_id: str | None
    state: DeliveryState | None
    limit: int


class _Claim(NamedTuple):
    delivery_id: str
    at: float


class _Attempt(NamedTuple):
    id: str
    tenant: str
    session_id: str
    run_id: str
    url: str
    body: bytes
    number: int


class _Outcome(NamedTuple):
    attempt: _Attempt
    text: str
    at: float
    state: DeliveryState
    next_at: float = 0.0


class Webhooks:
    def __init__(self, database: Database, secrets: Secrets, policy: WebhookPolicy, clock: Clock) -> None:
        self._database = database
        self._secrets = secrets
        self._policy = policy
        self._clock = clock
        self._names = Resolver()
        self._client: httpx2.AsyncClient | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._of_tenant: Tally[str] = Tally()
        self.attempts = Counter(
            "stellwerk_webhook_attempts_total", "Attempts to deliver a webhook, by what became of it.", "outcome"
        )

    def check(self, tenant: str, url: str | None) -> None:
        """Check a webhook before anything is accepted with it.

        Raises:
            InvalidField: the server does not connect to this address.
            Conflict: the tenant has no secret to sign with.
        """
        if url is None:
            return
        check_url(url, self._policy)
        if self._secrets.find(tenant, "", SECRET) is None:
            said = f"webhooks are signed with the secret {SECRET!r} of your tenant, which is not stored"
            raise Conflict(f"{said}; an admin stores it with PUT /secrets/{SECRET}", code="missing_secret")

    async def default(self, tenant: str) -> str | None:
        """Where the ends of runs are reported whose messages name no address."""
        row = await self._database.read(lambda tx: tx.row("default_webhook", tenant))
        return None if row is None else row[0]

    async def set_default(self, tenant: str, url: str | None) -> None:
        """
        Raises:
            InvalidField, Conflict: as ``check``.
        """
        self.check(tenant, url)
        await self._database.submit(set_default_many, (tenant, url))

    async def page(self, tenant: str, query: DeliveryQuery) -> list[WebhookDelivery]:
        """The newest first."""
        before = query.before or (float("inf"), "")
        row = (tenant, *before, query.session_id, query.state, query.limit)
        return [_shown(found) for found in await self._database.read(lambda tx: tx.rows("delivery_page", *row))]

    async def retry(self, tenant: str, delivery_id: str) -> None:
        """Attempt a failed delivery again, with all of its attempts.

        Raises:
            NotFound: the tenant has no such delivery.
            Conflict: it has not failed.
        """
        await self._database.submit(retry_many, (tenant, delivery_id, self._clock.now()))

    async def deliver_due(self) -> None:
        """Begin the attempts that are due. A slow receiver delays no other: they run side by side."""
        now = self._clock.now()
        limits = (_AT_ONCE_PER_TENANT, _AT_ONCE)
        for delivery_id, tenant in await self._database.read(lambda tx: tx.rows("deliveries_due", now, *limits)):
            if len(self._under_way) >= _AT_ONCE or self._of_tenant[tenant] >= _AT_ONCE_PER_TENANT:
                continue
            claimed = await self._database.submit(_claim_many, _Claim(delivery_id, now))
            if claimed is not None:
                self._begin(claimed)

    async def close(self) -> None:
        """Give up the attempts that are under way; they are made again later."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def _begin(self, attempt: _Attempt) -> None:
        task = asyncio.create_task(self._attempt(attempt), name=f"webhook {attempt.id}")
        self._under_way.add(task)
        self._of_tenant[attempt.tenant] += 1

        def ended(done: asyncio.Task[None]) -> None:
            self._under_way.discard(done)
            self._of_tenant[attempt.tenant] -= 1

        task.add_done_callback(ended)

    async def _attempt(self, attempt: _Attempt) -> None:
        text, state = await self._send(attempt)
        now = self._clock.now()
        outcome = _Outcome(attempt, text, now, state)
        if state == "pending":
            late = attempt.number > len(BACKOFF)
            next_at = now if late else now + BACKOFF[attempt.number - 1]
            outcome = outcome._replace(state="failed" if late else "pending", next_at=next_at)
        self.attempts.add("postponed" if outcome.state == "pending" else outcome.state)
        about = logger.bind(session=attempt.session_id, run=attempt.run_id, attempt=attempt.number, outcome=text)
        if outcome.state == "delivered":
            about.info("webhook_delivered")
        elif outcome.state == "failed":
            about.error("webhook_failed")
        else:
            about.warning("webhook_postponed", seconds=round(outcome.next_at - now))
        try:
            await self._database.submit(_end_many, outcome)
        except (StorageFull, StorageGone) as error:  # attempted again when the claim is over
            about.warning("webhook_outcome_not_stored", error=error.message)

    async def _send(self, attempt: _Attempt) -> tuple[str, DeliveryState]:
        """What became of one request: a text for users, and the state that follows."""
        secret = self._secrets.find(attempt.tenant, "", SECRET)
        if secret is None:
            return f"the secret {SECRET!r} is not stored", "pending"
        url = httpx2.URL(attempt.url)
        try:
            check_url(attempt.url, self._policy)  # the operator may have changed the policy
            address = await self._names.resolve(url, self._policy)
        except (AddressRefused, InvalidField) as error:
            return str(error), "pending"
        headers = {
            "Host": url.netloc.decode("ascii"),
            "Content-Type": "application/json",
            "User-Agent": "Stellwerk",
            **signature(secret, attempt.id, int(self._clock.now()), attempt.body),
        }
        # To the address that was checked, with the certificate of the name.
        to = url.copy_with(host=address)
        about = {"sni_hostname": url.host}
        request = self._connected().build_request("POST", to, content=attempt.body, headers=headers, extensions=about)
        return await self._exchange(request)

    async def _exchange(self, request: httpx2.Request) -> tuple[str, DeliveryState]:
        try:
            async with asyncio.timeout(_TIMEOUT):
                response = await self._connected().send(request, stream=True, follow_redirects=False)
                await response.aclose()  # only its status counts
        except TimeoutError:
            return f"no response within {_TIMEOUT:g} s", "pending"
        except httpx2.TransportError as error:
            return f"no connection: {str(error)[:200] or type(error).__name__}", "pending"
        text = f"status {response.status_code}"
        if response.is_success:
            return text, "delivered"
        if response.is_redirect:
            return f"{text}: redirects are not followed", "pending"
        return text, "failed" if response.status_code == _GONE else "pending"

    def _connected(self) -> httpx2.AsyncClient:
        """A client that uses no proxy and no connection twice: two hosts may share an address."""
        if self._client is None:
            limits = httpx2.Limits(max_keepalive_connections=0)
            transport = httpx2.AsyncHTTPTransport(limits=limits)
            self._client = httpx2.AsyncClient(transport=transport, trust_env=False, timeout=_TIMEOUT)
        return self._client


def signature(secret: str, delivery_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers by which a receiver verifies a request: HMAC-SHA256 over id, time and body."""
    signed = hmac.new(_key(secret), f"{delivery_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{b64encode(signed).decode()}",
    }


def _key(secret: str) -> bytes:
    """The bytes of a secret: base64 behind ``whsec_``, as libraries make them, or else its text."""
    if secret.startswith(_PREFIX):
        try:
            return b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def set_default_many(tx: Transaction, items: Sequence[tuple[str, str | None]]) -> list[None | Exception]:
    tx.run_many("set_default_webhook", items)
    return [None] * len(items)


def retry_many(tx: Transaction, items: Sequence[tuple[str, str, float]]) -> list[None | Exception]:
    return [_retry(tx, *item) for item in items]


def _retry(tx: Transaction, tenant: str, delivery_id: str, at: float) -> None | Exception:
    if tx.run("retry_delivery", delivery_id, tenant, at):
        return None
    row = tx.row("delivery_state", delivery_id, tenant)
    if row is None:
        return NotFound("webhook delivery", delivery_id, remedy="GET /webhook-deliveries lists them")
    return Conflict(f"this delivery is {row[0]}; only one that has failed is attempted again", code="not_failed")


def _claim_many(tx: Transaction, items: Sequence[_Claim]) -> list[_Attempt | None | Exception]:
    rows = [tx.row("claim_delivery", delivery_id, at + _CLAIMED, at) for delivery_id, at in items]
    return [None if row is None else _Attempt(*row) for row in rows]


def _end_many(tx: Transaction, outcomes: Sequence[_Outcome]) -> list[None | Exception]:
    for attempt, text, at, state, next_at in outcomes:
        if state == "delivered":
            tx.run("delivery_succeeded", attempt.id, attempt.tenant, text, at)
        elif state == "failed":
            tx.run("delivery_failed", attempt.id, attempt.tenant, text, at)
        else:
            tx.run("delivery_postponed", attempt.id, attempt.tenant, text, next_at)
    return [None] * len(outcomes)


def _shown(row: Row) -> WebhookDelivery:
    id_, session_id, run_id, url, state, attempts, outcome, created_at, next_at, ended_at = row
    return WebhookDelivery(
        id=id_,
        session_id=session_id,
        run_id=run_id,
        url=url.partition("?")[0],
        state=state,
        attempts=attempts,
        outcome=outcome,
        created_at=created_at,
        next_attempt_at=next_at if state == "pending" else None,
        ended_at=ended_at,
    )
