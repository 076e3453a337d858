"""A reader of a dialect who is cut off anywhere, and comes back, has what an uncut one has."""

import re
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.dialects.base import Cursor, Dialect, RecallingTranslator, translate
from stellwerk.envelope.model import Envelope, RunStart, decode, type_of
from tests.golden.files import BY_NAME, DIALECTS, run_file

START: Cursor = (0, 0)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


def session_of(*names: str) -> list[Envelope]:
    """Golden runs, one behind the other; each is a trace of its own, and has ids of its own."""
    own = rb'"(run-|message-|plan-|lc_run--|[0-9A-Za-z]{20,22}")'
    bodies = (re.sub(own, rb'"%d-\1' % n, run_file(name).read_bytes()) for n, name in enumerate(names))
    return [decode(line) for body in bodies for line in body.splitlines()]


def beginning(dialect: Dialect, log: list[Envelope], position: int) -> int:
    """How many envelopes need not be fed to whoever goes on behind this position."""
    starts = [(n, e.trace_id) for n, e in enumerate(log) if isinstance(e, RunStart)]
    traces = [trace for n, trace in starts if n < position]
    if dialect.memory == "session" or not traces:
        return 0
    return min(n for n, trace in starts if trace == traces[-1])


def frames(dialect: Dialect, log: list[Envelope], *, skip: int = 0) -> Iterator[tuple[Cursor, bytes]]:
    story = enumerate(log[skip:], start=skip + 1)
    earlier = [envelope for envelope in log[:skip] if type_of(envelope) in dialect.recalls]
    translator = dialect.translator("session")
    for envelope in earlier:
        cast(RecallingTranslator, translator).recall(envelope)
    return ((at, dialect.frame(at, chunk)) for at, chunk in translate(translator, story))


def continued(dialect: Dialect, log: list[Envelope], after: Cursor) -> list[tuple[Cursor, bytes]]:
    return [f for f in frames(dialect, log, skip=beginning(dialect, log, after[0])) if f[0] > after]


@pytest.mark.requirement("trust.I5", "fault-05")
@pytest.mark.parametrize("name", BY_NAME)
@each_dialect
def test_every_cut_of_a_golden_run_heals(dialect: Dialect, name: str) -> None:
    log = session_of(name)
    uncut = list(frames(dialect, log))
    for seen, (after, _) in enumerate(uncut, start=1):
        assert continued(dialect, log, after) == uncut[seen:]


@given(names=st.lists(st.sampled_from(sorted(BY_NAME)), min_size=2, max_size=3), place=st.floats(0, 1))
@each_dialect
def test_a_cut_of_a_session_of_several_traces_heals(dialect: Dialect, names: list[str], place: float) -> None:
    log = session_of(*names)
    uncut = list(frames(dialect, log))
    seen = round(place * len(uncut))
    assert continued(dialect, log, uncut[seen - 1][0] if seen else START) == uncut[seen:]
