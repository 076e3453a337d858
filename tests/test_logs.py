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
from stellwerk.redaction.redactor import Redactor
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
    with redacting(lambda text, _: Redactor([key]).redact_text(text)):
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


ANY_SECRETS = """
import io, json, logging, sys
import structlog
from hypothesis import given, settings, strategies as st
from stellwerk.redaction.redactor import Redactors
from stellwerk.logs import NotSecret, configure, redacting

written = sys.stderr = io.StringIO()
configure(sys.argv[1])
logger = structlog.get_logger("stellwerk.test")
redactors = Redactors()

def lines():
    written.seek(0), written.truncate()
    held = {"held": [{"k": "of others 7"}], "odd": {"of others 7"}}
    logger.warning("request_refused", status=403, origin=NotSecret("127.0.0.1"), path="/a", **held)
    logging.getLogger("some.library").warning("request_refused of others 7")
    try:
        raise ValueError("of others 7")
    except ValueError:
        logger.exception("run_failed", session="0" * 22, tenant="acme")
    return written.getvalue()

whole = lines()
FIXED = ("event", "level", "status", "origin", "session")
PART = st.integers(0, len(whole) - 4).flatmap(lambda at: st.integers(4, 60).map(lambda size: whole[at : at + size]))

@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(PART | st.sampled_from(['"event": "request_refused"', '"level": "warning"', "127.0.0.1", "0000"])))
def keeps_its_form(secrets):
    redactors.set_secrets("other", secrets)
    shown, before = (list(map(json.loads, text.splitlines())) for text in (lines(), whole))
    assert [line.keys() for line in shown] == [line.keys() for line in before]
    for number in (0, 2):
        assert [shown[number].get(name) for name in FIXED] == [before[number].get(name) for name in FIXED]
    assert shown[1]["level"] == "warning" and shown[0]["timestamp"] > "2" and shown[2]["timestamp"] > "2"

with redacting(redactors.redact_line):
    if sys.argv[1] == "json":
        keeps_its_form()
    redactors.set_secrets("acme", ["run_failed", "s3cret-7"])
    redactors.set_secrets("other", ["of others 7"])
    print(lines())
"""


def test_whatever_the_secrets_are_each_record_is_one_line_of_json_with_its_name_and_level() -> None:
    done = subprocess.run([sys.executable, "-c", ANY_SECRETS, "json"], capture_output=True, check=True)
    refused, library, failed = map(json.loads, done.stdout.splitlines()[:3])
    assert (refused["held"], refused["odd"]) == ([{"k": "[redacted]"}], "{'[redacted]'}")
    assert library["event"] == "request_refused [redacted]"
    # This line says whose it is: what others keep secret is nothing to him.
    assert failed["event"] == "run_failed" and failed["exception"].endswith("ValueError: of others 7")


def test_readable_lines_keep_their_name_and_level_whatever_the_secrets_are() -> None:
    done = subprocess.run([sys.executable, "-c", ANY_SECRETS, "text"], capture_output=True, check=True)
    refused, library, failed, *_ = done.stdout.decode().splitlines()
    assert "[warning  ] request_refused" in refused and "origin=127.0.0.1" in refused and "of others" not in refused
    assert "request_refused [redacted]" in library
    assert "[error    ] run_failed" in failed


TEXTS = """
import logging
import structlog
from stellwerk.logs import configure, redacting

configure("json")
with redacting(lambda text, _: text.replace("secret", "[redacted]")):
    structlog.get_logger("stellwerk.test").warning("a_secret")
    structlog.get_logger("stellwerk.test").warning("A secret: 7")
    logging.getLogger("stellwerk.test").warning("a_secret")
"""


def test_only_a_name_that_we_gave_is_not_redacted() -> None:
    done = subprocess.run([sys.executable, "-c", TEXTS], capture_output=True, check=True)
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events == ["a_secret", "A [redacted]: 7", "a_[redacted]"]
