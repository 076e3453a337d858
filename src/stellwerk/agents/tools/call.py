"""Tool calls: validates arguments, runs the function with a timeout, types and stores the result.

A tool runs in the loop, a thread or a process, and knows neither the server nor the model.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel

from stellwerk.agents.tools.process import ConvertedResult, run_in_process
from stellwerk.agents.tools.registry import ARTIFACT_KEY, ToolSpec
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.to_json import to_result
from stellwerk.errors import ToolFailed, ToolTimeout
from stellwerk.threads import counted

SaveFiles = Callable[[ToolResult, Sequence[Blob]], Awaitable[ToolResult]]
"""Stores the files of a result. It runs within the call, before the result is visible."""

ContentAndArtifact = tuple[str, dict[str, Any]]

_GRACE = 3.0
"""Seconds that a timed-out call has to clean up; a process is killed within them."""
_abandoned: set["asyncio.Task[Any]"] = set()
"""Tasks of running calls, including timed-out ones: the loop itself holds only weak references."""


def langchain_tool(spec: ToolSpec, *, keep: SaveFiles | None = None) -> BaseTool:
    """``spec`` as a LangChain tool. Without ``keep`` the bytes of files are lost, with a note."""

    async def call(**arguments: Any) -> ContentAndArtifact:
        injected = {"runtime": arguments.pop("runtime")} if spec.takes_runtime else {}
        checked = spec.arguments.model_validate(arguments)
        converted = await _with_timeout(spec.timeout, spec.name, _run(spec, checked, injected))
        return await content_and_artifact(converted, keep)

    async def call_with_runtime(runtime: ToolRuntime[Any, Any], **arguments: Any) -> ContentAndArtifact:
        return await call(runtime=runtime, **arguments)

    ours = {
        "idempotent": spec.idempotent,
        "effects": spec.effects,
        "timeout": spec.timeout,
        "tool": spec.name,
    }
    return StructuredTool(
        name=spec.name,
        description=spec.description,
        args_schema=spec.input_schema,
        coroutine=call_with_runtime if spec.takes_runtime else call,
        response_format="content_and_artifact",
        metadata={ARTIFACT_KEY: ours | ({"untrusted": True} if spec.untrusted else {})},
    )


async def _run(spec: ToolSpec, checked: BaseModel, injected: dict[str, Any]) -> ConvertedResult:
    if spec.runs_in == "process":
        return await run_in_process(spec, checked.model_dump_json())
    # Read from the instance's dictionary: a parameter may have the name of a method of the model.
    arguments = {name: checked.__dict__[name] for name in type(checked).model_fields} | injected
    if spec.runs_in == "thread":
        return to_result(await _in_thread(spec, arguments))
    try:
        return to_result(await spec.function(**arguments))
    except SystemExit as error:  # it would end the server
        raise ToolFailed(spec.name, "ended by SystemExit; it should return or raise") from error


async def content_and_artifact(converted: ConvertedResult, keep: SaveFiles | None) -> ContentAndArtifact:
    """The text for the model, and the artifact with the typed result; ``keep`` stores files."""
    result, notes, blobs = converted
    if keep is None:
        notes += tuple(f"document {blob.document_id}: its content is not kept" for blob in blobs)
    elif blobs:
        result = await keep(result, blobs)
    # Plain JSON without tuples, because checkpoints store it as well.
    artifact = {ARTIFACT_KEY: 1, "result": msgspec.json.decode(msgspec.json.encode(result))}
    return result.as_text(), artifact | ({"notes": list(notes)} if notes else {})


async def _with_timeout(seconds: float, name: str, work: Coroutine[Any, Any, ConvertedResult]) -> ConvertedResult:
    """Run in a separate task: a function that swallows its cancellation must not block the run."""
    task = asyncio.create_task(work)
    _abandoned.add(task)
    task.add_done_callback(_forget)
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


def _forget(task: "asyncio.Task[Any]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log a late error


async def _in_thread(spec: ToolSpec, arguments: dict[str, Any]) -> Any:
    """Run in a daemon thread: a hanging tool neither fills a pool nor blocks a shutdown."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    outcome: asyncio.Future[Any] = loop.create_future()

    def work() -> None:
        try:
            value = context.run(counted, spec.function, **arguments)
        except (SystemExit, KeyboardInterrupt, StopIteration) as error:
            # The first two would end the server, the third cannot leave a coroutine.
            problem = ToolFailed(spec.name, f"ended by {type(error).__name__}; it should return or raise")
            problem.__cause__ = error
            deliver(outcome.set_exception, problem)
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            deliver(outcome.set_exception, error)
        else:
            deliver(outcome.set_result, value)

    def deliver(settle: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed and no caller waits
            loop.call_soon_threadsafe(lambda: None if outcome.done() else settle(value))

    threading.Thread(target=work, name=f"tool {spec.name}", daemon=True).start()
    return await outcome
