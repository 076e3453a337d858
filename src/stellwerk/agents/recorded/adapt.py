"""``stellwerk.adapt``: LangChain's and LangGraph's streams as envelopes, without a server.

Input are the dictionaries of ``astream_events(version="v2")`` or the parts of
``astream(version="v2", subgraphs=True)``, as they come or as lines of JSON.
Output are the envelopes of one run, or the events of another protocol. Ids come
from the stream, so a recording always gives the same envelopes.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from langchain_core.messages import HumanMessage

from stellwerk.agents.recorded.events import EventsReader
from stellwerk.agents.recorded.parts import MODES, PartsReader
from stellwerk.agents.recorded.reader import Item, messages_of, plain, table
from stellwerk.agents.runtime.library_run import RunEnvelopes, user_message
from stellwerk.agents.runtime.shapes import plain_id
from stellwerk.dialects.base import Chunk, Dialect
from stellwerk.dialects.registry import DIALECTS, DialectName
from stellwerk.envelope.model import Envelope
from stellwerk.envelope.payloads import Said
from stellwerk.errors import InvalidInput
from stellwerk.ids import SystemClock, digest_id

Event = Mapping[str, Any] | str | bytes
"""An event or part of the framework, or one as a line of JSON."""
Events = AsyncIterable[Event] | Iterable[Event]

Now = Callable[[], float]

_now = SystemClock().now
_HOW = 'pass graph.astream_events(…, version="v2"), or graph.astream(…, version="v2", subgraphs=True, stream_mode=…)'


@overload
def adapt(
    events: Events, *, agent: str = ..., dialect: None = ..., run_id: str | None = ..., clock: Now = ...
) -> AsyncIterator[Envelope]: ...


@overload
def adapt(
    events: Events, *, agent: str = ..., dialect: DialectName, run_id: str | None = ..., clock: Now = ...
) -> AsyncIterator[Chunk]: ...


def adapt(
    events: Events,
    *,
    agent: str = "agent",
    dialect: DialectName | None = None,
    run_id: str | None = None,
    clock: Now = _now,
) -> AsyncIterator[Envelope] | AsyncIterator[Chunk]:
    """Yield one run's envelopes, ``run_start`` to ``run_end``; or the events of ``dialect``.

    ``agent`` names the outermost agent. ``run_id`` is that of the outermost graph unless it is
    given. ``clock`` gives the time of events without ``ts``. An error of the stream is raised again
    after the end of the run.

    Raises:
        InvalidInput: the input is not such a stream, or there is no such dialect.
    """
    if dialect is None:
        return _envelopes(events, agent, run_id, clock)
    if dialect not in DIALECTS:
        raise InvalidInput(f"there is no dialect {dialect!r}; take one of: {', '.join(DIALECTS)}", field="dialect")
    return _translated(_envelopes(events, agent, run_id, clock), DIALECTS[dialect])


def event_line(event: Mapping[str, Any], *, clock: Now = _now) -> str:
    """Return an event or part as a JSON line with its time, for a recording for ``adapt``."""
    return json.dumps({"ts": clock(), **plain(event)}, ensure_ascii=False, separators=(",", ":")) + "\n"


async def _translated(envelopes: AsyncIterator[Envelope], dialect: Dialect) -> AsyncIterator[Chunk]:
    translator = None
    position = 0
    async for envelope in envelopes:
        position += 1
        translator = translator or dialect.translator(envelope.run_id or "")
        for chunk in translator.feed(position, envelope):
            yield chunk


async def _envelopes(events: Events, agent: str, run_id: str | None, clock: Now) -> AsyncIterator[Envelope]:
    run: _Run | None = None
    try:
        async for given in _each(events):
            item = _item(given, clock)
            if run is None:
                run = _Run(agent, run_id, item)
                for envelope in run.start(float(item["ts"]), run.message):
                    yield envelope
            for envelope in run.read(item):
                yield envelope
    except Exception as error:
        if run is None or isinstance(error, InvalidInput):
            raise
        for envelope in run.end(clock(), error):
            yield envelope
        raise
    if run is not None:
        for envelope in run.finish():
            yield envelope


async def _each(events: Events) -> AsyncIterator[Any]:
    if isinstance(events, AsyncIterable):
        async for event in events:
            yield event
    elif hasattr(events, "__iter__") and not isinstance(events, str | bytes | Mapping):
        for event in events:
            yield event
    else:
        raise InvalidInput(f"a {type(events).__name__} is not a stream of events; {_HOW}", field="events")


def _item(given: Any, clock: Now) -> Item:
    """Return an event or part as plain data with its time."""
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise InvalidInput(f"{given[:80]!r} is not a line of JSON: {error}", field="events") from error
    if not isinstance(given, Mapping) or not ("event" in given or given.get("type") in MODES):
        raise InvalidInput(f"{str(given)[:80]!r} is neither an event nor a part of version 2; {_HOW}", field="events")
    item: Item = plain(given)
    return item if isinstance(item.get("ts"), int | float) else {**item, "ts": clock()}


class _Run(RunEnvelopes):
    """One run, read item by item."""

    def __init__(self, agent: str, run_id: str | None, first: Item) -> None:
        is_event = "event" in first
        id_ = run_id or str(first.get("run_id") if is_event else digest_id(json.dumps(first["data"])))
        super().__init__(agent, id_, id_)
        self._reader = EventsReader(agent) if is_event else PartsReader(agent, {})
        data = table(first.get("data"))
        given = messages_of(data.get("input") or data.get("values"))
        self.message: Said | None = None
        """The user's message, if the input of the graph has one."""
        for said in given:
            if isinstance(said, HumanMessage):
                message_id = plain_id(said.id) or digest_id(id_, "message")
                self.message = user_message(message_id, str(said.text))

    def read(self, item: Item) -> Iterator[Envelope]:
        for fact in self._reader.feed(item):
            yield from self.feed(fact)

    def finish(self) -> Iterator[Envelope]:
        for fact in self._reader.finish():
            yield from self.feed(fact)
        yield from self.end(self._reader.ts)
