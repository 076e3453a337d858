"""/healthz, /readyz and /metrics (Prometheus). Metrics are numbers only: no tenant, id or text."""

from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request, Response

from stellwerk import threads
from stellwerk.api.http.auth import RequireMetrics
from stellwerk.api.http.metrics_middleware import RequestMetrics
from stellwerk.api.schema.openapi import STORED, documented_router, returns, returns_text
from stellwerk.api.schema.responses import Health
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.database.port import Row, Transaction
from stellwerk.errors import Forbidden, StorageClosed, StorageGone
from stellwerk.metrics import MEDIA_TYPE, gauge
from stellwerk.tenants.principals import LOCAL_TENANT


def _touch(tx: Transaction, items: Sequence[None]) -> Sequence[None]:
    """Write one row for concurrent checks: without a change nothing would reach the disk."""
    tx.run("note_readiness")
    return items


def health_routes(services: Services) -> APIRouter:
    router = documented_router("operations")

    @router.get("/healthz", **returns(200, Health, "It is"))
    async def healthz() -> Response:
        """The process is alive."""
        return Json(Health(status="ok"))

    @router.get("/readyz", **returns(200, Health, "A write goes through", *STORED, example="ready"))
    async def readyz() -> Response:
        """The server can take work."""
        if services.wakes.closed:
            raise StorageClosed
        if services.cluster is not None and not services.cluster.is_alive:
            raise StorageGone("this node has had no heartbeat for a whole lease; ask another one")
        await services.database.submit(_touch, None)
        return Json(Health(status="ready"))

    return router


def metrics_routes(services: Services) -> APIRouter:
    router = documented_router("operations")
    as_text = returns_text("text/plain", "metrics", "In Prometheus' text format", "storage_gone")

    @router.get("/metrics", **as_text)
    async def metrics(request: Request, who: RequireMetrics) -> Response:
        """Read the metrics of the server, for Prometheus.

        For a key of the tenant `local` with the scope `metrics`. Counters start at zero with the process.
        """
        if who.tenant != LOCAL_TENANT:
            said = "metrics are of the whole server, and read by its operator: with a key of 'local'"
            raise Forbidden(said)
        now = services.clock.now()
        runs = await services.database.read(lambda tx: tx.rows("runs_open", now))
        lines = _lines(services, request.app.state.requests, runs)
        return Response("".join(f"{line}\n" for line in lines), headers={"Content-Type": MEDIA_TYPE})

    return router


def _lines(services: Services, requests: RequestMetrics, runs: Sequence[Row]) -> Iterator[str]:
    jobs = (services.crons.ticks, services.webhooks.attempts)
    for counter in (*services.log.metrics.counters(), requests.answered, *jobs):
        yield from counter.lines()
    if services.cluster is not None:
        yield from services.cluster.metrics()
    for histogram in (services.database.commit_seconds, requests.seconds):
        yield from histogram.lines()
    now = services.clock.now()
    counts = {"running": 0, "waiting": 0, "delayed": 0} | {state: count for state, count, _ in runs}
    by_state = [((state,), count) for state, count in counts.items()]
    yield from gauge("stellwerk_runs", "Runs that are not over.", ["state"], by_state)
    oldest = min((since for *_, since in runs), default=now)
    about = "Age of the oldest run that is not over."
    yield from _number("stellwerk_oldest_open_run_seconds", about, max(0.0, now - oldest))
    called = services.log.metrics.oldest_call()
    age = 0.0 if called is None else now - called
    about = "Age of the oldest call of a model or a tool."
    yield from _number("stellwerk_oldest_open_call_seconds", about, max(0.0, age))
    by_form = [((form,), count) for form, count in requests.readers.items()]
    yield from gauge("stellwerk_readers", "Streams that are open.", ["form"], by_form)
    about = "Threads that still work for a run that is over, as a thread cannot be ended."
    yield from _number("stellwerk_threads_left", about, threads.left())


def _number(name: str, about: str, value: float) -> Iterator[str]:
    return gauge(name, about, (), [((), value)])
