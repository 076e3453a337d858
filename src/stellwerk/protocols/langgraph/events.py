"""The thread protocol: commands, and one stream of events per subscription over all runs of a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request, Response, WebSocket, WebSocketDisconnect
from msgspec import UNSET, Struct, UnsetType
from starlette.datastructures import Headers

from stellwerk.api.http.audit import audited_frame, origin_of
from stellwerk.api.http.auth import RequireReadTolerant, RequireRunTolerant, require_scope
from stellwerk.api.schema.shared import Json
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import WHOLE, EventStream, SlowClientTimeout, StreamCut, StreamFormat
from stellwerk.api.streams.shared_translation import StreamKey
from stellwerk.api.streams.translated import TranslatedReader
from stellwerk.dialects.base import Cursor, Dialect, ndjson
from stellwerk.dialects.langgraph import threads
from stellwerk.dialects.langgraph.threads import PER_POSITION, ThreadsOptions
from stellwerk.errors import InvalidField, NotFound, Overloaded, StellwerkError
from stellwerk.protocols.langgraph.bodies import ResumeCommand, RunBody
from stellwerk.protocols.langgraph.reading import ThreadStates
from stellwerk.protocols.langgraph.starting import Starting
from stellwerk.protocols.langgraph.unserved import NotServed
from stellwerk.protocols.requests import LARGEST, body_of
from stellwerk.protocols.threads import OpenThread, find_thread
from stellwerk.runs.sessions import Session
from stellwerk.tenants.audit import Action
from stellwerk.tenants.principals import Principal

_SSE = StreamFormat("text/event-stream", b": ping\n", cut=True)
_FRAMES = StreamFormat("websocket", b"", cut=True)
_OVER_WEBSOCKET = replace(threads.DIALECT, frame=ndjson)
_WAIT = 0.5
"""Seconds between two looks for a thread that does not exist yet: clients subscribe before they begin it."""
_ERRORS = {
    "not_asked": "no_such_interrupt",
    "unknown_run": "no_such_run",
    "forbidden": "permission_denied",
    "not_supported": "not_supported",
}
_MOST_SUBSCRIPTIONS = 100
"""Of one WebSocket. The SDK has one for each projection and each sub-agent that is looked at."""
_CHANNELS = {"input.requested": "input"}
_CLOSED = 4000
"""Plus the status that the same request has over HTTP: clients reconnect after some of them, and after others not."""
_RESTARTS = 1012


class ThreadCommand(Struct):
    id: int
    method: str
    params: dict[str, Any] = {}


class RunStartParams(RunBody):
    if_not_exists: str | None = "create"


class InputResponse(Struct):
    interrupt_id: str
    response: Any = None


class InputRespondParams(Struct):
    interrupt_id: str | None = None
    response: Any = UNSET
    responses: list[InputResponse] | None = None
    config: dict[str, Any] | None = None


class Subscription(Struct):
    channels: list[str]
    namespaces: list[list[str]] | None = None
    depth: int | None = None
    since: int | None = None

    @property
    def cursor(self) -> Cursor | None:
        return None if self.since is None else divmod(min(LARGEST, max(0, self.since)), PER_POSITION)

    def keeps(self) -> Callable[[tuple[str, tuple[str, ...]]], bool]:
        """Whether an event belongs to it, by its method and namespace."""
        channels = {channel.partition(":")[0] for channel in self.channels}

        def keep(tag: tuple[str, tuple[str, ...]]) -> bool:
            method, namespace = tag
            if _CHANNELS.get(method, method) not in channels:
                return False
            return not self.namespaces or any(self._is_in(namespace, prefix) for prefix in self.namespaces)

        return keep

    def _is_in(self, namespace: Sequence[str], prefix: Sequence[str]) -> bool:
        if len(prefix) > len(namespace) or (self.depth is not None and len(namespace) - len(prefix) > self.depth):
            return False
        pairs = zip(namespace, prefix, strict=False)
        return all(segment == wanted or segment.partition(":")[0] == wanted for segment, wanted in pairs)


class _Reading(NamedTuple):
    """What a subscription reads."""

    dialect: Dialect
    form: StreamFormat
    follows: bool = False
    """The client waits for the end of a run that it is going to start."""


class ThreadEvents:
    def __init__(self, services: Services, states: ThreadStates) -> None:
        self.services = services
        self.states = states
        self.starting = Starting(services, states)

    async def execute(self, who: Principal, thread_id: str, command: ThreadCommand) -> dict[str, Any]:
        match command.method:
            case "run.start":
                body = _params(command, RunStartParams)
            case "input.respond":
                given = _params(command, InputRespondParams)
                body = RunStartParams(command=ResumeCommand(resume=_answers(given)), config=given.config)
            case _:
                raise NotServed(f"{command.method[:80]} is not supported by this server")
        started = await self.starting.start(who, thread_id, body)
        return _success(command, run_id=started.run.run_id)

    async def stream(
        self, who: Principal, thread_id: str, wanted: Subscription, reading: _Reading
    ) -> AsyncIterator[bytes]:
        """From ``since``, or else from the newest trace: results of earlier ones are in the state of the thread."""
        opened: OpenThread | None = None
        waited = False
        while opened is None:
            self.services.credentials.check_valid(who)
            try:
                opened = await find_thread(self.services, who, thread_id)
            except NotFound:
                if self.services.wakes.closed:
                    return
                waited = True
                yield b""
                await asyncio.sleep(_WAIT)
        session = opened.session
        known = await self.states.about(who.tenant, session.agent_system_id)
        key = StreamKey(session.id, replace(reading.dialect, options=ThreadsOptions(known.agents)), "user")
        reader = TranslatedReader(self.services.streams, who, key, reading.form, keep=wanted.keeps())
        after = wanted.cursor or await self._beginning(who, session, follows=reading.follows and not waited)
        async for chunk in reader.stream(after=after, head=session.position):
            yield chunk

    async def _beginning(self, who: Principal, session: Session, *, follows: bool) -> Cursor:
        """In front of the newest trace; if that is over and the next run is to be followed, at the end of the log."""
        if follows and session.status != "running" and not session.awaiting_user_input:
            return session.position, WHOLE
        place = (session.id, who.tenant, 0)
        row = await self.services.database.read(lambda tx: tx.row("trace_starts", *place))
        return 0 if row is None else int(row[0]) - 1, WHOLE


def routes(services: Services, states: ThreadStates) -> APIRouter:
    router = APIRouter(prefix="/threads/{thread_id}", include_in_schema=False)
    events = ThreadEvents(services, states)

    @router.post("/commands")
    async def command(who: RequireRunTolerant, request: Request, thread_id: str) -> Response:
        wanted = await body_of(request, ThreadCommand)
        try:
            return Json(await events.execute(who, thread_id, wanted))
        except StellwerkError as error:
            return Json(_failure(wanted.id, error))

    @router.post("/stream/events")
    async def stream(who: RequireReadTolerant, request: Request, thread_id: str) -> Response:
        wanted = await body_of(request, Subscription)
        place = services.quotas.stream(who.tenant, thread_id)
        reading = _Reading(threads.DIALECT, _SSE, _follows(request.headers, wanted))
        chunks = events.stream(who, thread_id, wanted, reading)
        return EventStream(chunks, _SSE, place, services.streams.timings)

    @router.websocket("/stream/events")
    async def connect(who: RequireReadTolerant, websocket: WebSocket, thread_id: str) -> None:
        with services.quotas.stream(who.tenant, thread_id):
            await websocket.accept()
            await _Socket(events, websocket, who, thread_id).run()

    return router


class _Socket:
    """Commands and subscriptions over one WebSocket."""

    def __init__(self, events: ThreadEvents, websocket: WebSocket, who: Principal, thread_id: str) -> None:
        self._events, self._websocket, self._who, self._thread_id = events, websocket, who, thread_id
        self._subscribed = dict[str, asyncio.Task[None]]()

    async def run(self) -> None:
        try:
            while True:
                await self._send(await self._handled(await self._websocket.receive_text()))
        except (WebSocketDisconnect, RuntimeError, KeyError):  # it is gone, or sends bytes
            pass
        finally:
            for task in self._subscribed.values():
                task.cancel()
            if self._subscribed:
                await asyncio.wait(self._subscribed.values())

    async def _send(self, answer: dict[str, Any]) -> None:
        await self._websocket.send_text(msgspec.json.encode(answer).decode())

    async def _handled(self, text: str) -> dict[str, Any]:
        services, who = self._events.services, self._who
        try:
            command = msgspec.json.decode(text, type=ThreadCommand)
        except msgspec.DecodeError as error:
            return _failure(None, InvalidField(str(error), field="command"))
        try:
            services.quotas.request(who.tenant, self._thread_id)
            services.credentials.check_valid(who)
            match command.method:
                case "subscription.subscribe":
                    return self._subscribe(command)
                case "subscription.unsubscribe":
                    task = self._subscribed.pop(str(command.params.get("subscription_id")), None)
                    if task is not None:
                        task.cancel()
                    return _success(command)
            require_scope(who, "run")
            called = f"{command.method[:80]} /threads/{{thread_id}}/stream/events"
            action = Action(who, called, {"thread_id": self._thread_id}, origin_of(self._websocket.scope))
            executing = self._events.execute(who, self._thread_id, command)
            return await audited_frame(services.audit, action, executing)
        except StellwerkError as error:
            return _failure(command.id, error)

    def _subscribe(self, command: ThreadCommand) -> dict[str, Any]:
        name = f"s{command.id}"
        wanted = _params(command, Subscription)
        if name in self._subscribed:
            raise InvalidField(f"id: there is a subscription {name!r}; take a new id", field="id")
        if len(self._subscribed) >= _MOST_SUBSCRIPTIONS:
            said = f"a connection has at most {_MOST_SUBSCRIPTIONS} subscriptions; end one, or open another connection"
            raise Overloaded(said)
        self._subscribed[name] = asyncio.create_task(self._follow(wanted))
        return _success(command, subscription_id=name)

    async def _follow(self, wanted: Subscription) -> None:
        """Send the events of a subscription; the end of one is the end of the thread, so the socket is closed."""
        reading = _Reading(_OVER_WEBSOCKET, _FRAMES, _follows(self._websocket.headers, wanted))
        code = _CLOSED + 404
        with SlowClientTimeout(self._events.services.streams.timings.reader_check) as watch, suppress(RuntimeError):
            try:
                async for chunk in self._events.stream(self._who, self._thread_id, wanted, reading):
                    for frame in chunk.splitlines():
                        watch.sending = True
                        await self._websocket.send_text(frame.decode())
                        watch.taken()
            except StreamCut:
                code = _RESTARTS
            except StellwerkError as error:
                code = _CLOSED + error.status
            await self._websocket.close(code)


def _follows(headers: Headers, wanted: Subscription) -> bool:
    """The client in Python watches for the end of a run before it starts it; that in JavaScript afterwards."""
    agent = headers.get("user-agent", "")
    is_python = "langgraph-sdk-py/" in agent or "websockets/" in agent
    return is_python and set(wanted.channels) <= {"lifecycle", "input"}


def _answers(given: InputRespondParams) -> Any:
    if given.responses:
        return {each.interrupt_id: each.response for each in given.responses}
    response = None if isinstance(given.response, UnsetType) else given.response
    return response if given.interrupt_id is None else {given.interrupt_id: response}


def _params(command: ThreadCommand, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(command.params, kind)
    except msgspec.ValidationError as error:
        raise InvalidField(f"params: {error}", field="params") from error


def _success(command: ThreadCommand, **result: str) -> dict[str, Any]:
    return {"type": "success", "id": command.id, "result": result}


def _failure(id_: int | None, error: StellwerkError) -> dict[str, Any]:
    code = _ERRORS.get(error.code, "invalid_argument")
    return {"type": "error", "id": id_, "error": code, "message": error.message}
