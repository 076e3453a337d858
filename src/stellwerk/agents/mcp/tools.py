"""MCP tools as LangChain tools: names, effects, progress, results, elicitation, schema checks."""

import asyncio
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from contextvars import copy_context
from typing import Any, Literal, NoReturn

import mcp_types as types
import msgspec
from langchain_core.tools import BaseTool
from langgraph.config import get_stream_writer
from langgraph.types import interrupt

from stellwerk.agents.mcp.call import tool_failed
from stellwerk.agents.mcp.session import McpSession
from stellwerk.agents.tools.call import SaveFiles, content_and_artifact
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.to_json import clean_text, to_result
from stellwerk.errors import ToolFailed
from stellwerk.logs import get_logger
from stellwerk.spec.json_schema import objection

MAX_NAME = 64
MAX_QUESTIONS = 10
"""Rounds of questions in one call."""
UPDATE_INTERVAL = 0.25
"""Seconds between two progress updates of a call; a faster update replaces the pending one."""
MAX_UPDATES = 200
"""Progress updates of a call; the last is reserved for its end."""

_MAX_PROGRESS_TEXT = 500
_MAX_REASON = 500
_MAX_ERROR_TEXT = 2000
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_NODES = 20_000
_MAX_DEPTH = 60

logger = get_logger(__name__)


class McpTool(BaseTool):
    """A tool that runs on an MCP server. Arguments are passed on unchanged."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    session: Any
    tool: str
    """The name of the tool on the server."""
    result_schema: dict[str, Any] | None = None
    """The output schema that the server declares."""
    keep: SaveFiles | None = None

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # Passed as one value: an argument may have any name, even one that LangChain injects.
        return (tool_input, tool_call_id), {}

    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ToolFailed(self.name, "is a tool of an MCP server and only runs in asynchronous code")

    async def _arun(self, arguments: dict[str, Any], tool_call_id: str | None) -> tuple[str, dict[str, Any]]:
        given = await self._call(arguments, tool_call_id)
        if given.is_error:
            raise self._failed(f"says: {error_text(given)}")
        if self.result_schema is not None:
            wrong = objection(self.result_schema, given.structured_content)
            if wrong is not None:
                raise self._failed(f"gave no valid result: {wrong.message[:_MAX_REASON]}")
        try:
            value, files = value_of(given)
        except ValueError as error:
            raise self._failed(f"gave a file that cannot be read: {error}") from error
        result, notes, spilled = to_result(value)
        return await content_and_artifact((result, notes, files + spilled), self.keep)

    async def _call(self, arguments: dict[str, Any], call_id: str | None) -> types.CallToolResult:
        """Call the tool. Its questions interrupt the graph; on resume the call is repeated.

        A question that the server then repeats is answered without asking the user again.
        """
        rounds = 0
        with closing(ProgressReporter(call_id, _stream_writer())) as progress:
            async with self.session.call(self.tool, arguments, progress) as call:
                reply = await call.begin()
                while not isinstance(reply, types.CallToolResult):
                    rounds += 1
                    if rounds > MAX_QUESTIONS:
                        raise self._failed(f"asked more than {MAX_QUESTIONS} times")
                    answers = {key: self._ask(asked, call_id) for key, asked in reply.items()}
                    reply = await call.answer(answers)
                return reply

    def _ask(self, asked: types.ElicitRequestParams, call_id: str | None) -> types.ElicitResult:
        """Interrupt the graph with the question; after the resume, return the user's answer."""
        question: dict[str, Any] = {"type": "mcp_elicitation", "question": asked.message}
        question |= {"server": self.session.name, "name": self.tool, "tool_call_id": call_id}
        if isinstance(asked, types.ElicitRequestURLParams):
            question |= {"question": f"{asked.message} {asked.url}", "url": asked.url}
        else:
            question["schema"] = asked.requested_schema
        try:
            answer = interrupt(question)
        except (RuntimeError, KeyError) as error:
            raise self._failed("asks a question, which only a graph can answer") from error
        return _elicit_result(self.tool, answer, asked)

    def _failed(self, what: str) -> ToolFailed:
        return tool_failed(self.session.name, self.tool, what)


def langchain_tools(session: McpSession, tools: Sequence[types.Tool], keep: SaveFiles | None) -> list[BaseTool]:
    """The server's tools as LangChain tools.

    Tools whose names would collide, and tools with an unusable schema, are left out with a warning.
    """
    names = Counter(tool_name(session.name, tool.name) for tool in tools)
    made: list[BaseTool] = []
    for tool in tools:
        name = tool_name(session.name, tool.name)
        log = logger.bind(server=session.name, tool=tool.name[:200])
        if names[name] > 1:
            log.warning("mcp_name_taken_twice", name=name)
        elif problem := schema_problem(tool.input_schema):
            log.warning("mcp_schema_unusable", problem=problem)
        else:
            about = _effects(tool.annotations or types.ToolAnnotations())
            if not session.server.trusted:
                about["untrusted"] = True
            offered = McpTool(
                name=name,
                description=tool.description or tool.title or "",
                args_schema={"type": "object", "properties": {}} | tool.input_schema,
                metadata={ARTIFACT_KEY: about},
                session=session,
                tool=tool.name,
                result_schema=tool.output_schema,
                keep=keep,
            )
            made.append(offered)
    return made


