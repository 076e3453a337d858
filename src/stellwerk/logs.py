"""The operator's log: one JSON object per line on standard error; readable lines on a terminal.

Values are rendered, never formatted into a text, so that no input can forge a line.
"""

import logging
import sys
from typing import Any

import structlog

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(level: int = logging.INFO) -> None:
    """Send our own lines and those of the libraries the same way."""
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_SHARED, processors=_renderers())
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    logging.basicConfig(handlers=[output], level=logging.WARNING, force=True)
    logging.getLogger("stellwerk").setLevel(level)
    # A stalled reader is let go in the middle of its answer; we have a line of our own for that.
    logging.getLogger("uvicorn.error").addFilter(lambda line: "without completing response" not in line.getMessage())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )


def leave_to_the_host() -> None:
    """As a library: lines go to the standard logging, where the host decides; nothing is printed by itself."""
    if not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.stdlib.add_log_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
            logger_factory=structlog.stdlib.LoggerFactory(),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        )


def _renderers() -> list[Any]:
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if sys.stderr.isatty():
        plain = structlog.dev.plain_traceback
        return [without_meta, structlog.dev.ConsoleRenderer(exception_formatter=plain)]
    return [without_meta, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
