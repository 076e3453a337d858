"""The recorder appends the envelopes of one run to the log; the journal makes them of the facts of a graph.

Envelopes go in as they happen, are merged while they wait, and are appended
when due; at most one batch is under way. A slow disk therefore makes batches
larger and not more numerous, and what waits is text, not a queue of events.
A question is not appended before the end of its run, which makes it answerable:
no reader sees a question that it cannot answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import inf
from typing import Any

import structlog

from stellwerk.database.port import Operation, P, Transaction, locking, locks_of, retry_storage
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.model import AskUser, Envelope, Message, RunEnd
from stellwerk.envelope.payloads import Problem
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import Fenced, StellwerkError, StorageClosed, StorageFull, StorageGone
from stellwerk.ids import Clock
from stellwerk.log.durable import DurableLog
from stellwerk.log.log import Lease
from stellwerk.log.tick import Tick
from stellwerk.log.transactions import Append, append_many, entry, placed
from stellwerk.redaction.redactor import without_secrets
from stellwerk.runs.resume import RunHistory
from stellwerk.runs.transactions import ClaimedRun, Finish, finish_many
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.coalescer import Coalescer
from stellwerk.stream.endings import ending
from stellwerk.stream.facts import CheckpointSaved, Fact
from stellwerk.timings import Timings

logger = structlog.get_logger(__name__)

_LONGEST_DETAIL = 2000


@dataclass(frozen=True, slots=True)
class _Companion:
    """A write that is committed together with a batch of envelopes."""

    append: Append
    operation: Operation[Any, Any]
    item: Any
    waiting: Sequence[bytes] | None = None
    """Messages, encoded, that only the item has and not the log; None if the run's row has them."""


@locking(lambda pair: [*locks_of(append_many, pair.append), *locks_of(pair.operation, pair.item)])
def _append_with_companion(tx: Transaction, pairs: Sequence[_Companion]) -> list[int | Exception]:
    outcomes: list[Any] = []
    for operation, group in groupby(pairs, key=lambda pair: pair.operation):
        outcomes += operation(tx, [pair.item for pair in group])
    written = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
    appended = append_many(tx, [pairs[n].append for n in written])
    for n, last in zip(written, appended, strict=True):
        if isinstance(last, Exception):
            raise last  # its companion is written already: all of it must be rolled back
        outcomes[n] = last
        waiting, lease = pairs[n].waiting, pairs[n].append.lease
        if waiting is not None:
            column = b"\n".join(waiting) or None
            tx.run("keep_waiting_messages", column, lease.run_id, lease.tenant, lease.epoch, column)
    return outcomes


