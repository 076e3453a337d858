"""The operator's log: one JSON object per line on standard error; readable lines on a terminal.

Values are rendered, never formatted into a text, so that no input can forge a line; and secrets are taken out of
values, never out of a line, so that none can break it. In readable lines whatever controls a terminal is spelled out,
and a traceback is indented: nothing in it begins like a line of its own.
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
"""Is given a text and the tenant whom the line is about, if the line says so."""
_OURS = frozenset({"level", "timestamp", "logger", "exc_info", "_record", "_from_structlog"})
"""What no input can be in; an exception is redacted as the text that is made of it."""
_NAME = re.compile(r"[a-z][a-z_ ]*")
_ID = re.compile(r"[0-9A-Za-z]{22}")

_redactions: list[Redact] = []


class Fact(str):
    """What the server itself found out, such as an address: it is no secret, though a tenant may say that it is one."""

    __slots__ = ()


@contextmanager
def redacting(redact: Redact) -> Iterator[None]:
    """As long as this lasts, no text is written without passing through ``redact``."""
    _redactions.append(redact)
    try:
        yield
    finally:
        _redactions.remove(redact)


def _redacted(logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if not _redactions:
        return event
    tenant, kept = event.get("tenant"), _OURS | {"event"} if _is_named(logger, event) else _OURS
    return {key: value if key in kept or _is_id(key, value) else _clean(value, tenant) for key, value in event.items()}


def _is_id(key: str, value: Any) -> bool:
    return key in ("session", "run") and isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_named(logger: Any, event: MutableMapping[str, Any]) -> bool:
    """Whether ``event`` is a name that we gave; what others log is a text."""
    record = event.get("_record")
    source = getattr(logger, "name", None) if record is None else record.name
    ours = isinstance(source, str) and source.startswith("stellwerk.") and event.get("_from_structlog", True)
    return bool(ours) and _NAME.fullmatch(str(event.get("event"))) is not None


def _clean(value: Any, tenant: object) -> Any:
    if value is None or isinstance(value, bool | int | float | Fact):
        return value
    if isinstance(value, Mapping):
        return {_clean(key, tenant): _clean(item, tenant) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, tenant) for item in value]
    written = value if isinstance(value, str) else repr(value)  # as whoever renders it would
    clean = _clean_text(written, tenant)
    return value if clean == written else clean


def _clean_text(text: str, tenant: object = None) -> str:
    for redact in _redactions:
        text = redact(text, tenant)
    return text


def configure(form: Form = "auto", level: int = logging.INFO) -> None:
    """Send our own lines, those of the libraries and Python's warnings the same way."""
    readable = form == "text" or (form == "auto" and sys.stderr.isatty())
    renderers = _readable() if readable else _json()
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=renderers)
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    logging.basicConfig(handlers=[output], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    logging.getLogger("stellwerk").setLevel(level)
    # A stalled reader is let go in the middle of its answer; we have a line of our own for that.
    logging.getLogger("uvicorn.error").addFilter(lambda line: "without completing response" not in line.getMessage())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


def get_logger(name: str) -> Any:
    """For what is used as a library, too: then its lines go to the standard logging, where the host decides; nothing is
    printed by itself."""
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


def _json() -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return [structlog.processors.format_exc_info, _redacted, without_meta, structlog.processors.JSONRenderer()]


def _readable() -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_indented)
    return [_redacted, without_meta, _spelled_out, renderer]


def _spelled_out(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Texts without what controls a terminal; everything else is shown as Python writes it, which has none."""
    return {_plain(key): _plain(value) if isinstance(value, str) else value for key, value in event.items()}


def _plain(text: str) -> str:
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def _indented(output: TextIO, exc_info: Any) -> None:
    told = structlog.processors.ExceptionRenderer()(None, "", {"exc_info": exc_info})["exception"]
    lines = _clean_text(told).splitlines()  # indented, a secret of several lines would not be found
    output.write("\n" + indent("\n".join(map(_plain, lines)), "    "))
