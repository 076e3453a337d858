"""The chain: from a recording to the envelopes that the log would hold, as whoever drives a run writes them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.model import Envelope, Message, RunEnd, RunStart, StopRequest, UserAnswer, decode, encode
from stellwerk.envelope.payloads import Answered, Problem, RunEnded, RunStarted, Said, StopAsked, TextPart
from stellwerk.ids import digest_id
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.calls import OpenCalls
from stellwerk.stream.endings import ending, interrupted_ending
from stellwerk.stream.facts import Fact
from tests.golden.lines import Recorded, fact_of, recorded_runs
from tests.golden.turns import Form
from tests.recordings.readers import facts_of_events, facts_of_parts


def envelopes_of(text: str, form: Form, tools: Mapping[str, Mapping[str, Any]]) -> list[Envelope]:
    """All runs of a recording, as one session."""
    session = _Session()
    for run in recorded_runs(text):
        session.tell(run, facts_of(run, form, tools))
    return session.log


def facts_of(run: Recorded, form: Form, tools: Mapping[str, Mapping[str, Any]]) -> Iterable[Fact]:
    agent = run.begin["agent"]
    match form:
        case "live":
            return map(fact_of, run.items)
        case "parts":
            return facts_of_parts(run.items, agent=agent, tools=tools)
        case "events":
            return facts_of_events(run.items, agent=agent)


def to_bytes(envelopes: Iterable[Envelope]) -> bytes:
    """One line each; the number of a line is the position in the log."""
    return b"".join(encode(envelope) + b"\n" for envelope in envelopes)


def from_bytes(data: bytes) -> list[Envelope]:
    return [decode(line) for line in data.splitlines()]


@dataclass
class _Session:
    log: list[Envelope] = field(default_factory=list)
    _calls: OpenCalls = field(default_factory=OpenCalls)
    _rounds: int = 0
    _trace: str = ""

    def tell(self, run: Recorded, facts: Iterable[Fact]) -> None:
        self._rounds += 1
        run_id, answered = f"run-{self._rounds}", run.begin["trigger"] == "answer"
        self._trace = self._trace if answered else run_id
        adapter = StreamAdapter(trace_id=self._trace, run_id=run_id, agent=run.begin["agent"])
        if answered:
            adapter.seed([envelope for envelope in self.log if envelope.trace_id == self._trace])
        self._store(self._beginning(run.begin, run_id))
        for fact in facts:
            self._store(adapter.feed(fact))
        self._end(adapter, run.end, run_id)

    def _store(self, envelopes: Iterable[Envelope]) -> None:
        for envelope in envelopes:
            self.log.append(self._calls.stamp(envelope))

    def _beginning(self, begin: dict[str, Any], run_id: str) -> Iterator[Envelope]:
        place: dict[str, Any] = {"ts": begin["ts"], "trace_id": self._trace, "run_id": run_id, "seq": 0}
        answers = begin.get("answers", {})
        started = RunStarted(
            round=self._rounds,
            trigger=begin["trigger"],
            system="golden",
            system_version=1,
            message_id=begin.get("message_id"),
            ask_ids=list(answers) or None,
        )
        yield RunStart(**place, parent_id=None, call_id=run_id, payload=started)
        for ask_id, answer in answers.items():
            call_id = digest_id("answer", ask_id)
            yield UserAnswer(**place, parent_id=run_id, call_id=call_id, payload=msgspec.convert(answer, Answered))
        if not answers:
            said = Said(
                message_id=begin["message_id"], role="user", content=[TextPart(text=begin["text"])], status="first"
            )
            yield Message(**place, parent_id=run_id, call_id=digest_id("message", said.message_id), payload=said)

    def _end(self, adapter: StreamAdapter, end: dict[str, Any], run_id: str) -> None:
        ts, failure = end["ts"], None
        match end["how"]:
            case "crashed":
                for envelope in interrupted_ending(self.log, run_id=run_id, ts=ts):
                    self.log.append(envelope)
                    self._calls.feed(envelope)
                return
            case "stopped":
                self._store(self._stopped(run_id, ts))
                return
            case "raised":
                failure = Problem(code=end["code"], message=end["message"], fatal=True, class_=end.get("class"))
        self._store(ending(adapter, self._calls, ts=ts, failure=failure))

    def _stopped(self, run_id: str, ts: float) -> Iterator[Envelope]:
        place: dict[str, Any] = {"ts": ts, "trace_id": self._trace, "run_id": run_id, "seq": 0}
        stop = StopAsked(by="user", reason="seen enough")
        yield StopRequest(**place, parent_id=run_id, call_id=digest_id("stop", run_id), payload=stop)
        yield from self._calls.closing(ts=ts, run_id=run_id)
        ended = RunEnded(status="stopped", reason=stop.reason)
        yield RunEnd(**place, parent_id=None, call_id=run_id, payload=ended)
