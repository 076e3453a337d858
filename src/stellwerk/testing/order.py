"""The order checker: the rules for the order of envelopes that every dialect and view relies on.

Feed it the envelopes of one session from the start; it yields a sentence for
each broken rule. It is for tests and never runs on live data.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stellwerk.envelope import model as m
from stellwerk.envelope.model import Envelope, type_of


def order_problems(envelopes: Iterable[Envelope]) -> list[str]:
    """Return a sentence for each broken rule; an empty list if the order is right."""
    order = OrderChecker()
    return [problem for envelope in envelopes for problem in order.feed(envelope)]


@dataclass
class OrderChecker:
    """Follows the open and finished runs and calls of one session."""

    _seqs: dict[str, int] = field(default_factory=dict)
    _runs: dict[str, str] = field(default_factory=dict)
    """Open runs, and the trace of each."""
    _over: set[str] = field(default_factory=set)
    _open: dict[str, m.CallStart] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)
    _round: int = 0

    def feed(self, envelope: Envelope) -> Iterator[str]:
        where = f"{type_of(envelope)} of call {envelope.call_id}"
        yield from self._check_seq(envelope, where)
        yield from self._check_run(envelope, where)
        match envelope:
            case m.RunStart():
                yield from self._run_starts(envelope)
            case m.RunEnd():
                yield from self._run_ends(envelope)
            case m.LlmStart() | m.ToolStart():
                yield from self._call_starts(envelope, where)
            case m.LlmToken() | m.ToolUpdate():
                yield from self._call_goes_on(envelope, where)
            case m.LlmEnd() | m.ToolEnd():
                yield from self._call_ends(envelope, where)
            case m.Message() | m.AskUser() | m.UserAnswer():
                yield from self._conversation(envelope, where)

    def _check_seq(self, envelope: Envelope, where: str) -> Iterator[str]:
        expected = self._seqs.get(envelope.call_id, 0) + 1
        self._seqs[envelope.call_id] = envelope.seq
        if envelope.seq != expected:
            yield f"{where} has seq {envelope.seq}, expected {expected}"

    def _check_run(self, envelope: Envelope, where: str) -> Iterator[str]:
        if isinstance(envelope, m.RunStart) or envelope.run_id is None:
            return
        if envelope.run_id in self._over:
            yield f"{where} comes after the end of its run {envelope.run_id}"
        elif envelope.run_id not in self._runs:
            yield f"{where} names the run {envelope.run_id}, which has not started"

    def _run_starts(self, start: m.RunStart) -> Iterator[str]:
        if start.run_id is None or start.run_id != start.call_id or start.parent_id is not None:
            yield f"run_start must be the root call of its run, not {start.call_id} under {start.parent_id}"
            return
        if start.run_id in self._runs or start.run_id in self._over:
            yield f"run {start.run_id} starts twice"
        if self._runs:
            yield f"run {start.run_id} starts while {', '.join(self._runs)} is running"
        if start.payload.round <= self._round:
            yield f"round {start.payload.round} comes after round {self._round}"
        self._round = start.payload.round
        self._runs[start.run_id] = start.trace_id or ""

    def _run_ends(self, end: m.RunEnd) -> Iterator[str]:
        trace = self._runs.pop(end.run_id or "", None)
        self._over.add(end.run_id or "")
        left = [c for c in self._open.values() if c.trace_id == trace]
        if end.payload.status == "awaiting_user":
            if not self._asked:
                yield f"run {end.run_id} awaits the user, who was asked nothing"
            left = [c for c in left if isinstance(c, m.LlmStart)]
        for call in left:
            yield f"run {end.run_id} ends {end.payload.status} with {type_of(call)} {call.call_id} still open"

    def _call_starts(self, start: m.CallStart, where: str) -> Iterator[str]:
        if start.call_id in self._used:
            yield f"{where} starts a call that was started before"
        if start.parent_id is None:
            yield f"{where} has no parent; the parent of an outermost call is its run"
        elif start.parent_id not in self._open and start.parent_id not in self._runs:
            yield f"{where} belongs to {start.parent_id}, which is not open"
        self._used.add(start.call_id)
        self._open[start.call_id] = start

    def _call_goes_on(self, envelope: m.LlmToken | m.ToolUpdate, where: str) -> Iterator[str]:
        by_model = isinstance(envelope, m.LlmToken) or envelope.payload.phase == "args"
        wanted = m.LlmStart if by_model else m.ToolStart
        if not isinstance(self._open.get(envelope.call_id), wanted):
            yield f"{where} comes while that call is not open"

    def _call_ends(self, end: m.CallEnd, where: str) -> Iterator[str]:
        start = self._open.pop(end.call_id, None)
        if start is None or isinstance(start, m.LlmStart) != isinstance(end, m.LlmEnd):
            yield f"{where} ends a call that is not open"
        if end.payload.synthesized and end.payload.status == "ok":
            yield f"{where} was synthesized and claims success"
        for child in self._open.values():
            if child.parent_id == end.call_id:
                yield f"{where} ends before {type_of(child)} {child.call_id} inside it"

    def _conversation(self, envelope: m.Message | m.AskUser | m.UserAnswer, where: str) -> Iterator[str]:
        match envelope:
            case m.Message(payload=said):
                key = f"{said.message_id} {said.action}"
                if key in self._used:
                    yield f"{where}: message {key} appears twice"
                self._used.add(key)
            case m.AskUser(payload=asked):
                if asked.ask_id in self._asked:
                    yield f"{where}: question {asked.ask_id} is asked twice"
                self._asked.add(asked.ask_id)
            case m.UserAnswer(payload=answered):
                if answered.ask_id not in self._asked:
                    yield f"{where}: question {answered.ask_id} is not open"
                self._asked.discard(answered.ask_id)
