"""What must hold after a crash, each as a function that answers with everything it found wrong.

They compare the ledger with a snapshot of the database, or with what the
restarted server serves, and change neither.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from stellwerk.envelope.model import Envelope, Message, RunEnd, RunStart, SubgraphCheckpoint, UserAnswer, decode
from stellwerk.envelope.payloads import TextPart
from stellwerk.testing.order import order_problems
from tests.crash.ledger import Book, Ledger, Sent
from tests.crash.snapshot import Snapshot
from tests.crash.wire import of_log


def snapshot_problems(ledger: Ledger, found: Snapshot) -> Iterator[str]:
    """Everything that is wrong with the file, as the crash left it."""
    if found.integrity != ["ok"]:
        yield f"integrity_check says {found.integrity[:5]}"
    for session_id in found.heads:
        yield from gaps(session_id, found)
        yield from disagreeing_checkpoints(session_id, found)
    for session_id, book in ledger.books.items():
        yield from book.surprises
        if session_id not in found.heads:
            yield f"session {session_id} was acknowledged and is lost"
            continue
        log = [body for _, body in found.logs[session_id]]
        yield from rewritten(book, log)
        yield from unstored(book, log)
        yield from lost_inputs(book, log)
        yield from repeated_rounds(session_id, log, found.rounds[session_id], forked=book.forked)


def gaps(session_id: str, found: Snapshot) -> Iterator[str]:
    positions = [position for position, _ in found.logs[session_id]]
    if positions != list(range(1, len(positions) + 1)):
        yield f"session {session_id}: positions are not 1 to n: {_excerpt(positions)}"
    if found.heads[session_id] != len(positions):
        yield f"session {session_id}: its row says {found.heads[session_id]}, but it has {len(positions)} events"


def disagreeing_checkpoints(session_id: str, found: Snapshot) -> Iterator[str]:
    """A fork has only some of what it was told before its own first run; each other checkpoint is in both."""
    told = {
        envelope.payload.checkpoint_id: position
        for position, envelope in ((position, decode(body)) for position, body in found.logs[session_id])
        if isinstance(envelope, SubgraphCheckpoint)
    }
    stored, begins = found.checkpoints[session_id], found.begins.get(session_id, found.heads[session_id] + 1)
    lacking = {id_ for id_, position in told.items() if position >= begins} - stored
    if lacking or stored - told.keys():
        yield (
            f"session {session_id}: checkpoints only in the log: {sorted(lacking)}, "
            f"only in their table: {sorted(stored - told.keys())}"
        )


def rewritten(book: Book, log: Sequence[bytes]) -> Iterator[str]:
    """What was in the log at an earlier check must be there for ever."""
    for position, (before, now) in enumerate(zip(book.log, log, strict=False), 1):
        if before != now:
            yield f"session {book.session_id}: position {position} was {before!r} and is {now!r}"
    if len(log) < len(book.log):
        yield f"session {book.session_id}: the log had {len(book.log)} events and has {len(log)}"


def unstored(book: Book, log: Sequence[bytes]) -> Iterator[str]:
    """What a reader has received must be in the log, byte by byte."""
    stored = {frame.position: frame.line for frame in of_log(book.session_id, log)}
    for position, line in book.received.items():
        if stored.get(position) != line:
            yield f"session {book.session_id}: a reader got {line!r}; the log has {stored.get(position)!r}"


def lost_inputs(book: Book, log: Sequence[bytes]) -> Iterator[str]:
    """What was acknowledged is at its position, its run before it; nothing is there twice."""
    story = [decode(body) for body in log]
    for sent in book.answered("messages", "answers"):
        yield from _lost(book, sent, story)
    for sent in book.answered("regenerate"):
        yield from _not_regenerated(book, sent.accepted(), story)
    for sent in book.answered("stop"):
        yield from _unstopped(book, sent.accepted(), story)
    for text, times in Counter(_text(e) for e in story if _is_input(e)).items():
        if times > 1:
            yield f"session {book.session_id}: {text!r} was sent once and is stored {times} times"


def _lost(book: Book, sent: Sent, story: Sequence[Envelope]) -> Iterator[str]:
    answer = sent.accepted()
    at, enqueued = answer["position"], answer["status"] == "enqueued"
    start, given = (*([None, *story][at - 1 : at + 1]), None, None)[:2]
    if not _is_input(given) or not (enqueued or isinstance(start, RunStart)):
        yield f"session {book.session_id}: {answer} was acknowledged and is lost"
        return
    own = (answer["run_id"], answer["round"])
    stored = (_id(given), _text(given), own if not isinstance(start, RunStart) or enqueued else _run(start))
    if stored != (answer.get("message_id", answer.get("ask_id")), sent.text, own):
        yield f"session {book.session_id}: {answer} was acknowledged, but the log has {stored}"


def _not_regenerated(book: Book, answer: dict[str, Any], story: Sequence[Envelope]) -> Iterator[str]:
    start = story[answer["position"] - 1] if answer["position"] <= len(story) else None
    stored = (*_run(start), start.payload.message_id, start.payload.trigger) if isinstance(start, RunStart) else None
    if stored != (answer["run_id"], answer["round"], answer["message_id"], "regenerate"):
        yield f"session {book.session_id}: {answer} was acknowledged, but the log has {stored}"


def _unstopped(book: Book, answer: dict[str, Any], story: Sequence[Envelope]) -> Iterator[str]:
    ends = {e.run_id: e.payload.status for e in story if isinstance(e, RunEnd)}
    if answer["run_id"] and ends.get(answer["run_id"]) != answer["status"]:
        yield f"session {book.session_id}: the stop was answered with {answer}, but the log has {ends}"


def forgotten_messages(book: Book, story: Sequence[Envelope]) -> Iterator[str]:
    """In a session that does nothing, every message was taken up by a round, or withdrawn."""
    taken = {e.payload.message_id for e in story if isinstance(e, RunStart)}
    removed = {e.payload.message_id for e in story if isinstance(e, Message) and e.payload.action == "removed"}
    for envelope in story:
        if isinstance(envelope, Message) and envelope.payload.role == "user" and envelope.payload.action != "removed":
            times = (envelope.payload.message_id in taken) + (envelope.payload.message_id in removed)
            if times != 1:
                yield f"session {book.session_id}: {_text(envelope)!r} was taken up or withdrawn {times} times"


def repeated_rounds(session_id: str, log: Sequence[bytes], rows: Sequence[int], *, forked: int) -> Iterator[str]:
    """Each number once in the log; and in the table, but for those of the session that it was forked from."""
    found = [(n, e.payload.round) for n, e in enumerate(map(decode, log), 1) if isinstance(e, RunStart)]
    starts, own = [round_ for _, round_ in found], [round_ for n, round_ in found if n > forked]
    if starts != list(range(1, len(starts) + 1)) or own != list(rows):
        yield f"session {session_id}: rounds are {starts} in the log and {list(rows)} in the table"


def ownerless(found: Snapshot, standings: Mapping[str, dict[str, Any]]) -> set[str]:
    """Runs that were under way have an owner, who shows it: their logs grow. What waits for a slot may wait."""
    still = {name for name, each in standings.items() if each["position"] == found.heads.get(name)}
    return {name for name in still - found.waiting if works(standings[name])}


def works(standing: Mapping[str, Any]) -> bool:
    return standing["status"] == "running" and not standing["awaiting_user_input"]


def recovery_problems(book: Book, log: Sequence[bytes], standing: dict[str, Any]) -> Iterator[str]:
    """Everything that is wrong with a session in which nothing is under way, as the restarted server serves it."""
    yield from rewritten(book, log)
    yield from unstored(book, log)
    story = [decode(body) for body in log]
    yield from (f"session {book.session_id}: {problem}" for problem in order_problems(story))
    started = [e.run_id for e in story if isinstance(e, RunStart)]
    ended = [e.run_id for e in story if isinstance(e, RunEnd)]
    if started != ended:
        yield f"session {book.session_id}: runs that started: {started}, that ended: {ended}"
    if not standing.get("awaiting_user_input"):
        yield from forgotten_messages(book, story)
    if (standing["round"], standing["position"]) != (len(started), len(log)):
        yield f"session {book.session_id} has {len(started)} rounds, {len(log)} events and stands at {standing}"


def changed_answer(book: Book, sent: Sent, again: bytes, log: Sequence[bytes]) -> Iterator[str]:
    """The same key must get the answer that it got before the crash, or would have got."""
    if sent.answer is not None and again != sent.answer:
        yield f"session {book.session_id}: key {sent.key} got {sent.answer!r}, and after the crash {again!r}"
    places = [n for n, e in enumerate(map(decode, log), 1) if _is_input(e) and _text(e) == sent.text]
    if places and msgspec.json.decode(again)["position"] not in places:
        yield f"session {book.session_id}: key {sent.key} was stored at {places}, but got {again!r}"


def _is_input(envelope: Envelope | None) -> TypeGuard[Message | UserAnswer]:
    if isinstance(envelope, Message):
        return envelope.payload.role == "user" and envelope.payload.action != "removed"
    return isinstance(envelope, UserAnswer)


def _id(given: Message | UserAnswer) -> str:
    return given.payload.message_id if isinstance(given, Message) else given.payload.ask_id


def _text(given: Message | UserAnswer) -> str:
    if isinstance(given, UserAnswer):
        return given.payload.text or ""
    return "".join(part.text for part in given.payload.content if isinstance(part, TextPart))


def _run(start: RunStart) -> tuple[str | None, int]:
    return start.run_id, start.payload.round


def _excerpt(positions: Sequence[int]) -> str:
    wrong = next((n for n, position in enumerate(positions, 1) if position != n), len(positions))
    return f"… {list(positions[max(0, wrong - 3) : wrong + 3])} …"
