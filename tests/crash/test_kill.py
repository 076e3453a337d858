"""kill -9 under load, in short: three times here, 150 times with ``make crash``."""

import asyncio
import copy
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken, RunEnd, RunStart, ToolEnd, ToolStart, decode
from tests.crash import checks, effects
from tests.crash.kill_loop import KillLoop, Outcome
from tests.crash.ledger import Book, Ledger, Sent
from tests.crash.snapshot import Snapshot

KILLS = 3
SEED = 7
PATIENT = 60
"""Seconds that a restarted server has to take up its runs: here other tests may run beside it."""

Tamper = Callable[[str, Ledger, Snapshot], None]


# The servers take half a minute of one core, and others may want it as well.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder: Path = tmp_path_factory.mktemp("kills")
    return asyncio.run(KillLoop(folder, seed=SEED, say=lambda _: None, taken_up=PATIENT).run(KILLS))


@pytest.mark.requirement("trust.I1", "trust.I2", "trust.I3", "trust.I10", "trust.I12")
def test_what_was_acknowledged_or_shown_survives_kill_9_and_every_run_ends(outcome: Outcome) -> None:
    assert not outcome.problems, "\n".join(["", *outcome.problems[:20]])
    assert outcome.kills >= KILLS


@pytest.mark.requirement("trust.I9", "trust.I14")
def test_rounds_rise_by_one_and_no_finished_call_is_made_again(outcome: Outcome) -> None:
    for book in outcome.ledger.books.values():
        envelopes = [decode(body) for body in book.log]
        rounds = [e.payload.round for e in envelopes if isinstance(e, RunStart)]
        assert rounds == list(range(1, len(rounds) + 1)), book.session_id
        assert not list(effects.repeated_calls(envelopes)), book.session_id


def test_the_kills_hit_runs_and_readers_at_work(outcome: Outcome) -> None:
    assert outcome.is_varied, f"too little was going on: {outcome.ledger.acknowledgements()} acknowledgements"
    assert outcome.ledger.frames() > 0, "no reader had received anything"


def lose_a_session(session_id: str, _: Ledger, found: Snapshot) -> None:
    del found.heads[session_id]


def lose_the_last_event(session_id: str, _: Ledger, found: Snapshot) -> None:
    found.logs[session_id].pop()


def skip_a_position(session_id: str, _: Ledger, found: Snapshot) -> None:
    position, body = found.logs[session_id].pop()
    found.logs[session_id].append((position + 1, body))


def change_a_byte(session_id: str, _: Ledger, found: Snapshot) -> None:
    position, body = found.logs[session_id][0]
    found.logs[session_id][0] = position, body.replace(b'"ts":1', b'"ts":2')


def repeat_a_round(session_id: str, _: Ledger, found: Snapshot) -> None:
    found.rounds[session_id].append(found.rounds[session_id][-1])


def tell_a_round_twice(session_id: str, _: Ledger, found: Snapshot) -> None:
    """In the log alone; the table has each once."""
    log = found.logs[session_id]
    at, second = [(n, body) for n, (_, body) in enumerate(log) if isinstance(decode(body), RunStart)][-1]
    log[at] = log[at][0], re.sub(rb'"round":\d+', b'"round":0', second)


def fork_another_log(session_id: str, ledger: Ledger, found: Snapshot) -> None:
    """A fork that does not begin with what the other session had told."""
    book = ledger.books[session_id]
    position = len(found.logs[session_id]) // 2
    book.log, book.forked = [b"{}" for _ in range(position)], position


def forget_a_checkpoint(session_id: str, _: Ledger, found: Snapshot) -> None:
    found.checkpoints[session_id].add("1f1e0000-nobody-told-of-this-one")


def damage_the_file(_: str, __: Ledger, found: Snapshot) -> None:
    found.integrity = ["row 17 missing from index"]


def show_what_is_not_stored(session_id: str, ledger: Ledger, found: Snapshot) -> None:
    nowhere = found.heads[session_id] + 1
    ledger.books[session_id].received[nowhere] = b'{"position":%d}' % nowhere


