import json
from collections.abc import Callable
from itertools import count, pairwise

import pytest
from annotated_types import Le
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.envelope.model import Envelope, LlmToken, ToolEnd, ToolUpdate, encode
from stellwerk.envelope.payloads import ToolUpdated
from stellwerk.log.transactions import entry
from stellwerk.redaction.redactor import Redactor
from stellwerk.settings import Settings
from stellwerk.stream.coalescer import LONGEST_WAIT, Coalescer
from tests.samples import llm_end, llm_start, place, run_end, token, tool_end, tool_start

WINDOW = 0.05


def texts(envelopes: list[Envelope]) -> list[str]:
    return [e.payload.text or "" for e in envelopes if isinstance(e, LlmToken | ToolUpdate)]


def test_the_first_token_of_a_burst_is_due_at_once_and_later_ones_at_the_end_of_their_window() -> None:
    coalescer = Coalescer(WINDOW)
    coalescer.feed(token("a"), now=10.01)
    assert coalescer.due() == 10.01
    assert texts(coalescer.take(10.01)) == ["a"]
    coalescer.feed(token("b"), now=10.02)
    coalescer.feed(token("c"), now=10.04)
    assert coalescer.due() == pytest.approx(10.05)
    assert texts(coalescer.take(10.05)) == ["bc"]


def test_windows_of_all_sessions_end_at_the_same_moments() -> None:
    one, other = Coalescer(WINDOW), Coalescer(WINDOW)
    for coalescer, start in ((one, 10.001), (other, 10.013)):
        coalescer.take(start)
        coalescer.feed(token("x"), now=start + 0.002)
    assert one.due() == other.due()


def test_after_a_silence_a_token_is_due_at_once_again() -> None:
    coalescer = Coalescer(WINDOW)
    coalescer.take(10.0)
    coalescer.feed(token("late"), now=10.2)
    assert coalescer.due() == 10.2


@pytest.mark.requirement("002.backpressure.starts-and-ends-kept", "trust.I16")
def test_starts_and_ends_pass_in_order_and_starts_are_due_at_once() -> None:
    coalescer = Coalescer(WINDOW)
    coalescer.take(10.0)
    coalescer.feed(llm_end(), now=10.01)
    coalescer.feed(tool_start(), now=10.02)
    assert coalescer.due() == 10.02
    coalescer.feed(run_end(), now=10.03)
    assert [type(e).__name__ for e in coalescer.take(10.03)] == ["LlmEnd", "ToolStart", "RunEnd"]


@pytest.mark.requirement("trust.I14")
def test_the_end_of_a_call_waits_for_what_is_stored_with_it_but_not_for_long() -> None:
    coalescer = Coalescer(WINDOW)
    coalescer.take(10.0)
    coalescer.feed(token("word"), now=10.01)
    coalescer.feed(llm_end(), now=10.02)
    assert [type(e).__name__ for e in coalescer.take_due(10.05)] == ["LlmToken"]
    assert coalescer.due() == pytest.approx(11.02)
    coalescer.feed(token("from elsewhere", call="y"), now=10.06)
    assert texts(coalescer.take_due(10.5)) == ["from elsewhere"]
    assert [type(e).__name__ for e in coalescer.take_due(11.03)] == ["LlmEnd"]
    coalescer.feed(llm_end(), now=12.0)
    coalescer.feed(tool_start(), now=12.01)
    assert [type(e).__name__ for e in coalescer.take_due(12.01)] == ["LlmEnd", "ToolStart"], "order goes first"


def test_tokens_of_parallel_calls_are_merged_apart() -> None:
    coalescer = Coalescer(WINDOW)
    for text, call in (("a", "x"), ("1", "y"), ("b", "x"), ("2", "y")):
        coalescer.feed(token(text, call=call), now=10.0)
    assert {e.call_id: e.payload.text for e in coalescer.take(10.0) if isinstance(e, LlmToken)} == {
        "x": "ab",
        "y": "12",
    }


def test_without_a_window_every_token_stays_alone() -> None:
    coalescer = Coalescer(0)
    for text in "abc":
        coalescer.feed(token(text), now=10.0)
    assert coalescer.due() == 10.0
    assert texts(coalescer.take(10.0)) == ["a", "b", "c"]


def test_a_character_cut_in_two_is_joined_again_even_over_two_windows() -> None:
    high, low = "\ud83d", "\ude00"
    coalescer = Coalescer(WINDOW)
    coalescer.feed(token("smile " + high), now=10.0)
    first = coalescer.take(10.0)
    coalescer.feed(token(low + "!"), now=10.02)
    assert texts(first) + texts(coalescer.take(10.05)) == ["smile ", "😀!"]


