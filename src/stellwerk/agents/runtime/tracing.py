"""Tracing with LangSmith and OpenTelemetry, without cost while it is off.

It is switched on by LangSmith's and OpenTelemetry's own environment variables. Traces carry tenant,
session and run as metadata; known secrets are redacted.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from threading import Thread
from typing import Any

import langsmith
from langsmith.utils import get_env_var, is_env_var_truish, tracing_is_enabled

from stellwerk.envelope.model import RunStart
from stellwerk.envelope.to_json import canonical
from stellwerk.log.log import Lease
from stellwerk.redaction.redactor import Redactors

_FLUSH_TIMEOUT = 3.0
"""Seconds that a shutdown waits for traces to be sent."""
_TIMEOUTS = (5_000, 10_000)
"""Connect and read timeouts, in milliseconds."""
_NOT_ANONYMIZED = ("name", "tags", "events", "serialized", "extra")
"""Fields of a run that LangSmith's anonymizer leaves unchanged, wholly or in part."""


def trace_in_place() -> None:
    """Without tracing, skip LangSmith's switch of threads, which costs more than the middleware."""

    async def run(default: Any, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if tracing_is_enabled():
            return await default(context, function, *args, **kwargs)
        return context.run(function, *args, **kwargs)

    langsmith.set_runtime_overrides(aio_to_thread=run)


def traced_as(lease: Lease, start: RunStart, agent: str) -> AbstractContextManager[None]:
    """Traces of the block carry tenant, session, run, system and agent as metadata."""
    if not tracing_is_enabled():
        return nullcontext()
    metadata = {
        "tenant": lease.tenant,
        "session_id": lease.session_id,
        "run_id": lease.run_id,
        "agent_system": start.payload.system,
        "agent": agent,
    }
    return langsmith.tracing_context(metadata=metadata)


@asynccontextmanager
async def tracing(redactors: Redactors) -> AsyncIterator[None]:
    """Inside the block, secrets that one of ``redactors`` knows are redacted in all traces."""
    if not tracing_is_enabled():
        yield
        return
    from stellwerk.settings import adopt_environment  # not in the environments of isolated graphs

    adopt_environment({"LANGSMITH_USE_DAEMON": "true"})  # its threads would keep the process alive
    spans = _provider()
    client = _RedactingClient(redactors, spans)
    langsmith.configure(client=client)
    try:
        yield
    finally:
        langsmith.configure(client=None)
        ending = Thread(target=_end, args=(client, spans), daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, _FLUSH_TIMEOUT)


def _end(client: langsmith.Client, spans: Any) -> None:
    client.close(_FLUSH_TIMEOUT)
    if spans is not None:
        spans.shutdown()  # sends pending spans first


class _RedactingClient(langsmith.Client):
    """Secrets of all tenants are redacted in the traces of each: they go to the same place."""

    def __init__(self, redactors: Redactors, spans: Any) -> None:
        self._redact = redactors.redact_all_in
        super().__init__(anonymizer=self._redact, otel_tracer_provider=spans, timeout_ms=_TIMEOUTS)

    def create_run(self, name: str, inputs: dict[str, Any], run_type: Any, **fields: Any) -> None:
        fields = self._clean({"name": name, **fields})
        super().create_run(inputs=inputs, run_type=run_type, **fields)

    def update_run(self, run_id: Any, **fields: Any) -> None:
        super().update_run(run_id, **self._clean(fields))

    def _clean(self, fields: dict[str, Any]) -> dict[str, Any]:
        found = {key: fields[key] for key in _NOT_ANONYMIZED if fields.get(key)}
        return fields | {key: self._redact(canonical(value).value) for key, value in found.items()}


def _provider() -> Any:
    """The span exporter of OpenTelemetry's variables; None lets LangSmith use the host's provider.

    It is not made global: libraries would then also export each request, without redaction.
    """
    by_mode = get_env_var("TRACING_MODE") in ("otel", "hybrid")
    if not by_mode and not is_env_var_truish("OTEL_ENABLED"):
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk import resources
        from opentelemetry.sdk.trace import TracerProvider, export
    except ImportError:  # the extra is not installed; LangSmith reports it
        return None
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return None
    resource = resources.Resource({resources.SERVICE_NAME: "stellwerk"})
    detected = resource.merge(resources.OTELResourceDetector().detect())
    provider = TracerProvider(resource=detected, shutdown_on_exit=False)
    provider.add_span_processor(export.BatchSpanProcessor(OTLPSpanExporter()))
    return provider
