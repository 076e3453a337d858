"""A2A's operations over the log: there is no other store of tasks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

import msgspec
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message as ProtoMessage

from stellwerk.api.schema.shared import TEXT_LIMIT
from stellwerk.api.services import Services
from stellwerk.dialects.a2a import CANCELED, INPUT_REQUIRED, OVER, SUBMITTED
from stellwerk.dialects.base import Chunk
from stellwerk.envelope.payloads import Answered
from stellwerk.errors import InvalidField, InvalidInput, NotFound, StellwerkError
from stellwerk.protocols.a2a_server.tasks import Caller, StoredTask, find_task, new_task, read_task
from stellwerk.protocols.requests import store_bytes
from stellwerk.protocols.run_streams import FollowedRun, run_of
from stellwerk.protocols.threads import find_thread, open_thread
from stellwerk.runs.commands import Accepted, check_message_id
from stellwerk.runs.run_info import RunInfo
from stellwerk.runs.sessions import Session

T = TypeVar("T")
_SILENCE = 4.0
"""Seconds after which the status is repeated: a common client gives up after five."""
_PAGE, _LONGEST_PAGE = 50, 100
_RUNS = 100
"""Runs of each session that are looked through for a list of tasks."""


class LogRequests(RequestHandler):
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        caller = _caller(context)
        with _translated():
            task, run = await self._started(params.message, caller)
            if not params.configuration.return_immediately:
                async with aclosing(self._followed(task, run)) as chunks:
                    async for _ in chunks:
                        pass
            return _task(task, _length(params.configuration))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        caller = _caller(context)
        with _translated():
            task, run = await self._started(params.message, caller)
            is_new = task.view.state == SUBMITTED
            if not is_new:
                yield _task(task)
            async with aclosing(self._followed(task, run)) as chunks:
                async for chunk in chunks:
                    yield _event(chunk)

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        caller = _caller(context)
        with _translated():
            task = await self._found(caller, params.id)
            if task.view.state in OVER:
                raise errors.UnsupportedOperationError("this task is over; get it")
            yield _task(task)
            if task.view.state == INPUT_REQUIRED:
                return
            run = FollowedRun(caller.who, task.session.id, task.run.run_id, task.position)
            async with aclosing(self._followed(task, run)) as chunks:
                async for chunk in chunks:
                    yield _event(chunk)

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        with _translated():
            return _task(await self._found(_caller(context), params.id), _length(params))

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        caller = _caller(context)
        tenant = caller.who.tenant
        with _translated():
            task = await self._found(caller, params.id)
            if task.view.state in OVER:
                raise errors.TaskNotCancelableError("this task is over")
            if task.run.is_enqueued:
                await self._services.sessions.withdraw(tenant, task.session.id, run_id=task.run.run_id)
                task.view.task["status"] = {"state": CANCELED}
                return _task(task)
            await self._services.sessions.stop(tenant, task.session.id, reason="the task was cancelled")
            return _task(await self._found(caller, params.id))

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """Of one session, or of all of this agent system: by their latest activity, some sessions a page."""
        caller = _caller(context)
        size = min(max(0, params.page_size) or _PAGE, _LONGEST_PAGE)
        with _translated():
            sessions, token = await self._sessions(caller, params, size)
            listed = [task for session in sessions for task in await self._tasks(caller, session)]
            wanted = None if not params.status else pb.TaskState.Name(params.status)
            shown = [_task(task, _length(params)) for task in listed if wanted in (None, task.view.state)]
            return pb.ListTasksResponse(tasks=shown, next_page_token=token, page_size=size, total_size=len(shown))

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        raise errors.ExtendedAgentCardNotConfiguredError

    async def _no_push(self, params: ProtoMessage, context: ServerCallContext) -> Any:
        raise errors.PushNotificationNotSupportedError

    on_create_task_push_notification_config = _no_push
    on_get_task_push_notification_config = _no_push
    on_list_task_push_notification_configs = _no_push
    on_delete_task_push_notification_config = _no_push

    async def _sessions(self, caller: Caller, params: pb.ListTasksRequest, size: int) -> tuple[list[Session], str]:
        if params.context_id:
            found = await find_thread(self._services, caller.who, params.context_id)
            return ([found.session] if found.session.agent_system_id == caller.system else []), ""
        page = await self._services.sessions.list(caller.who.tenant, before=_before(params.page_token), limit=size)
        token = f"{page[-1].last_activity_at!r} {page[-1].id}" if len(page) == size else ""
        return [each for each in page if each.agent_system_id == caller.system], token

    async def _tasks(self, caller: Caller, session: Session) -> list[StoredTask]:
        """The tasks of a session, the newest first."""
        runs = await self._services.sessions.runs(caller.who.tenant, session.id, limit=_RUNS)
        latest: dict[str, RunInfo] = {}
        first: dict[str, RunInfo] = {}
        for run in runs:
            latest.setdefault(run.trace_id or run.run_id, run)
            first[run.trace_id or run.run_id] = run
        return [
            await new_task(self._services, caller, session, run)
            if run.is_enqueued
            else await read_task(self._services, caller, session, run, first[task_id].after)
            for task_id, run in latest.items()
            if task_id == first[task_id].run_id
        ]

    async def _found(self, caller: Caller, task_id: str) -> StoredTask:
        try:
            return await find_task(self._services, caller, task_id)
        except NotFound as error:
            raise errors.TaskNotFoundError(error.message) from error

    async def _started(self, message: pb.Message, caller: Caller) -> tuple[StoredTask, FollowedRun]:
        """The task that a message begins or continues, and the run that it leads to."""
        text, data = _said(message)
        if len(text) > TEXT_LIMIT:
            raise InvalidField(f"message: a text has at most {TEXT_LIMIT} characters; send a file", field="message")
        if message.task_id:
            return await self._continued(message, caller)
        documents = [await self._stored(caller, part) for part in message.parts if part.WhichOneof("content") == "raw"]
        async with open_thread(self._services, caller.who, message.context_id or None, caller.system) as thread:
            is_busy = thread.session.status == "running" and not thread.session.awaiting_user_input
            accepted = await self._services.sessions.send(
                caller.who.tenant,
                thread.session.id,
                text,
                documents=documents,
                if_busy="enqueue" if is_busy else "reject",
                message_id=message.message_id or None,
            )
        return await self._accepted(caller, thread.session, accepted)

    async def _continued(self, message: pb.Message, caller: Caller) -> tuple[StoredTask, FollowedRun]:
        """A message with the id of a task answers its question."""
        task = await self._found(caller, message.task_id)
        if message.context_id not in ("", task.translator.context_id, task.session.id):
            raise errors.InvalidParamsError("this task has another contextId")
        text, data = _said(message)
        documents = [await self._stored(caller, part) for part in message.parts if part.WhichOneof("content") == "raw"]
        key = None
        if message.message_id:
            check_message_id(message.message_id)
            key = f"a2a {message.message_id}"
        if task.view.state != INPUT_REQUIRED and key is None:
            raise errors.UnsupportedOperationError("this task asks nothing; leave taskId out to begin another one")
        ask_id = str(data.pop("askId", "")) if isinstance(data, dict) else ""
        refused = bool(data.pop("refused", False)) if isinstance(data, dict) else False
        answer = Answered(ask_id=ask_id, text=text or None, data=data or None, refused=refused)
        accepted = await self._services.sessions.answer(
            caller.who.tenant, task.session.id, answer, documents=documents, key=key
        )
        if accepted.status == "noted":
            return task, FollowedRun(caller.who, task.session.id, "", 0)
        return await self._accepted(caller, task.session, accepted)

    async def _accepted(self, caller: Caller, session: Session, accepted: Accepted) -> tuple[StoredTask, FollowedRun]:
        run_id = run_of(accepted)
        run = await self._services.sessions.run(caller.who.tenant, session.id, run_id)
        following = FollowedRun(caller.who, session.id, run_id, accepted.after)
        if run.is_enqueued or run.trace_id == run_id:
            return await new_task(self._services, caller, session, run), following
        task = await find_task(self._services, caller, run.trace_id or run_id)
        return task, following._replace(after=task.position)

    async def _stored(self, caller: Caller, part: pb.Part) -> str:
        mime = part.media_type or "application/octet-stream"
        return await store_bytes(self._services, caller.who, part.raw, mime=mime, filename=part.filename or None)

    async def _followed(self, task: StoredTask, run: FollowedRun) -> AsyncGenerator[Chunk]:
        """The updates of a run; its status again when nothing has happened for some seconds."""
        if not run.run_id or task.view.state in (*OVER, INPUT_REQUIRED):
            return
        with self._services.quotas.stream(run.who.tenant, run.session_id):
            async with aclosing(_never_silent(task.follow(run), _SILENCE)) as chunks:
                async for chunk in chunks:
                    if chunk is not None:
                        yield chunk
                        continue
                    place = {"taskId": task.view.task["id"], "contextId": task.translator.context_id}
                    yield {"statusUpdate": {**place, "status": task.view.task["status"]}}


async def _never_silent(source: AsyncIterator[T | None], seconds: float) -> AsyncGenerator[T | None]:
    """The items, and None whenever none came for so long."""
    following: asyncio.Task[Any] | None = None
    try:
        while True:
            following = following or asyncio.ensure_future(anext(source, StopAsyncIteration))
            done, _ = await asyncio.wait([following], timeout=seconds)
            if not done:
                yield None
                continue
            item, following = following.result(), None
            if item is StopAsyncIteration:
                return
            if item is not None:
                yield item
    finally:
        if following is not None:
            following.cancel()
            await asyncio.wait([following])


def _caller(context: ServerCallContext) -> Caller:
    caller: Caller = context.state["caller"]
    return caller


@contextmanager
def _translated() -> Iterator[None]:
    """Our errors as those of the protocol."""
    try:
        yield
    except NotFound as error:
        raise errors.InvalidParamsError(error.message, data={"code": error.code}) from error
    except InvalidInput as error:
        raise errors.InvalidParamsError(error.message, data={"code": error.code}) from error
    except StellwerkError as error:
        if error.status == 409:
            raise errors.UnsupportedOperationError(error.message, data={"code": error.code}) from error
        raise errors.InternalError(error.message, data={"code": error.code}) from error


def _said(message: pb.Message) -> tuple[str, Any]:
    """Its text, and its data if there is any."""
    texts, data = [], None
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            texts.append(part.text)
        elif kind == "data":
            data = MessageToDict(part.data)
        elif kind == "url":
            raise InvalidField("parts: this server fetches no addresses; send the bytes as raw", field="message")
    text = "\n".join(texts)
    if not message.task_id and data is not None:
        text = "\n".join(filter(None, [text, msgspec.json.encode(data, order="sorted").decode()]))
    if not text.strip() and data is None and not any(part.raw for part in message.parts):
        raise InvalidField("message: it is empty; send a text, data or a file", field="message")
    return text, data


def _before(token: str) -> tuple[float, str] | None:
    if not token:
        return None
    at, _, session_id = token.partition(" ")
    try:
        return float(at), session_id
    except ValueError as error:
        raise InvalidField("pageToken: take that of the page before", field="pageToken") from error


def _length(params: ProtoMessage) -> int | None:
    return int(params.history_length) if params.HasField("history_length") else None


def _task(task: StoredTask, history: int | None = None) -> pb.Task:
    shown: pb.Task = ParseDict(task.shown(history), pb.Task())
    return shown


def _event(chunk: Chunk) -> Event:
    response = ParseDict(chunk, pb.StreamResponse())
    event: Event = getattr(response, response.WhichOneof("payload") or "")
    return event
