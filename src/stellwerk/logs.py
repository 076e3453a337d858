"""The operator's log: one JSON object per line on standard error; readable lines on a terminal.

Values are rendered, never formatted into a text, so that no input can forge a line. In readable lines whatever
controls a terminal is spelled out, and a traceback is indented: nothing in it begins like a line of its own.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
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

_redactions: list[Callable[[str], str]] = []


@contextmanager
def redacting(redact: Callable[[str], str]) -> Iterator[None]:
    """As long as this lasts, no line is written without passing through ``redact``."""
    _redactions.append(redact)
    try:
        yield
    finally:
        _redactions.remove(redact)


def _redacted(_logger: Any, _method: str, line: Any) -> str:
    for redact in _redactions:
        line = redact(line)
    return str(line)


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
                structlog.processors.KeyValueRenderer(key_order=["event"]),
                _redacted,
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        )
    return structlog.get_logger(name)


def _json() -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return [without_meta, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), _redacted]


def _readable() -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_indented)
    return [without_meta, _spelled_out, renderer, _redacted]


def _spelled_out(_: Any, __: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Texts without what controls a terminal; everything else is shown as Python writes it, which has none."""
    return {_plain(key): _plain(value) if isinstance(value, str) else value for key, value in event.items()}


def _plain(text: str) -> str:
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def _indented(output: TextIO, exc_info: Any) -> None:
    told = structlog.processors.ExceptionRenderer()(None, "", {"exc_info": exc_info})["exception"]
    lines = _redacted(None, "", told).splitlines()  # indented, a secret of several lines would not be found
    output.write("\n" + indent("\n".join(map(_plain, lines)), "    "))
