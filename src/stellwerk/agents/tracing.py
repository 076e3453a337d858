"""LangSmith's tracing, which LangChain wraps around everything: free of charge as long as nobody traces.

Who traces says so in the environment, by LangSmith's own variables and by those of OpenTelemetry. Whatever is told
there is told without the secrets that are known, and with whose run it is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from contextvars import Context
from threading import Thread
from typing import Any

import langsmith
from langsmith.utils import get_env_var, is_env_var_truish, tracing_is_enabled

from stellwerk.envelope.canonical import canonical
from stellwerk.envelope.model import RunStart
from stellwerk.envelope.redaction import Redactors
from stellwerk.log.log import Lease
from stellwerk.settings import adopt_environment

_PATIENCE = 3.0
"""Seconds that a server which ends waits for traces that are on their way."""
_TIMEOUTS = (5_000, 10_000)
"""Milliseconds to connect, and to be answered."""
_ALSO_TOLD = ("name", "tags", "events", "serialized", "extra")
"""Fields of a run that LangSmith's anonymizer leaves as they are, wholly or in part."""


def trace_in_place() -> None:
    """Without tracing there is nothing to do on another thread; going there costs more than the middleware does."""
    langsmith.set_runtime_overrides(aio_to_thread=_in_place)


async def _in_place(
    default: Callable[..., Awaitable[Any]], context: Context, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    if tracing_is_enabled():
        return await default(context, function, *args, **kwargs)
    return context.run(function, *args, **kwargs)


def traced_as(lease: Lease, start: RunStart, agent: str) -> AbstractContextManager[None]:
    """What is traced in the block carries as metadata whose run it is, and which."""
    if not tracing_is_enabled():
        return nullcontext()
    whose = {"tenant": lease.tenant, "session_id": lease.session_id, "run_id": lease.run_id}
    return langsmith.tracing_context(metadata={**whose, "agent_system": start.payload.system, "agent": agent})


@asynccontextmanager
async def tracing(redactors: Redactors) -> AsyncIterator[None]:
    """As long as this lasts, no trace leaves the process with a secret in it that one of ``redactors`` knows."""
    if not tracing_is_enabled():
        yield
        return
    adopt_environment({"LANGSMITH_USE_DAEMON": "true"})  # its threads would keep a process that has ended
    spans = _provider()
    client = _Discreet(redactors, spans)
    langsmith.configure(client=client)
    try:
        yield
    finally:
        langsmith.configure(client=None)
        ending = Thread(target=_end, args=(client, spans), daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _PATIENCE)


def _end(client: langsmith.Client, spans: Any) -> None:
    client.close(_PATIENCE)
    if spans is not None:
        spans.shutdown()  # what it holds is sent first


class _Discreet(langsmith.Client):
    """Everybody's secrets are taken out of everybody's traces: they go to the same place."""

    def __init__(self, redactors: Redactors, spans: Any) -> None:
        self._redactors = redactors
        super().__init__(anonymizer=redactors.redact_all_in, otel_tracer_provider=spans, timeout_ms=_TIMEOUTS)

    def create_run(self, name: str, inputs: dict[str, Any], run_type: Any, **told: Any) -> None:
        super().create_run(inputs=inputs, run_type=run_type, **self._clean({"name": name, **told}))

    def update_run(self, run_id: Any, **told: Any) -> None:
        super().update_run(run_id, **self._clean(told))

    def _clean(self, told: dict[str, Any]) -> dict[str, Any]:
        redact = self._redactors.redact_all_in
        return {**told, **{key: redact(canonical(told[key]).value) for key in _ALSO_TOLD if told.get(key)}}


def _provider() -> Any:
    """Where spans go, as OpenTelemetry's own variables say; None leaves it to LangSmith, which knows the host's.

    It is for runs alone. Made known to everybody, it would also be told of each request, by libraries that have never
    heard of secrets.
    """
    if not is_env_var_truish("OTEL_ENABLED") and get_env_var("TRACING_MODE") not in ("otel", "hybrid"):
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:  # the extra is not installed; LangSmith says so
        return None
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return None
    resource = Resource({SERVICE_NAME: "stellwerk"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
