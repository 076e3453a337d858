"""What was really done and said: no tool call is made twice, no word is told twice, whatever was cut off."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stellwerk.envelope.model import Envelope, LlmEnd, LlmStart, LlmToken, RunEnd, ToolEnd, ToolStart

Effect = tuple[str, str]
"""A tool, and what it was called for; every message has a number, so no two calls are meant to be the same."""
REPEATABLE = "look_up"


def read(path: Path) -> "Counter[Effect]":
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    return Counter((tool, what) for tool, _, what in (line.partition("\t") for line in lines))


def effect_problems(done: "Counter[Effect]", stories: Iterable[Sequence[Envelope]]) -> Iterator[str]:
    """Compare what the tools did with what the logs of all sessions tell of it."""
    calls: dict[str, Effect] = {}
    """By call_id: a fork tells of the calls of the session that it was forked from, and they were made there."""
    for story in stories:
        starts = {
            e.call_id: e for e in story if isinstance(e, ToolStart) and e.payload.tool_name in ("order", REPEATABLE)
        }
        calls |= {call_id: _effect(start) for call_id, start in starts.items()}
        for end in story:
            if isinstance(end, ToolEnd) and end.call_id in starts and end.payload.status == "ok":
                effect = _effect(starts[end.call_id])
                if not done[effect]:
                    yield f"{effect} has a result, but was never done"
    told = Counter(calls.values())
    for effect, times in done.items():
        if times > told[effect] and effect[0] != REPEATABLE:
            yield f"{effect} was done {times} times, and the log tells of {told[effect]} calls"


def _effect(start: ToolStart) -> Effect:
    return start.payload.tool_name, str(start.payload.args.get("what"))


def repeated_calls(story: Sequence[Envelope]) -> Iterator[str]:
    """A call that has a result is not made again; one that is made again says what it repeats, and may be repeated."""
    calls: dict[str, _Call] = {}
    last: dict[_Call, str] = {}
    settled: set[_Call] = set()
    for envelope in story:
        match envelope:
            case ToolStart(payload=called):
                call = calls[envelope.call_id] = _call(envelope, calls)
                if call in settled:
                    yield f"{envelope.call_id} repeats {last[call]}, which has a result"
                if called.retry_of != last.get(call):
                    yield f"{envelope.call_id} repeats {last.get(call)} and says that it repeats {called.retry_of}"
                if call in last and called.tool_name == "order":
                    yield f"{envelope.call_id} repeats {last[call]}, which must not be repeated"
                last[call] = envelope.call_id
            case ToolEnd(payload=ended) if ended.status == "ok" and envelope.call_id in calls:
                if calls[envelope.call_id] in settled:
                    yield f"{envelope.call_id} has a second result"
                settled.add(calls[envelope.call_id])


class _Call(NamedTuple):
    """A call that was to be made, however often it was begun: by whom it was made, and its number there."""

    owner: "_Call | str | None"
    """Another call; or the trace, which the outermost belong to."""
    tool_call_id: str


def _call(start: ToolStart, calls: Mapping[str, _Call]) -> _Call:
    return _Call(calls.get(start.parent_id or "", start.trace_id), start.payload.tool_call_id)


def doubled_text(story: Sequence[Envelope]) -> Iterator[str]:
    """What a reader has who drops the text of abandoned calls: each step once, and the answer as it was said."""
    texts: dict[str, str] = {}
    models = {e.call_id: e for e in story if isinstance(e, LlmStart)}
    kept: dict[str, list[str]] = {}
    said: Counter[tuple[str | None, str | None, str]] = Counter()
    for envelope in story:
        match envelope:
            case LlmToken():
                texts[envelope.call_id] = texts.get(envelope.call_id, "") + (envelope.payload.text or "")
            case LlmEnd() if envelope.payload.status == "ok":
                text = texts.get(envelope.call_id, "")
                said[envelope.trace_id, models[envelope.call_id].agent, text] += 1
                kept.setdefault(envelope.run_id or "", []).append(text)
            case RunEnd() if envelope.payload.status == "completed":
                last = kept.get(envelope.run_id or "", [""])[-1]
                if envelope.payload.result != last:
                    yield f"run {envelope.run_id} said {last!r} and ended with {envelope.payload.result!r}"
    yield from (f"{key} was said {times} times" for key, times in said.items() if times > 1)
