"""/metrics: what the server does, as Prometheus reads it. Numbers only: no tenant, no id, no text of anybody."""

from collections.abc import Iterable, Iterator
from itertools import chain

from fastapi import APIRouter, Request
from starlette.responses import Response

from stellwerk import threads
from stellwerk.api import openapi, refusals
from stellwerk.api.credentials import Measuring
from stellwerk.api.measuring import Requests
from stellwerk.api.openapi import may
from stellwerk.api.services import Services
from stellwerk.database.port import Row
from stellwerk.errors import Forbidden
from stellwerk.meters import MEDIA_TYPE, Sample, gauge
from stellwerk.tenants.principals import LOCAL_TENANT

_EXAMPLE = """\
# HELP stellwerk_runs_ended_total Runs that have ended, by how.
# TYPE stellwerk_runs_ended_total counter
stellwerk_runs_ended_total{status="completed"} 1204
"""


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["operations"], default_response_class=Response)

    @router.get(
        "/metrics",
        summary="Read what the server does, as Prometheus does",
        responses={200: openapi.text("text/plain", _EXAMPLE, "In Prometheus' text format"), **may(refusals.GONE)},
    )
    async def metrics(request: Request, who: Measuring) -> Response:
        """For a key of the tenant `local` with the scope `metrics`. What is counted begins anew with the process."""
        if who.tenant != LOCAL_TENANT:
            raise Forbidden("metrics are of the whole server, and read by whoever runs it: with a key of 'local'")
        runs = await services.database.read(lambda tx: tx.rows("runs_open"))
        state = request.app.state
        lines = chain(_counted(services, state.requests), _now(services, state.requests, runs, state.clock.now()))
        return Response("".join(f"{line}\n" for line in lines), headers={"Content-Type": MEDIA_TYPE})

    return router


def _counted(services: Services, requests: Requests) -> Iterator[str]:
    for counter in (*services.log.tally.meters(), requests.answered):
        yield from counter.lines()
    for histogram in (services.database.commit_seconds, requests.seconds):
        yield from histogram.lines()


def _now(services: Services, requests: Requests, runs: Iterable[Row], now: float) -> Iterator[str]:
    counts = {"running": 0, "waiting": 0} | {state: count for state, count, _ in runs}
    yield from gauge("stellwerk_runs", "Runs that are not over.", ["state"], _labelled(counts.items()))
    oldest = min((since for *_, since in runs), default=now)
    yield from _age("stellwerk_oldest_open_run_seconds", "Age of the oldest run that is not over.", now - oldest)
    called = services.log.tally.oldest_call()
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