def acknowledge_what_is_not_stored(session_id: str, ledger: Ledger, _: Snapshot) -> None:
    sent = ledger.books[session_id].answered("messages")[0]
    sent.answer = (sent.answer or b"").replace(b'"message_id":"', b'"message_id":"x')


def acknowledge_a_stop_that_was_none(session_id: str, ledger: Ledger, found: Snapshot) -> None:
    run_id = next(e.run_id for e in map(decode, (body for _, body in found.logs[session_id])) if isinstance(e, RunEnd))
    answer = msgspec.json.encode({"status": "never", "run_id": run_id})
    ledger.books[session_id].sent.append(Sent("enough", kind="stop", answer=answer))


def acknowledge_an_answer_that_was_not_given_anew(session_id: str, ledger: Ledger, _: Snapshot) -> None:
    answer = msgspec.json.encode({"run_id": "nobody's", "round": 1, "position": 1, "message_id": "none"})
    ledger.books[session_id].sent.append(Sent("", kind="regenerate", answer=answer))


@pytest.mark.parametrize(
    "tamper",
    [
        lose_a_session,
        lose_the_last_event,
        skip_a_position,
        change_a_byte,
        repeat_a_round,
        tell_a_round_twice,
        fork_another_log,
        forget_a_checkpoint,
        damage_the_file,
        show_what_is_not_stored,
        acknowledge_what_is_not_stored,
        acknowledge_a_stop_that_was_none,
        acknowledge_an_answer_that_was_not_given_anew,
    ],
)
def test_a_planted_loss_is_noticed(outcome: Outcome, tamper: Tamper) -> None:
    assert outcome.last is not None
    ledger, found = copy.deepcopy(outcome.ledger), copy.deepcopy(outcome.last)
    before = set(checks.snapshot_problems(ledger, found))
    session_id = next(
        name
        for name, book in ledger.books.items()
        if book.answered("messages") and book.received and found.rounds[name] and not book.forked
    )
    tamper(session_id, ledger, found)
    assert set(checks.snapshot_problems(ledger, found)) - before


def quiet_book(outcome: Outcome) -> tuple[Book, list[Envelope]]:
    """A session whose last run has ended for good, and whose first order was not cut off."""
    for book in outcome.ledger.books.values():
        story = [decode(body) for body in book.log]
        orders = [e.call_id for e in story if _orders(e)]
        done = {e.call_id for e in story if isinstance(e, ToolEnd) and e.payload.status == "ok"}
        end = story[-1]
        if orders and orders[0] in done and isinstance(end, RunEnd) and end.payload.status == "completed":
            return book, story
    raise AssertionError("no session ended well")


def _orders(envelope: Envelope) -> bool:
    return isinstance(envelope, ToolStart) and envelope.payload.tool_name == "order"


def test_a_run_without_an_end_is_noticed(outcome: Outcome) -> None:
    book, story = quiet_book(outcome)
    standing = {"round": sum(isinstance(e, RunStart) for e in story), "position": len(book.log)}
    assert not list(checks.recovery_problems(book, book.log, standing))
    problems = "\n".join(checks.recovery_problems(book, book.log[:-1], standing))
    assert "runs that started" in problems


def test_a_message_that_was_enqueued_and_forgotten_is_noticed(outcome: Outcome) -> None:
    book, story = quiet_book(outcome)
    (first, *_) = [e.payload.message_id for e in story if isinstance(e, RunStart) and e.payload.message_id]
    left = [e for e in story if not (isinstance(e, RunStart) and e.payload.message_id == first)]
    assert "taken up or withdrawn 0 times" in "\n".join(checks.forgotten_messages(book, left))


def test_a_call_without_an_end_is_noticed(outcome: Outcome) -> None:
    book, story = quiet_book(outcome)
    standing = {"round": sum(isinstance(e, RunStart) for e in story), "position": len(book.log) - 1}
    without = [body for body in book.log if not body.startswith(b'{"type":"tool_end"')]
    assert "tool_start" in "\n".join(checks.recovery_problems(Book(book.session_id, ""), without, standing))


