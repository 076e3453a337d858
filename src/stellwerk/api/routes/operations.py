"""/healthz, /readyz and /metrics (Prometheus). Metrics are numbers only: no tenant, no id, no text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from fastapi import APIRouter, Request
from starlette.responses import Response

from stellwerk import threads
from stellwerk.api.http.auth import RequireMetrics
from stellwerk.api.http.metrics_middleware import RequestMetrics
from stellwerk.api.schema.openapi import STORED, TEXTS, documented_router, errors, returns, text
from stellwerk.api.schema.responses import Health, Json
from stellwerk.api.services import Services
from stellwerk.database.port import Row, Transaction
from stellwerk.errors import Forbidden
from stellwerk.metrics import MEDIA_TYPE, Sample, gauge
from stellwerk.tenants.principals import LOCAL_TENANT


def _touch(tx: Transaction, items: Sequence[None]) -> Sequence[None]:
    """Write one row for concurrent checks: a transaction that changes nothing would not reach the disk."""
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
        await services.database.submit(_touch, None)
        return Json(Health(status="ready"))

    return router


def metrics_routes(services: Services) -> APIRouter:
    router = documented_router("operations")

    content = text("text/plain", TEXTS["metrics"], "In Prometheus' text format")

    @router.get("/metrics", responses={200: content, **errors("storage_gone")})
    async def metrics(request: Request, who: RequireMetrics) -> Response:
        """Read the metrics of the server, for Prometheus.

        For a key of the tenant `local` with the scope `metrics`. Counters start at zero with the process.
        """
        if who.tenant != LOCAL_TENANT:
            raise Forbidden("metrics are of the whole server, and read by its operator: with a key of 'local'")
        runs = await services.database.read(lambda tx: tx.rows("runs_open"))
        state = request.app.state
        lines = chain(_counted(services, state.requests), _now(services, state.requests, runs, state.clock.now()))
        return Response("".join(f"{line}\n" for line in lines), headers={"Content-Type": MEDIA_TYPE})

    return router


def _counted(services: Services, requests: RequestMetrics) -> Iterator[str]:
    for counter in (*services.log.metrics.counters(), requests.answered):
        yield from counter.lines()
    for histogram in (services.database.commit_seconds, requests.seconds):
        yield from histogram.lines()


def _now(services: Services, requests: RequestMetrics, runs: Iterable[Row], now: float) -> Iterator[str]:
    counts = {"running": 0, "waiting": 0} | {state: count for state, count, _ in runs}
    yield from gauge("stellwerk_runs", "Runs that are not over.", ["state"], _labelled(counts.items()))
    oldest = min((since for *_, since in runs), default=now)
    yield from _age("stellwerk_oldest_open_run_seconds", "Age of the oldest run that is not over.", now - oldest)
    called = services.log.metrics.oldest_call()
    age = 0 if called is None else now - called
    yield from _age("stellwerk_oldest_open_call_seconds", "Age of the oldest call of a model or a tool.", age)
    readers = requests.readers.items()
    yield from gauge("stellwerk_readers", "Streams that are open.", ["form"], _labelled(readers))
    about = "Threads that still work for a run that is over, as a thread cannot be ended."
    yield from gauge("stellwerk_threads_left", about, (), [((), threads.left())])


def _labelled(counts: Iterable[tuple[str, int]]) -> Iterator[Sample]:
    return (((name,), count) for name, count in counts)


def _age(name: str, about: str, seconds: float) -> Iterator[str]:
    return gauge(name, about, (), [((), max(0.0, seconds))])