def test_half_a_character_that_stays_alone_is_replaced() -> None:
    coalescer = Coalescer(WINDOW)
    coalescer.feed(token("x\ud83d"), now=10.0)
    coalescer.feed(llm_end(), now=10.0)
    assert texts(coalescer.take(10.0)) == ["x\ufffd"]


WORDS = st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5), st.booleans()), max_size=40)


@pytest.mark.requirement("002.backpressure.token-window")
def test_tokens_are_stored_in_batches_25_to_75_ms_apart() -> None:
    coalescer = Coalescer(Settings.model_fields["window"].default)
    batches: list[float] = []
    for millisecond in range(1000):
        now = 10 + millisecond / 1000
        coalescer.feed(token("x"), now=now)
        if (due := coalescer.due()) is not None and due <= now:
            assert texts(coalescer.take_due(now))
            batches.append(now)
    gaps = [later - earlier for earlier, later in pairwise(batches[1:])]  # the first is due at once
    assert len(gaps) > 10
    assert all(0.025 <= round(gap, 6) <= 0.075 for gap in gaps)


@given(WORDS, st.sampled_from([0.0, 0.025, 0.05, 0.075]))
def test_the_text_is_the_same_whatever_the_window(words: list[tuple[str, str, bool]], window: float) -> None:
    coalescer = Coalescer(window)
    stored: list[Envelope] = []
    for n, (call, text, flush) in enumerate(words):
        coalescer.feed(token(text, call=call), now=n * 0.01)
        if flush:
            stored += coalescer.take(n * 0.01)
    for call in "abc":
        coalescer.feed(llm_end(call=call), now=1.0)
    stored += coalescer.take(1.0)
    for call in "abc":
        sent = "".join(text for c, text, _ in words if c == call).replace("\0", "\ufffd")
        got = "".join(e.payload.text for e in stored if isinstance(e, LlmToken) and e.call_id == call)
        assert got == sent
    assert all(encode(e) for e in stored)


def test_a_start_stays_before_its_tokens_and_these_before_their_end() -> None:
    coalescer = Coalescer(WINDOW)
    for envelope in (llm_start("x"), token("1", call="x"), llm_start("y"), token("2", call="y"), token("3", call="x")):
        coalescer.feed(envelope, now=10.0)
    coalescer.feed(llm_end(call="x"), now=10.0)
    order = [e.call_id + type(e).__name__ for e in coalescer.take(10.0)]
    for before, after in pairwise(["xLlmStart", "xLlmToken", "xLlmEnd"]):
        assert order.index(before) < order.index(after)


def update(text: str | None = None, data: object = None, call: str = "t1") -> ToolUpdate:
    return ToolUpdate(**place(call, 0), payload=ToolUpdated(phase="output", text=text, data=data))


@pytest.mark.requirement("002.backpressure.tool-updates-limited")
def test_of_a_tools_progress_in_data_the_latest_of_a_window_is_kept() -> None:
    coalescer = Coalescer(0.05)
    for percent in range(100):
        for call in ("t1", "t2"):
            coalescer.feed(update(data={"percent": percent}, call=call), 1.0)
    kept = [e for e in coalescer.take(1.05) if isinstance(e, ToolUpdate)]
    assert [(e.call_id, e.payload.data) for e in kept] == [("t1", {"percent": 99}), ("t2", {"percent": 99})]


def test_pieces_of_a_tools_output_are_joined_and_none_is_lost() -> None:
    coalescer = Coalescer(0.05)
    for piece in ("one ", "two ", "three"):
        coalescer.feed(update(piece), 1.0)
    coalescer.feed(update("other", call="t2"), 1.0)
    texts = [e.payload.text for e in coalescer.take(1.05) if isinstance(e, ToolUpdate)]
    assert texts == ["one two three", "other"]


def test_progress_before_the_end_of_a_call_stays_before_it() -> None:
    coalescer = Coalescer(0.05)
    coalescer.feed(update(data=1), 1.0)
    coalescer.feed(tool_end(call="t1"), 1.0)
    coalescer.feed(update(data=2, call="t1"), 1.0)
    assert [type(e) for e in coalescer.take(1.05)] == [ToolUpdate, ToolEnd, ToolUpdate]


def written(text: str, tool_call_id: str) -> ToolUpdate:
    said = ToolUpdated(phase="args", text=text, tool_name="look", tool_call_id=tool_call_id)
    return ToolUpdate(**place("llm", 2), payload=said)


