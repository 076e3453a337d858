"""What holds for every run: however calls interleave, fail, ask and are cut off, the log keeps its rules."""

from collections.abc import Iterable, Sequence
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.model import AskUser, Envelope, Message, RunEnd, ToolStart, UserAnswer, decode, encode
from stellwerk.envelope.payloads import Answered, Problem, TextPart
from stellwerk.ids import digest_id
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.endings import ending, interrupted_ending
from stellwerk.stream.facts import Fact
from stellwerk.testing.order import order_problems
from tests.golden.files import DIALECTS
from tests.samples import place, run_start
from tests.stream.random_facts import Shape, Writer, choices, shapes
from tests.stream.shown_text import SHOWN, words

FAILURE = Problem(code="agent_failed", message="the agent raised an error", fatal=True)


class Session:
    """A log that grows by runs of facts."""

    def __init__(self) -> None:
        self.log: list[Envelope] = []
        self._calls = OpenCalls()
        self._rounds = 0

    def run(self, facts: Iterable[Fact], *, failure: Problem | None = None, answers: Sequence[str] = ()) -> "Session":
        run_id = self.begin(answers)
        adapter = self.feed(facts, run_id, goes_on=bool(answers))
        return self.store(ending(adapter, self._calls, ts=99.0, failure=failure))

    def begin(self, answers: Sequence[str] = ()) -> str:
        self._rounds += 1
        run_id = f"run{self._rounds}"
        self.store([run_start(run_id, self._rounds)])
        for ask_id in answers:
            where = place(digest_id("answer", ask_id), 0, parent=run_id, run=run_id)
            self.store([UserAnswer(**where, payload=Answered(ask_id=ask_id, text="yes"))])
        return run_id

    def feed(self, facts: Iterable[Fact], run_id: str, *, goes_on: bool = False) -> StreamAdapter:
        adapter = StreamAdapter(trace_id="trace", run_id=run_id, agent="boss")
        if goes_on:
            adapter.seed(self.log)
        for fact in facts:
            self.store(adapter.feed(fact))
        return adapter

    def store(self, envelopes: Iterable[Envelope]) -> "Session":
        self.log += [self._calls.stamp(envelope) for envelope in envelopes]
        return self

    def crash(self, run_id: str) -> "Session":
        self.log += interrupted_ending(self.log, run_id=run_id, ts=99.0)
        return self


def written(drawn: list[Shape], order: list[int]) -> list[Fact]:
    return Writer().program(drawn, order)


@given(shapes, choices)
def test_any_interleaving_keeps_the_order_rules(drawn: list[Shape], order: list[int]) -> None:
    assert order_problems(Session().run(written(drawn, order)).log) == []


@given(shapes, choices)
def test_a_run_that_fails_leaves_nothing_open(drawn: list[Shape], order: list[int]) -> None:
    assert order_problems(Session().run(written(drawn, order), failure=FAILURE).log) == []


@given(shapes, choices, st.integers(0, 100))
def test_any_prefix_and_its_closing_is_a_legal_log(drawn: list[Shape], order: list[int], cut: int) -> None:
    facts = written(drawn, order)
    prefix = facts[: cut % (len(facts) + 1)]
    assert order_problems(Session().run(prefix, failure=FAILURE).log) == []
    crashed = Session()
    run_id = crashed.begin()
    crashed.feed(prefix, run_id)
    assert order_problems(crashed.crash(run_id).log) == []


@given(shapes, choices)
def test_an_answered_run_goes_on_with_the_calls_that_are_open(drawn: list[Shape], order: list[int]) -> None:
    """The framework runs a tool that asked from its beginning again; to readers it is the same call."""
    session = Session().run(written(drawn, order))
    end = session.log[-1]
    if isinstance(end, RunEnd) and end.payload.status == "awaiting_user":
        asked = [envelope.payload.ask_id for envelope in session.log if isinstance(envelope, AskUser)]
        session.run(Writer("again-").program(_answered(drawn), order), answers=asked)
    assert order_problems(session.log) == []
    started = [envelope.call_id for envelope in session.log if isinstance(envelope, ToolStart)]
    assert len(started) == len(set(started))


def _answered(drawn: list[Shape]) -> list[Shape]:
    """What runs again after the answers: everything as before, but nobody asks any more."""
    return [
        {**shape, "end": "done" if shape["end"] == "paused" else shape["end"], "inside": _answered(shape["inside"])}
        if "inside" in shape
        else shape
        for shape in drawn
    ]


@pytest.mark.requirement("002.replay.deterministic")
@given(shapes, choices)
def test_the_same_facts_give_the_same_bytes(drawn: list[Shape], order: list[int]) -> None:
    one, other = (Session().run(written(drawn, order)).log for _ in range(2))
    assert [encode(envelope) for envelope in one] == [encode(envelope) for envelope in other]


@given(shapes, choices)
def test_every_envelope_can_be_stored_and_read_again(drawn: list[Shape], order: list[int]) -> None:
    for envelope in Session().run(written(drawn, order)).log:
        assert encode(decode(encode(envelope))) == encode(envelope)


_SHORT = st.sampled_from(["", "a", "b", "tools:1", "tools:1|model:2", "\ud800", "\0"])
_ANYTHING = st.one_of(
    st.none(),
    st.recursive(
        st.one_of(_SHORT, st.integers(), st.floats(), st.binary(max_size=3)),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(_SHORT, inner, max_size=2)),
        max_leaves=4,
    ),
)


_FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    str: _SHORT,
    str | None: st.one_of(st.none(), _SHORT),
    float: st.floats(0, 9),
    Any: _ANYTHING,
    dict[str, Any]: st.dictionaries(_SHORT, _ANYTHING, max_size=2),
    list[Any] | None: st.one_of(st.none(), st.lists(_ANYTHING, max_size=2)),
    list[tuple[str, str, Any]]: st.lists(st.tuples(_SHORT, _SHORT, _ANYTHING), max_size=2),
    tuple[str, ...]: st.lists(_SHORT, max_size=2).map(tuple),
    tuple[Any, ...]: st.lists(_ANYTHING, max_size=2).map(tuple),
}


def _garbage(kind: type[Fact]) -> st.SearchStrategy[Fact]:
    hints = get_type_hints(kind)
    fields = {name: _FIELDS.get(hints[name], st.from_type(hints[name])) for name in kind.__struct_fields__}
    return st.builds(kind, **fields)


@given(st.lists(st.one_of(*(_garbage(kind) for kind in Fact.__subclasses__())), max_size=30))
def test_no_sequence_of_facts_makes_the_adapter_raise(facts: list[Fact]) -> None:
    log = Session().run(facts).log
    assert [decode(encode(envelope)) for envelope in log]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(drawn=shapes, order=choices)
def test_no_text_is_doubled_in_any_dialect(dialect: str, drawn: list[Shape], order: list[int]) -> None:
    log = Session().run(written(drawn, order)).log
    shown = words(SHOWN[dialect](DIALECTS[dialect], log))
    assert len(shown) == len(set(shown))
    answers = [e.payload for e in log if isinstance(e, Message) and e.payload.status == "last"]
    answer = words(part.text for said in answers for part in said.content if isinstance(part, TextPart))
    assert set(answer) <= set(shown), "and the answer is not lost"
