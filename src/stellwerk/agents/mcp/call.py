"""MCP tool call with elicitation: one call, over as many rounds as the server asks questions.

Since revision 2026-07-28 a server returns its questions and is called again with
the answers; older servers ask while the call is open. McpCall hides the
difference: each round returns a result or questions.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import ToolFailed

Elicitations = Mapping[str, types.ElicitRequestParams]

_SINGLE = "asked"
_POLL_INTERVAL = 0.2
"""Seconds before a server that sent neither a result nor questions is called again."""
_CANCEL_TIMEOUT = 2.0
_MAX_ERROR_TEXT = 500
"""Most characters of an error text that are passed on."""

_Reply = types.CallToolResult | types.InputRequiredResult
_REPLY_ADAPTER: TypeAdapter[_Reply] = TypeAdapter(_Reply)


def tool_failed(server: str, tool: str, what: str) -> ToolFailed:
    return ToolFailed(tool, f"of the MCP server {server!r} {what}")


def timed_out(server: str, tool: str, seconds: float) -> ToolFailed:
    return tool_failed(server, tool, f"did not answer within {seconds:g} seconds")


@dataclass(eq=False)
class McpCall:
    server: str
    tool: str
    arguments: dict[str, Any]
    progress: ProgressFnT
    client: Client
    redact: Callable[[str], str]
    timeout: float
    """Seconds for each turn of the server."""
    turn_ends: float
    """The end of the first turn, which includes the time to connect."""
    failed: bool = False
    """The server did not answer, or answered with a protocol error; its session may be gone."""
    _events: asyncio.Queue[asyncio.Task[_Reply] | types.ElicitRequestParams] = field(default_factory=asyncio.Queue)
    _round: asyncio.Task[_Reply] | None = None
    _state: str | None = None
    _open_question: asyncio.Future[types.ElicitResult] | None = None

    async def begin(self) -> types.CallToolResult | Elicitations:
        """Send the call; return its result, or the server's questions."""
        self._send(None)
        return await self._turn()

    async def answer(self, answers: Mapping[str, types.ElicitResult]) -> types.CallToolResult | Elicitations:
        self.turn_ends = asyncio.get_running_loop().time() + self.timeout
        if self._open_question is not None:
            self._reply(answers[_SINGLE])
        else:
            self._send(dict(answers))
        return await self._turn()

    async def elicit(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Handle a question that the server asks while the call is open."""
        answer: asyncio.Future[types.ElicitResult] = asyncio.get_running_loop().create_future()
        self._open_question = answer
        self._events.put_nowait(params)
        return await answer

    async def close(self) -> None:
        """Cancel the open round before its question, so that the server does not see a refusal."""
        if self._round is not None and not self._round.done():
            self._round.cancel()
            await asyncio.wait({self._round}, timeout=_CANCEL_TIMEOUT)
        self._reply(types.ElicitResult(action="cancel"))

    def _reply(self, answer: types.ElicitResult) -> None:
        if self._open_question is not None and not self._open_question.done():
            self._open_question.set_result(answer)
        self._open_question = None

    def _send(self, answers: types.InputResponses | None) -> None:
        self._round = asyncio.create_task(self._request(answers))
        self._round.add_done_callback(self._events.put_nowait)

    async def _request(self, answers: types.InputResponses | None) -> _Reply:
        # Not call_tool of the SDK, which evaluates the regular expressions of the output schema.
        params = types.CallToolRequestParams(
            name=self.tool,
            arguments=self.arguments,
            input_responses=answers,
            request_state=self._state,
        )
        request = types.CallToolRequest(params=params)
        return await self.client.session.send_request(request, _REPLY_ADAPTER, progress_callback=self.progress)

    async def _turn(self) -> types.CallToolResult | Elicitations:
        try:
            async with asyncio.timeout_at(self.turn_ends):
                return await self._outcome()
        except TimeoutError:
            self.failed = True
            raise timed_out(self.server, self.tool, self.timeout) from None
        except MCPError as error:
            self.failed = True
            raise self._error("failed", error.message) from error
        except (RuntimeError, ValueError) as error:  # a result that breaks the protocol
            raise self._error("gave no valid result", str(error)) from error

    async def _outcome(self) -> types.CallToolResult | Elicitations:
        while True:
            event = await self._events.get()
            if not isinstance(event, asyncio.Task):
                return {_SINGLE: event}
            result = event.result()
            if isinstance(result, types.CallToolResult):
                return result
            self._state = result.request_state
            if result.input_requests:
                return self._elicitations(result.input_requests)
            await asyncio.sleep(_POLL_INTERVAL)
            self._send(None)

    def _elicitations(self, requests: Mapping[str, types.InputRequest]) -> Elicitations:
        questions: dict[str, types.ElicitRequestParams] = {}
        for key, request in requests.items():
            if not isinstance(request, types.ElicitRequest):
                problem = "requests sampling or roots, which are not supported"
                raise tool_failed(self.server, self.tool, problem)
            questions[key] = request.params
        return questions

    def _error(self, what: str, text: str) -> ToolFailed:
        reason = self.redact(clean_text(text))[:_MAX_ERROR_TEXT]
        return tool_failed(self.server, self.tool, f"{what}: {reason}")