def tool_name(server: str, tool: str) -> str:
    """``server_tool``, with invalid characters replaced and cut to the longest name."""
    return _NOT_IN_NAMES.sub("_", f"{server}_{tool}")[:MAX_NAME]


def _effects(said: types.ToolAnnotations) -> dict[str, Any]:
    """Effects and idempotency by the server's annotations; a missing one counts as the worst."""
    if said.read_only_hint is True:
        return {"idempotent": True, "effects": "read"}
    effects = "write" if said.destructive_hint is False else "external"
    return {"idempotent": said.idempotent_hint is True, "effects": effects}


def _elicit_result(tool: str, answer: Any, asked: types.ElicitRequestParams) -> types.ElicitResult:
    """Map an answer: an object accepts, ``{"refused": true}`` declines, None cancels."""
    if answer is None:
        return types.ElicitResult(action="cancel")
    if answer == {"refused": True}:
        return types.ElicitResult(action="decline")
    if not isinstance(asked, types.ElicitRequestFormParams):
        return types.ElicitResult(action="accept")
    try:
        return types.ElicitResult(action="accept", content=answer)
    except ValueError as error:
        wanted = ", ".join(asked.requested_schema.get("properties", {}))
        problem = f"needs as its answer an object with plain values for {wanted}"
        raise ToolFailed(tool, problem) from error


def value_of(result: types.CallToolResult) -> tuple[Any, tuple[Blob, ...]]:
    """The structured content if there is any, else the content blocks, with references to files.

    Raises:
        ValueError: the data of a file is not valid base64.
    """
    parts = [_part(block, number) for number, block in enumerate(result.content, 1)]
    files = tuple(part for part in parts if isinstance(part, Blob))
    structured: Any = result.structured_content
    match structured:
        case {"result": str(text), **others} if not others:
            structured = text  # servers wrap what is not an object
    if structured is not None and files:
        structured = {"result": structured, "files": [file.reference() for file in files]}
    if structured is not None:
        return structured, files
    if all(isinstance(part, str) for part in parts):
        return "\n".join(parts), files
    shown = [part.reference() if isinstance(part, Blob) else part for part in parts]
    return (shown[0] if len(shown) == 1 else {"content": shown}), files


def error_text(result: types.CallToolResult) -> str:
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(texts)[:_MAX_ERROR_TEXT] or "an error without a text"


def _part(block: types.ContentBlock, number: int) -> Any:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _file(block.data, block.mime_type, f"{block.type}-{number}")
        case types.ResourceLink():
            return block.model_dump(mode="json", by_alias=True, exclude_none=True)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as file):
            return _file(file.blob, file.mime_type, file.uri.rpartition("/")[2])
        case types.EmbeddedResource():
            return getattr(block.resource, "text", "")


def _file(data: str, mime: str | None, name: str) -> Blob:
    content = b64decode(data, validate=True)
    return make_blob(content, mime=mime or "application/octet-stream", filename=name)


class ProgressReporter:
    """Throttles the progress of a call for the graph's stream. The SDK calls it in another task."""

    def __init__(
        self,
        tool_call_id: str | None,
        write: Callable[[Any], None],
        interval: float = UPDATE_INTERVAL,
    ) -> None:
        self._tool_call_id, self._write, self._interval = tool_call_id, write, interval
        self._context = copy_context()
        self._pending: dict[str, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sent = 0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        said = None if message is None else clean_text(message[:_MAX_PROGRESS_TEXT])
        update = {"progress": progress, "total": total, "message": said}
        update["tool_call_id"] = self._tool_call_id
        self._pending = {name: value for name, value in update.items() if value is not None}
        if self._timer is None:
            self._send()

    def close(self) -> None:
        """Send the pending update when the call is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pending is not None:
            self._context.run(self._write, self._pending)

    def _send(self) -> None:
        self._timer = None
        if self._pending is not None and self._sent < MAX_UPDATES - 1:
            self._context.run(self._write, self._pending)
            self._pending = None
            self._sent += 1
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._send)


def _stream_writer() -> Callable[[Any], None]:
    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):  # called outside of a graph, where there is no stream
        return lambda update: None


def schema_problem(schema: dict[str, Any]) -> str | None:
    """The reason why this schema cannot be given to a model, or None."""
    if len(msgspec.json.encode(schema)) > _MAX_SCHEMA_BYTES:
        return f"has more than {_MAX_SCHEMA_BYTES >> 10} KiB"
    nodes = 0

    def unfold(part: Any, within: tuple[str, ...], depth: int) -> None:
        """As LangChain does: everything but definitions, and no reference within its own target."""
        nonlocal nodes
        if not isinstance(part, dict | list):
            return
        nodes += 1
        if nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise ValueError("refers to itself so often that it has no end")
        if isinstance(part, list):
            part = dict(enumerate(part))
        elif "$ref" in part and part["$ref"] not in within:
            reference = part["$ref"]
            unfold(_target(schema, reference), (*within, reference), depth + 1)
        for key, value in part.items():
            if key not in ("$defs", "$ref"):
                unfold(value, within, depth + 1)

    try:
        unfold(schema, (), 0)
    except ValueError as error:
        return str(error)
    return None


def _target(root: dict[str, Any], reference: Any) -> Any:
    first, *steps = str(reference).split("/")
    if first != "#":
        raise ValueError("refers to another document")
    found: Any = root
    try:
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else found[step]
    except (LookupError, TypeError, ValueError):
        raise ValueError("has a reference without a target") from None
    return found
