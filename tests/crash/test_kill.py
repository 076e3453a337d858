"""kill -9 under load, in short: three times here, fifty times with ``make crash``."""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import checks
from tests.crash.kill_loop import KillLoop, Outcome
from tests.crash.ledger import Ledger
from tests.crash.snapshot import Snapshot

KILLS = 3
SEED = 7

Tamper = Callable[[str, Ledger, Snapshot], None]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder: Path = tmp_path_factory.mktemp("kills")
    return asyncio.run(KillLoop(folder, seed=SEED, say=lambda _: None).run(KILLS))


@pytest.mark.requirement("trust.I1", "trust.I2", "trust.I3", "trust.I9", "trust.I10", "trust.I12")
def test_what_was_acknowledged_or_shown_survives_kill_9_and_every_run_ends(outcome: Outcome) -> None:
    assert not outcome.problems, "\n".join(["", *outcome.problems[:20]])
    assert outcome.kills == KILLS


def test_the_kills_hit_runs_and_readers_at_work(outcome: Outcome) -> None:
    assert outcome.cut > 0, "no run was under way when the server was killed"
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
    sent = ledger.books[session_id].answered()[0]
    sent.answer = (sent.answer or b"").replace(b'"run_id":"', b'"run_id":"x')


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
    ],
)
def test_a_planted_loss_is_noticed(outcome: Outcome, tamper: Tamper) -> None:
    assert outcome.last is not None
    ledger, found = copy.deepcopy(outcome.ledger), copy.deepcopy(outcome.last)
    before = set(checks.snapshot_problems(ledger, found))
    session_id = next(name for name, book in ledger.books.items() if book.answered() and book.received)
    tamper(session_id, ledger, found)
    assert set(checks.snapshot_problems(ledger, found)) - before


def test_a_run_without_an_end_is_noticed(outcome: Outcome) -> None:
    book = next(book for book in outcome.ledger.books.values() if book.answered())
    rounds = len(book.answered())
    standing = {"round": rounds, "position": len(book.log)}
    problems = "\n".join(checks.recovery_problems(book, book.log[:-1], standing))
    assert "runs that started" in problems
