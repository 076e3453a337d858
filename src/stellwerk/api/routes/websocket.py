"""/sessions/{sid}/ws: a session over a WebSocket, envelopes in one direction and commands in the other.

The server sends ``{"id", "event"}`` for each envelope, and for each frame of the client
``{"ok"}`` or ``{"problem"}``: the body of the HTTP response. No frame of a client closes
the socket, unless it is far too large.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast, get_args

import msgspec
from fastapi import APIRouter, Query, Response, WebSocket, WebSocketDisconnect
from pydantic import Field, TypeAdapter, ValidationError
from starlette.types import Message

from stellwerk.api.http.audit import audited_frame, origin_of
from stellwerk.api.http.auth import StreamReader, require_scope
from stellwerk.api.http.problems import ProblemResponse, problem_response, validation_error
from stellwerk.api.schema.shared import NewAnswer, NewMessage, StopOptions
from stellwerk.api.services import Services
from stellwerk.api.streams.reader import Reader, SlowClientTimeout, StreamFormat, parse_position
from stellwerk.dialects.native import Profile
from stellwerk.envelope import frames
from stellwerk.envelope.frames import Origin, Stored
from stellwerk.errors import InvalidField, InvalidInput, LimitReached, StellwerkError, TooLarge
from stellwerk.runs.commands import SendOptions
from stellwerk.runs.sessions import Session
from stellwerk.tenants.audit import Action
from stellwerk.tenants.principals import Principal

NORMAL, GOING_AWAY, NOT_ALLOWED, BROKEN = 1000, 1001, 1008, 1011

_ONLY = (
    "this path is a WebSocket; connect to it with ws:// or wss://. If you did, a proxy on the way "
    "does not hand on the upgrade; let it, or follow GET /sessions/{sid}/stream"
)
After = Annotated[str | None, Query()]
AnyProfile = Annotated[str, Query()]
"""An invalid one is answered with a problem, while FastAPI would only close the socket."""
Key = Annotated[str | None, Field(min_length=1, max_length=255)]


class MessageFrame(NewMessage):
    type: Literal["message"]
    key: Key = None


class AnswerFrame(NewAnswer):
    type: Literal["answer"]
    key: Key = None


class StopFrame(StopOptions):
    type: Literal["stop"]
    key: Key = None


Command = MessageFrame | AnswerFrame | StopFrame
_FRAMES: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])


def _frame(session_id: str, stored: Stored, origin: Origin) -> bytes:
    """With a line feed at the end, so that shared frames can be split again."""
    return b'{"id":%d,"event":%b}\n' % (stored.position, frames.line(session_id, stored, origin))


FRAMES = StreamFormat("websocket", heartbeat=b"", frame=_frame)


def routes(services: Services, *, frame_limit: int) -> APIRouter:
    router = APIRouter()

    @router.websocket("/sessions/{sid}/ws")
    async def talk(
        who: StreamReader,
        websocket: WebSocket,
        sid: str,
        after: After = None,
        profile: AnyProfile = "user",
    ) -> None:
        # An error before the socket is accepted is the answer to the handshake.
        position = parse_position(after)
        if profile not in get_args(Profile):
            raise InvalidField("profile: this must be 'user' or 'debug'", field="profile")
        shown = cast("Profile", profile)
        session = await services.sessions.find(who.tenant, sid)
        with services.quotas.stream(who.tenant, sid):
            await websocket.accept()
            await _Connection(services, websocket, who, session, shown, frame_limit).run(position)

    @router.get("/sessions/{sid}/ws", include_in_schema=False)
    async def refuse(sid: str) -> Response:
        headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
        return ProblemResponse(426, "websocket_only", _ONLY, headers=headers)

    return router


@dataclass(frozen=True, slots=True)
class _Connection:
    services: Services
    websocket: WebSocket
    who: Principal
    session: Session
    profile: Profile
    frame_limit: int

    async def run(self, after: int) -> None:
        """Until one side leaves. A command that has begun is never interrupted."""
        sending = asyncio.create_task(self._send_events(after))
        try:
            while (message := await self._received(sending)) is not None:
                await self._send(await self._handled(message))
        except WebSocketDisconnect:
            pass
        finally:
            sending.cancel()
            await asyncio.wait([sending])
        if not sending.cancelled():
            sending.result()

    async def _received(self, sending: "asyncio.Task[None]") -> Message | None:
        """The next frame; None if the connection is over."""
        receiving = asyncio.create_task(self.websocket.receive())
        try:
            await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
        if sending.done() or receiving.result()["type"] == "websocket.disconnect":
            return None
        return receiving.result()

    async def _send_events(self, after: int) -> None:
        streams = self.services.streams
        head = self.session.position
        reader = Reader(streams, self.who, self.session.id, self.profile, FRAMES)
        with SlowClientTimeout(streams.timings.reader_check) as watch:
            try:
                async for chunk in reader.stream(after=after, head=head, until_run_end=False):
                    for frame in chunk.split(b"\n")[:-1]:
                        watch.sending = True
                        await self._send(frame)
                        watch.taken()
                await self.websocket.close(*self._why_over())
            except WebSocketDisconnect:
                pass
            except StellwerkError as error:  # the log cannot be read
                await self._send(_reply(error, None))
                await self.websocket.close(BROKEN)

    def _why_over(self) -> tuple[int, str]:
        if not self.services.credentials.is_valid(self.who):
            return NOT_ALLOWED, "your key was revoked, or has expired"
        if self.services.wakes.closed:
            return GOING_AWAY, "the server is going down; come back with your last id"
        return NORMAL, "the session was deleted"

    async def _send(self, frame: bytes) -> None:
        try:
            await self.websocket.send_text(frame.decode())
        except RuntimeError as error:  # the server has closed the socket, because no pong came back
            raise WebSocketDisconnect(1006) from error

    async def _handled(self, message: Message) -> bytes:
        read = self._read(message)
        key, what = (None, "frame") if isinstance(read, StellwerkError) else (read.key, read.type)
        try:
            self.services.quotas.request(self.who.tenant, self.session.id)
        except LimitReached as error:  # first, so that a flood writes no audit entries
            return _reply(error, key)
        called = f"{what} /sessions/{{sid}}/ws"
        origin = origin_of(self.websocket.scope)
        action = Action(self.who, called, {"sid": self.session.id}, origin)
        try:
            reply = await audited_frame(self.services.audit, action, self._executed(read))
        except StellwerkError as error:
            reply = error
        return _reply(reply, key)

    def _read(self, message: Message) -> Command | StellwerkError:
        text = message.get("text")
        if text is None:
            return InvalidInput("a frame of bytes cannot be understood; send JSON as text")
        if len(text) > self.frame_limit:
            limit = f"the frame has more than {self.frame_limit} characters"
            return TooLarge(f"{limit}; send a long text in several")
        try:
            return _FRAMES.validate_json(text)
        except ValidationError as error:
            return validation_error(error.errors()[0], what="frame")

    async def _executed(self, frame: Command | StellwerkError) -> Any:
        if isinstance(frame, StellwerkError):
            raise frame
        # A stream that is not read may not have noticed yet that the key was revoked.
        self.services.credentials.check_valid(self.who)
        require_scope(self.who, "run")
        sessions = self.services.sessions
        tenant = self.who.tenant
        sid = self.session.id
        if isinstance(frame, StopFrame):
            return await sessions.stop(tenant, sid, reason=frame.clean_reason())
        files = frame.documents
        if isinstance(frame, AnswerFrame):
            answer = frame.to_payload()
            return await sessions.answer(tenant, sid, answer, documents=files, key=frame.key)
        text, given = frame.checked_text(), frame.parameters(self.who)
        self.services.webhooks.check(tenant, frame.webhook)
        run = frame.run_options(self.services.clock.now())
        more: SendOptions = {"documents": files, "if_busy": frame.if_busy, "key": frame.key, "run": run}
        more |= {"message_id": frame.message_id, "replaces": frame.replaces}
        return await sessions.send(tenant, sid, text, parameters=given, **more)


def _reply(reply: Any, key: str | None) -> bytes:
    """With the key of the frame that it answers, if that had one."""
    if isinstance(reply, StellwerkError):
        body = {"problem": msgspec.Raw(problem_response(reply).body)}
    else:
        body = {"ok": reply}
    return msgspec.json.encode(body if key is None else {**body, "key": key})