def test_a_run_that_nobody_drives_is_noticed() -> None:
    found = Snapshot([], {"taken up": 7, "orphan": 7, "asks": 7, "over": 7, "waits": 7}, waiting={"waits"})
    at_work = {"status": "running", "awaiting_user_input": False, "position": 7}
    standings = {
        **{"taken up": at_work | {"position": 8}, "orphan": at_work, "waits": at_work},
        **{"asks": at_work | {"awaiting_user_input": True}, "over": at_work | {"status": "completed"}},
    }
    assert checks.ownerless(found, standings) == {"orphan"}


async def test_whoever_is_still_without_an_owner_in_the_end_is_noted(tmp_path: Path) -> None:
    loop = KillLoop(tmp_path, seed=SEED, say=lambda _: None, taken_up=0)

    async def left() -> set[str]:
        return {"orphan"}

    await loop.none_is_left(left, within=0, what="has no owner")
    assert loop.outcome.problems == ["0 s after the restart, session orphan has no owner"]


def test_what_tools_did_and_no_call_accounts_for_is_noticed(outcome: Outcome) -> None:
    _, story = quiet_book(outcome)
    what = next(str(e.payload.args["what"]) for e in story if isinstance(e, ToolStart) and _orders(e))
    calls = Counter(str(e.payload.args["what"]) for e in story if isinstance(e, ToolStart) and _orders(e))
    done = Counter({("order", what): calls[what]})
    assert not [p for p in effects.effect_problems(done, [story, story]) if what in p and "never" not in p]
    assert f"was done {calls[what] + 1} times" in "\n".join(
        effects.effect_problems(done + Counter([("order", what)]), [story])
    )
    assert "tells of 0 calls" in "\n".join(effects.effect_problems(done, []))
    assert "was never done" in "\n".join(effects.effect_problems(Counter(), [story]))


def called_again(story: Sequence[Envelope], **changes: Any) -> list[str]:
    """What is found if an order is made once more at the end."""
    order = next(e for e in story if isinstance(e, ToolStart) and _orders(e))
    again = replace(order, call_id="another", payload=replace(order.payload, **changes))
    return list(effects.repeated_calls([*story, again]))


def test_a_call_that_is_made_twice_is_noticed(outcome: Outcome) -> None:
    _, story = quiet_book(outcome)
    assert not list(effects.repeated_calls(story))
    order = next(e for e in story if isinstance(e, ToolStart) and _orders(e))
    assert any("which has a result" in problem for problem in called_again(story))
    assert any("says that it repeats None" in problem for problem in called_again(story))
    assert not any("says that" in problem for problem in called_again(story, retry_of=order.call_id))
    assert not called_again(story, tool_call_id="another, too")
    cut = [e for e in story if not (isinstance(e, ToolEnd) and e.call_id == order.call_id)]
    assert any("must not be repeated" in problem for problem in called_again(cut, retry_of=order.call_id))
    assert not called_again(cut, retry_of=order.call_id, tool_name="look_up")
    end = next(e for e in story if isinstance(e, ToolEnd) and e.call_id == order.call_id)
    assert any("a second result" in problem for problem in effects.repeated_calls([*story, end]))


def test_what_is_said_twice_is_noticed(outcome: Outcome) -> None:
    _, story = quiet_book(outcome)
    assert not list(effects.doubled_text(story))
    words = [e for e in story if isinstance(e, LlmStart | LlmToken | LlmEnd)]
    again = [replace(e, call_id=f"{e.call_id}, again") for e in words]
    assert any("was said 2 times" in problem for problem in effects.doubled_text([*story, *again]))
    last = max(n for n, e in enumerate(story) if isinstance(e, LlmToken))
    stammered = [*story[: last + 1], *story[last:]]
    assert any("and ended with" in problem for problem in effects.doubled_text(stammered))
