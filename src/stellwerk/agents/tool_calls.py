"""A call of a tool: arguments checked, run where it belongs, given up in time, its result typed and its files kept.

Every tool of ours reaches LangChain through here, so that a function can be
written as if there were neither a server nor a model.
"""

import asyncio
import contextvars
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from stellwerk.agents.tool_process import Made, run_in_process
from stellwerk.agents.tools import ARTIFACT_KEY, ToolSpec
from stellwerk.envelope.results import ToolResult, to_result
from stellwerk.envelope.shapes import Blob
from stellwerk.errors import ToolFailed, ToolTimeout
from stellwerk.threads import counted

Keep = Callable[[ToolResult, Sequence[Blob]], Awaitable[ToolResult]]
"""Stores what a result refers to. It is called inside the call, before anybody sees the result."""

_GRACE = 3.0
"""Seconds in which a call that was given up may clean up; a process is killed within them."""
_left: set["asyncio.Task[Any]"] = set()
"""Calls that were given up and still run; the loop itself would forget them."""


def langchain_tool(
    spec: ToolSpec, *, name: str | None = None, timeout: float | None = None, keep: Keep | None = None
) -> BaseTool:
    """``spec`` for an agent, under the name or alias by which the agent knows it.

    It takes no longer than its own timeout and the one given here, and fails with ToolTimeout if it would. Without
    ``keep`` the bytes of a file are lost; a note in the artifact says so.
    """
    seconds = min(spec.timeout, math.inf if timeout is None else timeout)
    offered = name or spec.name

    async def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
        checked = spec.arguments.model_validate(arguments)
        made = await _within(seconds, offered, _run(spec, checked, {}))
        return await answer(made, keep)

    async def call_with_runtime(runtime: ToolRuntime[Any, Any], **arguments: Any) -> tuple[str, dict[str, Any]]:
        checked = spec.arguments.model_validate(arguments)
        made = await _within(seconds, offered, _run(spec, checked, {"runtime": runtime}))
        return await answer(made, keep)

    return StructuredTool(
        name=offered,
        description=spec.description,
        args_schema=spec.input_schema,
        coroutine=call_with_runtime if spec.takes_runtime else call,
        response_format="content_and_artifact",
        metadata={
            ARTIFACT_KEY: {
                "idempotent": spec.idempotent,
                "effects": spec.effects,
                "timeout": seconds,
                "tool": spec.name,
                **({"untrusted": True} if spec.untrusted else {}),
            }
        },
    )


async def _run(spec: ToolSpec, checked: BaseModel, injected: dict[str, Any]) -> Made:
    if spec.runs_in == "process":
        return await run_in_process(spec, checked.model_dump_json())
    # By the instance's dictionary: a parameter may be called like a method of the model.
    arguments = {name: checked.__dict__[name] for name in type(checked).model_fields} | injected
    if spec.runs_in == "thread":
        return to_result(await _in_thread(spec, arguments))
    try:
        return to_result(await spec.function(**arguments))
    except SystemExit as error:  # it would end the server
        raise ToolFailed(spec.name, "ended by SystemExit; it should return or raise") from error


async def answer(made: Made, keep: Keep | None) -> tuple[str, dict[str, Any]]:
    """For the model a text, for us the typed result; its files are stored."""
    result, notes, blobs = made
    if keep is None:
        notes += tuple(f"document {blob.document_id}: its content is not kept" for blob in blobs)
    elif blobs:
        result = await keep(result, blobs)
    # Plain JSON, without tuples: it is stored in checkpoints, too.
    artifact = {ARTIFACT_KEY: 1, "result": msgspec.json.decode(msgspec.json.encode(result))}
    return result.as_text(), artifact | ({"notes": list(notes)} if notes else {})


async def _within(seconds: float, name: str, work: Coroutine[Any, Any, Made]) -> Made:
    """The work in a task of its own, because a function that swallows its cancellation must not hold up the run."""
    task = asyncio.create_task(work)
    _left.add(task)
    task.add_done_callback(_let_go)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=_GRACE)
    finally:
        task.cancel()
    if not done:
        raise ToolTimeout(name, seconds)
    if task.cancelled():
        raise ToolFailed(name, "cancelled itself")
    return task.result()


def _let_go(task: "asyncio.Task[Any]") -> None:
    _left.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that nobody complains about what comes too late


async def _in_thread(spec: ToolSpec, arguments: dict[str, Any]) -> Any:
    """In a thread of its own: one that hangs takes no place in a pool, and does not keep the server from ending."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    ended, ending = asyncio.Event(), _Ending(spec.name)

    def work() -> None:
        with ending:
            ending.value = context.run(counted, spec.function, **arguments)
        with suppress(RuntimeError):  # the loop is closed; nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=work, name=f"tool {spec.name}", daemon=True).start()
    await ended.wait()
    return ending.outcome()


class _Ending:
    """How a function ended in its thread: what it returned or raised, carried to whoever waits for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._error: BaseException | None = None
        self.value: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._error = error
        return True

    def outcome(self) -> Any:
        if isinstance(self._error, SystemExit | KeyboardInterrupt | StopIteration):
            # The first two would end the server, the third cannot leave a coroutine.
            problem = f"ended by {type(self._error).__name__}; it should return or raise"
            raise ToolFailed(self._name, problem) from self._error
        if self._error is not None:
            raise self._error
        return self.value