class Recorder:
    """``lost`` is called when the run should stop: it was fenced, or the disk is full too long."""

    def __init__(
        self, log: DurableLog, tick: Tick, lease: Lease, timings: Timings, *, window: float, lost: Callable[[], object]
    ) -> None:
        self._log, self._tick, self._lease, self._lost = log, tick, lease, lost
        self.timings = timings
        self.retry = partial(retry_storage, every=timings.storage_retry, patience=timings.storage_patience)
        self.redactor = log.redactors.of(lease.tenant)
        self._coalescer = Coalescer(window, self.redactor)
        self._batch_no = 0
        self._due: float | None = None
        self._landing: asyncio.Future[None] | None = None
        self._before: list[Callable[[], Awaitable[None]]] = []
        self._questions: dict[str, AskUser] = {}
        """Questions of the run by ask_id, stored with its end: they can be answered only then."""
        self._work: asyncio.Task[None] | None = None
        """What makes ``_landing`` come, held so that it is not lost half-way."""
        self._encoded: dict[int, tuple[Message, bytes]] = {}
        """Messages that wait, by object id: each is encoded once for all its checkpoints."""
        self._waiting_in_row: Sequence[bytes] | None = None
        """What the row of the run has of them; None if that is not known."""
        self.calls = OpenCalls()
        self.failure: BaseException | None = None
        """Why ``lost`` was called."""
        self._over = False
        self.lag = 0.0
        """Seconds that envelopes have waited before they are fed, such as those of a graph in another process."""

    def feed(self, envelope: Envelope) -> None:
        if self._over:  # a thread of the run may still work
            return
        if isinstance(envelope, AskUser):
            self._questions[envelope.payload.ask_id] = envelope
        elif self._coalescer.feed(envelope, self._tick.now() - self.lag):
            self._schedule()

    def merge_within(self, window: float) -> None:
        self._coalescer.window = window

    def keep_first(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this before the next batch is stored: what was fed just now refers to it."""
        self._before.append(work)
        if self._landing is None:
            self._prepare()

    async def commit_with(
        self,
        operation: Operation[Any, Any],
        item: Any,
        about: Iterable[Envelope],
        waiting: Sequence[Message] | None = None,
    ) -> None:
        """Commit the item, all that was fed so far, and envelopes about it in one transaction.

        ``waiting`` are messages that the item holds and that are fed later. Until then they are
        kept with the run. None leaves those of the last item there.

        If it cannot be stored, this raises; what was fed is stored without it and those envelopes.
        """
        await self._clear()
        if self._over:  # a thread goes on although its run has ended
            raise Fenced(self._lease.session_id, self._lease.epoch)
        # The envelopes about the item bypass the coalescer: another batch would take them along.
        said, telling = self._take(), [self.calls.stamp(envelope) for envelope in about]
        append = self._batch([*said, *telling])
        if not append.entries:
            session_id = self._lease.session_id
            await self.retry(lambda: self._log.commit(operation, item, session_id, lambda _: []))
            return
        self._landing = asyncio.get_running_loop().create_future()
        lines = self._waiting_in_row if waiting is None else self._encode_waiting(waiting)
        companion = _Companion(append, operation, item, None if lines == self._waiting_in_row else lines)
        writing = asyncio.create_task(self._store(append, _append_with_companion, companion))
        self._work = writing
        writing.add_done_callback(partial(self._written, append, telling, lines))
        # Even if the caller is cancelled, item and envelopes are stored together or not at all.
        await asyncio.shield(writing)

    def _encode_waiting(self, waiting: Sequence[Message]) -> list[bytes]:
        known, self._encoded = self._encoded, {}
        for message in waiting:
            found = known.get(id(message))
            self._encoded[id(message)] = found or (message, entry(message, self.redactor).body)
        return [body for _, body in self._encoded.values()]

    def _written(
        self,
        append: Append,
        telling: Sequence[Envelope],
        lines: Sequence[bytes] | None,
        done: "asyncio.Task[None]",
    ) -> None:
        if not done.cancelled() and done.exception() is None:
            self._waiting_in_row = lines
            self._land()
        else:  # under the same number: if it was stored after all, it is not stored again
            self._waiting_in_row = None
            for envelope in reversed(telling):
                self.calls.unstamp(envelope)
            rest = replace(append, entries=append.entries[: len(append.entries) - len(telling)])
            self._launch(rest, shown=not telling)  # only the log knows which of the two it has

    async def stored(self) -> None:
        """Wait until all that was fed is in the log, without its window. Raises any failure."""
        await self._clear()
        append = self._batch(self._take())
        if append.entries:
            self._launch(append)
            await self._clear()
        if self.failure is not None:
            raise self.failure

    async def finish(self, last_words: Iterable[Envelope], asks: Sequence[AskUser] = ()) -> None:
        """Commit the last envelopes and the run's end, however long it takes; nothing follows.

        ``asks`` are the questions that it leaves open; none, unless it waits for its user.
        """
        self._over = True
        await self._clear()
        # The last words are made only now: which calls are open depends on what was still waiting.
        last = map(self.calls.stamp, self._with_questions(last_words, asks))
        stamped = [*self._take(last=True), *last]
        append = self._batch(stamped)
        turns: list[Envelope] = [ask for ask in asks if ask.payload.ask_id not in self._questions]
        turns += [envelope for envelope in stamped if isinstance(envelope, AskUser | RunEnd)]
        finish = partial(self._log.commit, finish_many, Finish(append, turns), self._lease.session_id)
        await self.retry(lambda: finish(lambda done: done.stored, urgent=True), patience=inf)

    def _with_questions(self, last_words: Iterable[Envelope], asks: Sequence[AskUser]) -> Iterator[Envelope]:
        """The open questions come right before the end that makes them answerable."""
        asked = [ask.payload.ask_id for ask in asks]
        held = [self._questions[ask_id] for ask_id in asked if ask_id in self._questions]
        for envelope in last_words:
            if isinstance(envelope, RunEnd) and envelope.payload.status == "awaiting_user":
                yield from held
            yield envelope

    async def settle(self, last_words: Iterable[Envelope] = ()) -> None:
        """Store all that was fed, without questions: a resumed run asks again. No fact follows."""
        self._over = True
        await self._clear()
        append = self._batch([*self._take(), *map(self.calls.stamp, last_words)])
        if append.entries:
            await self._store(append, append_many, append)

    def _schedule(self) -> None:
        due = self._coalescer.due()
        if due is None or self._landing is not None:
            return
        if self._due is None or due < self._due:
            self._due = due
            if due <= self._tick.now():
                self._tick.soon(self._flush)
            else:
                self._tick.at(due, self._flush)

    def _flush(self) -> None:
        self._due = None
        if self._landing is None and self._coalescer.due() is not None:
            append = self._batch(map(self.calls.stamp, self._coalescer.take_due(self._tick.now())))
            if append.entries:
                self._launch(append)
            else:
                self._schedule()

    def _take(self, *, last: bool = False) -> list[Envelope]:
        return [*map(self.calls.stamp, self._coalescer.take(self._tick.now(), last=last))]

    def _batch(self, envelopes: Iterable[Envelope]) -> Append:
        entries = [entry(envelope, self.redactor) for envelope in envelopes]
        self._batch_no += bool(entries)
        return Append(self._lease, self._batch_no, entries)

    def _launch(self, append: Append, *, waited: float = 0, shown: bool = True) -> None:
        """Append until it is done; a full disk makes it wait, and after a while stops the run."""
        self._landing = self._landing or asyncio.get_running_loop().create_future()
        if waited == self.timings.storage_patience:
            self._give_up(StorageFull())
        if shown:
            future = self._log.append(append.lease, append.batch_no, append.entries)
        else:  # readers find it in the log
            future = self._log.commit(append_many, append, append.lease.session_id, lambda _: [])
        again = partial(self._launch, append, waited=waited + self.timings.storage_retry, shown=shown)
        future.add_done_callback(partial(self._answered, again))

    def _answered(self, again: Callable[[], None], future: "asyncio.Future[int]") -> None:
        error = future.exception()
        if isinstance(error, StorageFull | StorageGone) and not isinstance(error, StorageClosed):
            asyncio.get_running_loop().call_later(self.timings.storage_retry, again)
            return
        if error is not None:
            self._batch_no -= 1  # it was not stored, so its number is still to be had
            self._give_up(error)
        self._land()

    async def _store(self, append: Append, operation: Operation[P, int], item: P) -> None:
        session_id, stored = self._lease.session_id, partial(placed, entries=append.entries)
        await self.retry(lambda: self._log.commit(operation, item, session_id, stored))

    async def _clear(self) -> None:
        """Wait until nothing of ours is under way."""
        while self._landing is not None:
            await asyncio.shield(self._landing)
        if isinstance(self.failure, Fenced):
            raise self.failure

    def _land(self) -> None:
        landing, self._landing = self._landing, None
        if landing is not None and not landing.done():
            landing.set_result(None)
        if self._before:
            self._prepare()
        elif not isinstance(self.failure, Fenced):
            self._schedule()

    def _prepare(self) -> None:
        async def one_by_one(work: Sequence[Callable[[], Awaitable[None]]]) -> None:
            for piece in work:
                await self.retry(piece)

        work, self._before = self._before, []
        self._landing = asyncio.get_running_loop().create_future()
        self._work = asyncio.create_task(one_by_one(work))
        self._work.add_done_callback(self._prepared)

    def _prepared(self, done: "asyncio.Task[None]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._give_up(error)
        self._land()

    def _give_up(self, error: BaseException) -> None:
        self.failure = self.failure if isinstance(self.failure, Fenced) else error
        if not self._over:  # the last words wait as long as it takes
            self._lost()


class RunJournal:
    """One run under way: facts come in, envelopes go to the recorder."""

    def __init__(
        self, claimed: ClaimedRun, history: RunHistory, recorder: Recorder, documents: DocumentStore, clock: Clock
    ) -> None:
        self.claimed = claimed
        self.history = history
        self.recorder = recorder
        self.clock = clock
        self.lease = lease = claimed.lease
        self.start = start = history.start
        self.logger = logger.bind(session=lease.session_id, run=lease.run_id)
        self._keep = partial(documents.keep, lease.tenant, lease.session_id)
        self._clean = partial(without_secrets, redactor=recorder.redactor)
        self.adapter = StreamAdapter(trace_id=start.trace_id or "", run_id=lease.run_id, agent=start.payload.system)
        self.non_idempotent_nodes: frozenset[str] = frozenset()
        """Nodes that must not be repeated."""
        self._failure: Problem | None = None

    def tell(self, fact: Fact) -> None:
        envelopes, blobs = self._clean([*self.adapter.feed(fact)], self.adapter.blobs())
        for envelope in envelopes:
            self.recorder.feed(envelope)
        if blobs:
            self.recorder.keep_first(partial(self._keep, blobs))

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        (result,), clean = self._clean([result], blobs)
        await self.recorder.retry(partial(self._keep, clean))
        return result

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        about = () if fact is None else self.adapter.feed(fact)
        is_own = fact is not None and not fact.namespace
        await self.recorder.commit_with(operation, item, about, self.adapter.waiting if is_own else None)

    async def stored(self) -> None:
        await self.recorder.stored()

    def cut_off(self) -> str | None:
        """The name of a non-idempotent tool whose call is still open, or of such a node."""
        suspended = self.adapter.suspended
        for start in self.recorder.calls.open_tools():
            called = start.payload
            if called.kind == "tool" and not called.idempotent and start.call_id not in suspended:
                return called.tool_name
        nodes = [step.node for step in self.adapter.tree.steps.values() if "|" not in step.namespace]
        return next((node for node in nodes if node in self.non_idempotent_nodes), None)

    def closing(self) -> Iterator[Envelope]:
        """Ends for the calls that were cut off; paused ones and those around a graph stay open."""
        calls = self.recorder.calls
        graphs = {start.call_id for start in calls.open_tools() if start.payload.kind != "tool"}
        return calls.closing(ts=self.clock.now(), run_id=self.lease.run_id, but={*graphs, *self.adapter.suspended})

    def fail(self, error: BaseException) -> None:
        """The message of a foreseen error is for the user; the text of others is for developers."""
        name = type(error).__name__
        code = "agent_failed"
        text = f"the agent raised {name}; the server's log has the details"
        detail: str | None = str(error)[:_LONGEST_DETAIL] or None
        if isinstance(error, StellwerkError):
            code = error.code
            text = error.message
            detail = None
        self._failure = Problem(code=code, message=text, fatal=True, class_=name, detail=detail)

    def ending(self) -> Iterator[Envelope]:
        """The last envelopes: the answer, ends for open calls, and the run_end."""
        return ending(self.adapter, self.recorder.calls, ts=self.clock.now(), failure=self._failure)
