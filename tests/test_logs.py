"""The operator's log: one record is one line, whatever is in it."""

import json
import subprocess
import sys

import pytest

FORGED = (
    'a\n{"level": "info", "event": "forged"}\r\n2026-01-01T00:00:00Z [info     ] forged '
    "\x1b[2J\x1b]0;x\x07\u2028\u202e\x9b31m"
)
PROGRAM = """
import logging, sys, warnings
import structlog
from stellwerk.envelope.redaction import Redactor
from stellwerk.logs import configure, redacting

configure(sys.argv[1])
forged = sys.argv[2]
logger = structlog.get_logger("stellwerk.test")
logger.warning("session_named", session=forged, filename=forged.encode(), header=[forged], body={forged: forged})
logger.warning(forged)
logger.warning("odd_key", **{forged: 1})
logging.getLogger("some.library").warning("header %s", forged)
warnings.warn(forged)
key = "-----BEGIN KEY-----\\ncanary\\n-----END KEY-----"
try:
    raise ValueError(forged + key)
except ValueError:
    with redacting(Redactor([key]).redact_text):
        logger.exception("run_failed", reason=forged)
"""
RECORDS = 6


def written(form: str) -> str:
    done = subprocess.run([sys.executable, "-c", PROGRAM, form, FORGED], capture_output=True, check=True)
    assert done.stdout == b""
    assert b"[redacted]" in done.stderr and b"canary" not in done.stderr
    return done.stderr.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("form", ["auto", "json"])
def test_in_a_pipe_each_record_is_one_line_of_json_whatever_is_in_it(form: str) -> None:
    lines = written(form).split("\n")
    assert lines.pop() == "" and len(lines) == RECORDS
    assert all(line.isprintable() and line.isascii() for line in lines)
    events = [json.loads(line) for line in lines]
    assert events[0]["session"] == events[1]["event"] == FORGED
    assert all({"level", "timestamp", "event"} <= event.keys() for event in events)
    assert FORGED in events[-1]["exception"]


def test_readable_lines_hold_nothing_that_forges_a_line_or_drives_a_terminal() -> None:
    text = written("text")
    assert all(letter == "\n" or letter.isprintable() for letter in text)
    # What belongs to a traceback is indented: everything else begins with the time.
    begun = [line for line in text.splitlines() if line and not line.startswith("    ")]
    assert len(begun) == RECORDS
    assert all("[warning" in line or "[error" in line for line in begun)
    assert "forged" in text
