"""The operator's log: one JSON object per line on standard error; readable lines on a terminal.

Values are rendered, never formatted into a text, so no input can forge a line. Secrets are removed
from values, never from a whole line, so none can break its structure. In readable lines control
characters are spelled out and tracebacks are indented, so nothing in them looks like a line.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from textwrap import indent
from typing import Any, Literal, TextIO

import structlog

Form = Literal["auto", "json", "text"]
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]

Redact = Callable[[str, object], str]
"""Takes a text, and the tenant of the line if it names one."""
_OURS = frozenset({"level", "timestamp", "logger", "exc_info", "_record", "_from_structlog"})
"""Keys without input; an exception is redacted once it is rendered."""
_NAME = re.compile(r"[a-z][a-z_ ]*")
_ID = re.compile(r"[0-9A-Za-z]{22}")

_redactions: list[Redact] = []


class NotSecret(str):
    """A value that the server determined itself, such as an address: never redacted."""

    __slots__ = ()


@contextmanager
def redacting(redact: Redact) -> Iterator[None]:
    """Pass every text through ``redact`` before it is written."""
    _redactions.append(redact)
    try:
        yield
    finally:
        _redactions.remove(redact)


def _redacted(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if not _redactions:
        return event
    tenant = event.get("tenant")
    kept = _OURS | {"event"} if _is_named(logger, event) else _OURS
    redacted = {key for key, value in event.items() if key not in kept and not _is_id(key, value)}
    return {key: _clean(value, tenant) if key in redacted else value for key, value in event.items()}


def _is_id(key: str, value: Any) -> bool:
    return key in ("session", "run") and isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_named(logger: Any, event: MutableMapping[str, Any]) -> bool:
    """Whether ``event`` is a name that we gave; what others log is a text."""
    source = getattr(event.get("_record", logger), "name", None)
    ours = isinstance(source, str) and source.startswith("stellwerk.") and event.get("_from_structlog", True)
    return bool(ours) and _NAME.fullmatch(str(event.get("event"))) is not None


def _clean(value: Any, tenant: object) -> Any:
    if value is None or isinstance(value, bool | int | float | NotSecret):
        return value
    if isinstance(value, Mapping):
        return {_clean(key, tenant): _clean(item, tenant) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, tenant) for item in value]
    written = value if isinstance(value, str) else repr(value)  # as the renderer would
    clean = _clean_text(written, tenant)
    return value if clean == written else clean


def _clean_text(text: str, tenant: object = None) -> str:
    for redact in _redactions:
        text = redact(text, tenant)
    return text


def configure(form: Form = "auto", level: int = logging.INFO) -> None:
    """Send our own lines, those of the libraries and Python's warnings the same way."""
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if form == "text" or (form == "auto" and sys.stderr.isatty()):
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_indented)
        renderers: list[Any] = [_redacted, without_meta, _spelled_out, renderer]
    else:
        as_json = structlog.processors.JSONRenderer()
        renderers = [structlog.processors.format_exc_info, _redacted, without_meta, as_json]
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=renderers)
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    logging.basicConfig(handlers=[output], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    logging.getLogger("stellwerk").setLevel(level)
    # A stalled reader is let go in the middle of its answer; we have a line of our own for that.
    known = "without completing response"
    logging.getLogger("uvicorn.error").addFilter(lambda line: known not in line.getMessage())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


def get_logger(name: str) -> Any:
    """A logger for code that is also used as a library: then it writes to standard logging."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.add_log_level,
                structlog.processors.format_exc_info,
                _redacted,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        )
    return structlog.get_logger(name)


def _spelled_out(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Spell out control characters of texts; other values are shown by ``repr``, which has none."""
    return {_plain(key): _plain(value) if isinstance(value, str) else value for key, value in event.items()}


def _plain(text: str) -> str:
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def _indented(output: TextIO, exc_info: Any) -> None:
    rendered = structlog.processors.ExceptionRenderer()(None, "", {"exc_info": exc_info})["exception"]
    lines = _clean_text(rendered).splitlines()  # before the indent, which would hide a secret
    output.write("\n" + indent("\n".join(map(_plain, lines)), "    "))
