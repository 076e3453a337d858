"""Tools of an MCP server as tools of ours: their names, their hints, their results, their questions."""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Literal, NoReturn

from langchain_core.tools import BaseTool
from langgraph.types import interrupt
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    Tool,
    ToolAnnotations,
)

from stellwerk.agents.mcp_progress import Progress
from stellwerk.agents.mcp_results import error_text, value_of
from stellwerk.agents.mcp_schemas import flaw
from stellwerk.agents.mcp_session import McpSession
from stellwerk.agents.tool_calls import Keep, answer
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.envelope.results import to_result
from stellwerk.errors import ToolFailed
from stellwerk.logs import get_logger
from stellwerk.spec.foreign import objection

LONGEST_NAME = 64
MOST_QUESTIONS = 10
"""Rounds of questions that one call may ask."""

_WORDS = 500
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")

logger = get_logger(__name__)


class McpTool(BaseTool):
    """A tool whose work is done by a server. Its arguments go there as the model gave them."""

    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    session: Any
    tool: str
    """The server's own name for it."""
    promised: dict[str, Any] | None = None
    """The schema of its results."""
    keep: Keep | None = None

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # As one value: an argument may have any name, also those that LangChain fills in by itself.
        return (tool_input, tool_call_id), {}

    def _run(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ToolFailed(self.name, "is a tool of an MCP server and only runs in asynchronous code")

    async def _arun(self, arguments: dict[str, Any], tool_call_id: str | None) -> tuple[str, dict[str, Any]]:
        given = await _called(self.session, self.tool, arguments, tool_call_id)
        if given.is_error:
            raise self._failed(f"says: {error_text(given)}")
        if self.promised is not None and (wrong := objection(self.promised, given.structured_content)):
            raise self._failed(f"gave no valid result: {wrong.message[:_WORDS]}")
        try:
            value, files = value_of(given)
        except ValueError as error:
            raise self._failed(f"gave a file that cannot be read: {error}") from error
        result, notes, spilled = to_result(value)
        return await answer((result, notes, files + spilled), self.keep)

    def _failed(self, what: str) -> ToolFailed:
        return ToolFailed(self.tool, f"of the MCP server {self.session.name!r} {what}")


def offered(session: McpSession, tools: Sequence[Tool], keep: Keep | None) -> list[BaseTool]:
    """The server's tools under our names. A name that two of them would share is given to neither.

    A tool whose arguments no model can be told of is not offered, either.
    """
    names = Counter(name_for(session.name, tool.name) for tool in tools)
    made: list[BaseTool] = []
    for tool in tools:
        name = name_for(session.name, tool.name)
        if names[name] > 1:
            logger.warning("mcp_name_taken_twice", server=session.name, tool=tool.name[:200], name=name)
        elif problem := flaw(tool.input_schema):
            logger.warning("mcp_schema_unusable", server=session.name, tool=tool.name[:200], problem=problem)
        else:
            made.append(_offered(session, name, tool, keep))
    return made


def _offered(session: McpSession, name: str, tool: Tool, keep: Keep | None) -> McpTool:
    return McpTool(
        name=name,
        description=tool.description or tool.title or "",
        args_schema={"type": "object", "properties": {}} | tool.input_schema,
        metadata={ARTIFACT_KEY: _hints(tool.annotations or ToolAnnotations()) | _doubts(session)},
        session=session,
        tool=tool.name,
        promised=tool.output_schema,
        keep=keep,
    )


def name_for(server: str, tool: str) -> str:
    """``server_tool``, without what a name cannot have."""
    return _NOT_IN_NAMES.sub("_", f"{server}_{tool}")[:LONGEST_NAME]


def _hints(said: ToolAnnotations) -> dict[str, Any]:
    """What the server says of a tool; what it leaves unsaid is taken at its worst."""
    reads = said.read_only_hint is True
    changes = "write" if said.destructive_hint is False else "external"
    return {"idempotent": reads or said.idempotent_hint is True, "effects": "read" if reads else changes}


def _doubts(session: McpSession) -> dict[str, Any]:
    return {} if session.server.trusted else {"untrusted": True}


async def _called(
    session: McpSession, tool: str, arguments: dict[str, Any], tool_call_id: str | None
) -> CallToolResult:
    """The tool's result. Its questions interrupt the graph; when it resumes, the call is made again with the answers.

    A server that asks again what it asked before the interrupt gets the answer at once, without the user.
    """
    about = {"server": session.name, "name": tool, "tool_call_id": tool_call_id}
    with closing(Progress(tool_call_id)) as progress:
        async with session.call(tool, arguments, progress) as call:
            reply = await call.begin()
            for _ in range(MOST_QUESTIONS):
                if isinstance(reply, CallToolResult):
                    return reply
                reply = await call.answer({key: _ask(about, asked) for key, asked in reply.items()})
            if isinstance(reply, CallToolResult):
                return reply
    raise ToolFailed(tool, f"of the MCP server {session.name!r} asked more than {MOST_QUESTIONS} times")


def _ask(about: dict[str, Any], asked: ElicitRequestParams) -> ElicitResult:
    """The user's answer; the first time round, the interrupt that asks for it."""
    question = {"type": "mcp_elicitation", "question": asked.message} | about
    if isinstance(asked, ElicitRequestURLParams):
        question |= {"question": f"{asked.message} {asked.url}", "url": asked.url}
    else:
        question |= {"schema": asked.requested_schema}
    try:
        answer = interrupt(question)
    except (RuntimeError, KeyError) as error:
        problem = f"of the MCP server {about['server']!r} asks, and outside of a graph nobody answers"
        raise ToolFailed(about["name"], problem) from error
    return _answered(about["name"], answer, asked)


def _answered(tool: str, answer: Any, asked: ElicitRequestParams) -> ElicitResult:
    """An object is the answer; ``{"refused": true}`` declines, nothing at all cancels."""
    if answer is None:
        return ElicitResult(action="cancel")
    if answer == {"refused": True}:
        return ElicitResult(action="decline")
    if not isinstance(asked, ElicitRequestFormParams):
        return ElicitResult(action="accept")
    try:
        return ElicitResult(action="accept", content=answer)
    except ValueError as error:
        wanted = ", ".join(asked.requested_schema.get("properties", {}))
        raise ToolFailed(tool, f"needs as its answer an object with plain values for {wanted}") from error
