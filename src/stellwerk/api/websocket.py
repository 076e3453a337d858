"""/sessions/{sid}/ws: the same envelopes over a WebSocket, and commands the other way.

What goes out is ``{"id", "event"}`` for each envelope, and for each frame that
came in ``{"ok"}`` or ``{"problem"}``: the body with which HTTP would have answered.
Nothing that a client sends closes the socket, unless it is far too large.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import msgspec
import structlog
from fastapi import APIRouter, Query, WebSocket
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from stellwerk.api.audit_trail import origin_of
from stellwerk.api.conversation import NewAnswer, NewMessage, StopWish, answered, sent, stopped
from stellwerk.api.credentials import Following, allowed
from stellwerk.api.problems import Problem, of_invalid, problem_of
from stellwerk.api.services import Services
from stellwerk.api.streaming import Form, Reader, StallWatch, cursor
from stellwerk.dialects.native import Profile
from stellwerk.envelope import frames
from stellwerk.envelope.frames import Origin, Stored
from stellwerk.errors import InvalidField, InvalidInput, LimitReached, StellwerkError, TooLarge
from stellwerk.runs.sessions import Session
from stellwerk.tenants.audited import recording
from stellwerk.tenants.principals import Principal

logger = structlog.get_logger(__name__)

_ACCEPTED = 202
NORMAL, GOING_AWAY, NOT_ALLOWED, BROKEN = 1000, 1001, 1008, 1011

_ONLY = (
    "this path is a WebSocket; connect to it with ws:// or wss://. "
    "If you did, a proxy on the way does not hand on the upgrade; let it, or follow GET /sessions/{sid}/stream"
)
After = Annotated[str | None, Query()]
Wanted = Annotated[str, Query()]
"""Any text: what is wrong with it is told as a problem, and FastAPI would only close the socket."""
Key = Annotated[str | None, Field(min_length=1, max_length=255)]


class MessageFrame(NewMessage):
    type: Literal["message"]
    key: Key = None


class AnswerFrame(NewAnswer):
    type: Literal["answer"]
    key: Key = None


class StopFrame(StopWish):
    type: Literal["stop"]
    key: Key = None


Command = MessageFrame | AnswerFrame | StopFrame
_FRAMES: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])


def _frame(session_id: str, stored: Stored, origin: Origin) -> bytes:
    """With a line feed behind it, so that frames which readers share can be told apart again."""
    return b'{"id":%d,"event":%b}\n' % (stored.position, frames.line(session_id, stored, origin))


FRAMES = Form("websocket", _frame, heartbeat=b"", farewell=b"")


def routes(services: Services, *, frame_limit: int) -> APIRouter:
    router = APIRouter()

    @router.websocket("/sessions/{sid}/ws")
    async def talk(
        who: Following, websocket: WebSocket, sid: str, after: After = None, profile: Wanted = "user"
    ) -> None:
        # What is raised before the socket is accepted is the answer to the handshake, as to any request.
        position, shown = cursor(after), _profile(profile)
        session = await services.sessions.find(who.tenant, sid)
        with services.quotas.stream(who.tenant, sid):
            await websocket.accept()
            await _Talk(services, websocket, who, session, shown, frame_limit).run(position)

    @router.get("/sessions/{sid}/ws", include_in_schema=False)
    async def refuse(sid: str) -> Response:
        return Problem(426, "websocket_only", _ONLY, headers={"Upgrade": "websocket", "Connection": "Upgrade"})

    return router


def _profile(wanted: str) -> Profile:
    known: tuple[Profile, ...] = get_args(Profile)
    for profile in known:
        if wanted == profile:
            return profile
    raise InvalidField("profile: this must be 'user' or 'debug'", field="profile")


@dataclass(frozen=True, slots=True)
class _Talk:
    services: Services
    websocket: WebSocket
    who: Principal
    session: Session
    profile: Profile
    frame_limit: int

    async def run(self, after: int) -> None:
        """Until one side leaves. A command that has begun is never cut off, whoever leaves."""
        telling = asyncio.create_task(self._tell(after))
        try:
            while (message := await self._received(telling)) is not None:
                await self._send(await self._obey(message))
        except WebSocketDisconnect:
            pass
        finally:
            telling.cancel()
            await asyncio.wait([telling])
        if not telling.cancelled():
            telling.result()

    async def _received(self, telling: "asyncio.Task[None]") -> Message | None:
        """The next frame; None if there is nobody to talk to any more."""
        receiving = asyncio.create_task(self.websocket.receive())
        try:
            await asyncio.wait({receiving, telling}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
        if telling.done() or receiving.result()["type"] == "websocket.disconnect":
            return None
        return receiving.result()

    async def _tell(self, after: int) -> None:
        services = self.services
        reader = Reader(*services.reading(), self.who, self.session.id, FRAMES, self.profile)
        with StallWatch() as watch:
            try:
                async for chunk in reader.stream(after=after, head=self.session.position, until_run_end=False):
                    for frame in chunk.split(b"\n")[:-1]:
                        watch.sending = True
                        await self._send(frame)
                        watch.taken()
                if not services.credentials.holds(self.who):
                    await self.websocket.close(NOT_ALLOWED, "your key was revoked, or has expired")
                elif services.wakes.closed:
                    await self.websocket.close(GOING_AWAY, "the server is going down; come back with your last id")
                else:
                    await self.websocket.close(NORMAL, "the session was deleted")
            except WebSocketDisconnect:
                pass
            except StellwerkError as error:  # the log cannot be read
                await self._send(_reply(problem_of(error), None))
                await self.websocket.close(BROKEN)

    async def _send(self, frame: bytes) -> None:
        try:
            await self.websocket.send_text(frame.decode())
        except RuntimeError as error:  # so the server says that it has closed the socket itself, as no ping came back
            raise WebSocketDisconnect(1006) from error

    async def _obey(self, message: Message) -> bytes:
        read = self._read(message)
        key, what = (None, "frame") if isinstance(read, Problem) else (read.key, read.type)
        try:
            self.services.quotas.request(self.who.tenant, self.session.id)
        except LimitReached as error:  # whoever floods us writes no audit either
            return _reply(problem_of(error), key)
        outcome, called, audit = 500, f"{what} /sessions/{{sid}}/ws", self.services.audit
        on, origin = {"sid": self.session.id}, origin_of(self.websocket.scope)
        due = audit.due(self.who, called, _ACCEPTED, on=on, origin=origin)
        try:
            with recording(due):
                told = read if isinstance(read, Problem) else await self._told(read)
            outcome = told.status_code if isinstance(told, Problem) else _ACCEPTED
        finally:
            if not due.is_written or outcome != _ACCEPTED:
                await audit.record(self.who, called, outcome, on=on, origin=origin)
        return _reply(told, key)

    def _read(self, message: Message) -> Command | Problem:
        text = message.get("text")
        if text is None:
            return problem_of(InvalidInput("a frame of bytes cannot be understood; send JSON as text"))
        if len(text) > self.frame_limit:
            said = f"the frame has more than {self.frame_limit} characters; send a long text in several"
            return problem_of(TooLarge(said))
        try:
            return _FRAMES.validate_json(text)
        except ValidationError as error:
            return of_invalid(error.errors()[0], what="frame")

    async def _told(self, frame: Command) -> Any:
        try:
            return await self._done(frame)
        except StellwerkError as error:
            return problem_of(error)

    async def _done(self, frame: Command) -> Any:
        self.services.credentials.must_hold(self.who)  # his stream may not have noticed yet, if he does not read it
        allowed(self.who, "run")
        match frame:
            case MessageFrame():
                return await sent(self.services, self.who, self.session.id, frame, frame.key)
            case AnswerFrame():
                return await answered(self.services, self.who, self.session.id, frame, frame.key)
            case StopFrame():
                return await stopped(self.services, self.who, self.session.id, frame)


def _reply(told: Any, key: str | None) -> bytes:
    """With the key of the frame that it answers, if that had one."""
    body = {"problem": msgspec.Raw(told.body)} if isinstance(told, Problem) else {"ok": told}
    return msgspec.json.encode(body if key is None else {**body, "key": key})
