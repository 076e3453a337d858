"""kill -9 under load, in short: three times here, 150 times with ``make crash``."""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stellwerk.envelope.model import Envelope, RunEnd, RunStart, ToolStart, decode
from tests.crash import checks, effects
from tests.crash.kill_loop import KillLoop, Outcome
from tests.crash.ledger import Book, Ledger, Sent
from tests.crash.snapshot import Snapshot

KILLS = 3
SEED = 7
PATIENT = 60
"""Seconds that a restarted server has to take up its runs: here other tests may run beside it."""

Tamper = Callable[[str, Ledger, Snapshot], None]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder: Path = tmp_path_factory.mktemp("kills")
    return asyncio.run(KillLoop(folder, seed=SEED, say=lambda _: None, taken_up=PATIENT).run(KILLS))


@pytest.mark.requirement("trust.I1", "trust.I2", "trust.I3", "trust.I9", "trust.I10", "trust.I12", "trust.I14")
def test_what_was_acknowledged_or_shown_survives_kill_9_and_every_run_ends(outcome: Outcome) -> None:
    assert not outcome.problems, "\n".join(["", *outcome.problems[:20]])
    assert outcome.kills == KILLS


def test_the_kills_hit_runs_and_readers_at_work(outcome: Outcome) -> None:
    assert outcome.cut > 0, "no run was under way when the server was killed"
    assert outcome.resumed > 0, "no run went on"
    assert outcome.effects > 0, "no tool has done anything"
    assert outcome.ledger.count("answers") and outcome.ledger.count("stop")
    assert outcome.ledger.acknowledgements() > 0
    assert outcome.ledger.frames() > 0, "no reader had received anything"
    assert outcome.resent > 0, "no key was sent again"


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


@pytest.mark.parametrize(
    "tamper",
    [
        lose_a_session,
        lose_the_last_event,
        skip_a_position,
        change_a_byte,
        repeat_a_round,
        forget_a_checkpoint,
        damage_the_file,
        show_what_is_not_stored,
        acknowledge_what_is_not_stored,
        acknowledge_a_stop_that_was_none,
    ],
)
def test_a_planted_loss_is_noticed(outcome: Outcome, tamper: Tamper) -> None:
    assert outcome.last is not None
    ledger, found = copy.deepcopy(outcome.ledger), copy.deepcopy(outcome.last)
    before = set(checks.snapshot_problems(ledger, found))
    session_id = next(name for name, book in ledger.books.items() if book.answered("messages") and book.received)
    tamper(session_id, ledger, found)
    assert set(checks.snapshot_problems(ledger, found)) - before


def quiet_book(outcome: Outcome) -> tuple[Book, list[Envelope]]:
    """A session whose last run has ended for good, after tools did something."""
    for book in outcome.ledger.books.values():
        story = [decode(body) for body in book.log]
        if (
            any(_orders(e) for e in story)
            and isinstance(end := story[-1], RunEnd)
            and end.payload.status == "completed"
        ):
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


def test_what_is_done_or_said_twice_is_noticed(outcome: Outcome) -> None:
    _, story = quiet_book(outcome)
    what = next(str(e.payload.args["what"]) for e in story if isinstance(e, ToolStart) and _orders(e))
    done = Counter({("order", what): 1})
    assert not [p for p in effects.effect_problems(done, [story]) if what in p and "never" not in p]
    assert "was done 2 times" in "\n".join(effects.effect_problems(done + done, [story]))
    assert "tells of 0 calls" in "\n".join(effects.effect_problems(done, []))
    assert not [*effects.repeated_calls(story), *effects.doubled_text(story)]
    assert "results" in "\n".join(effects.repeated_calls([*story, *story]))
    assert [*effects.doubled_text([*story, *story])]