def test_arguments_are_merged_by_the_call_they_are_written_for_and_none_is_lost() -> None:
    coalescer = Coalescer(WINDOW)
    for piece, call in (('{"a":', "c1"), ("{", "c2"), ("1}", "c1"), ("}", "c2")):
        coalescer.feed(written(piece, call), now=10.0)
    coalescer.feed(llm_end(), now=10.01)
    *pieces, end = coalescer.take(10.05)
    assert [(e.payload.tool_call_id, e.payload.text) for e in pieces if isinstance(e, ToolUpdate)] == [
        ("c1", '{"a":1}'),
        ("c2", "{}"),
    ]
    assert end == llm_end()


SECRET = "sk-do-not-tell-anybody"


@pytest.mark.parametrize(
    "said", [token, lambda text: written(text, "c1"), lambda text: update(text)], ids=["text", "arguments", "output"]
)
@given(cuts=st.sets(st.integers(1, len(SECRET) + 20)), text=st.sampled_from([SECRET, "s" + SECRET, f"sk-{SECRET}-sk"]))
def test_a_secret_that_comes_in_pieces_is_redacted_whole(
    said: Callable[[str], Envelope], cuts: set[int], text: str
) -> None:
    redactor = Redactor([SECRET])
    coalescer, stored = Coalescer(WINDOW, redactor), b""
    told, moments = f"the key is {text}, so", iter(count(10.0, LONGEST_WAIT / 100))
    for start, end in pairwise([0, *sorted(cuts), len(told)]):
        coalescer.feed(said(told[start:end]), now=next(moments))
        stored += b"".join(entry(envelope, redactor).body for envelope in coalescer.take(next(moments)))
    stored += b"".join(entry(envelope, redactor).body for envelope in coalescer.take(next(moments), last=True))
    shown = "".join(json.loads(line)["payload"].get("text") for line in stored.replace(b"}{", b"}\n{").splitlines())
    assert shown == told.replace(SECRET, "[redacted]")


@pytest.mark.parametrize("said", [token, lambda text: update(text)], ids=["text", "output"])
@pytest.mark.parametrize("window, due", [(WINDOW, 10.05), (0, 10.02)])
def test_what_follows_an_end_that_was_held_back_joins_it_and_is_due_again(
    said: Callable[[str], Envelope], window: float, due: float
) -> None:
    coalescer = Coalescer(window, Redactor([SECRET]))
    coalescer.feed(said("it is sk"), now=10.0)
    assert texts(coalescer.take(10.0)) == ["it is "]
    assert coalescer.due() == pytest.approx(10.0 + LONGEST_WAIT - window)
    assert coalescer.feed(said("y"), now=10.02)
    assert coalescer.due() == pytest.approx(due)
    assert texts(coalescer.take(10.05)) == ["sky"]


@pytest.mark.parametrize("said", [token, lambda text: update(text)], ids=["text", "output"])
def test_without_a_window_pieces_that_wait_together_stay_in_order_around_a_possible_secret(
    said: Callable[[str], Envelope],
) -> None:
    coalescer = Coalescer(0, Redactor([SECRET]))
    for piece in ("it is sk", "y", " blue"):
        coalescer.feed(said(piece), now=10.0)
    assert "".join(texts(coalescer.take(10.0))) == "it is sky blue"


@pytest.mark.requirement("002.backpressure.flush-within-250-ms")
@pytest.mark.parametrize(
    "said", [token, lambda text: written(text, "c1"), lambda text: update(text)], ids=["text", "arguments", "output"]
)
@given(
    pieces=st.lists(st.tuples(st.floats(0, 0.3), st.text("ab", min_size=1, max_size=3)), min_size=1),
    secrets=st.sets(st.text("ab", min_size=4, max_size=9), max_size=3),
    window=st.sampled_from([0.0, 0.001, 0.025, 0.04, 0.1, 0.249, 0.25]),
)
def test_no_text_waits_longer_than_the_longest_window(
    said: Callable[[str], Envelope], pieces: list[tuple[float, str]], secrets: set[str], window: float
) -> None:
    """Neither for its window nor for the rest of a secret that it may be the beginning of."""
    longest = Settings.model_fields["window"].metadata[-1]
    assert longest == Le(LONGEST_WAIT) == Le(0.25)
    coalescer = Coalescer(window, Redactor(secrets))
    fed_at, now = list[float](), 100.0
    taken = 0
    for pause, text in [*pieces, (1.0, "")]:
        following = now + pause
        while (due := coalescer.due()) is not None and due <= following:
            now = max(now, due)
            shown = sum(map(len, texts(coalescer.take_due(now))))
            assert all(now - moment <= 0.25 + 1e-9 for moment in fed_at[taken : taken + shown])
            taken += shown
        now = following
        if text:
            coalescer.feed(said(text), now=now)
            fed_at += [now] * len(text)
    assert taken == len(fed_at)
