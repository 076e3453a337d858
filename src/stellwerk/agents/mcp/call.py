"""MCP tool call with elicitation: one call, over as many rounds as the server asks questions.

Since revision 2026-07-28 a server returns its questions and is called again with
the answers; older servers ask while the call is open. McpCall hides the
difference: each round returns a result or questions.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcp.client import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponses,
)
from pydantic import TypeAdapter

from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import ToolFailed

Elicitations = Mapping[str, ElicitRequestParams]
ElicitationAnswers = Mapping[str, ElicitResult]

_SINGLE = "asked"
_POLL_INTERVAL = 0.2
"""Seconds before a server that sent neither a result nor questions is called again."""
_CANCEL_TIMEOUT = 2.0
_MAX_ERROR_TEXT = 500
"""Most characters of an error text that are passed on."""

T = TypeVar("T")
_Round = asyncio.Task[CallToolResult | InputRequiredResult]
_ROUND_ADAPTER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


@dataclass(eq=False)
class McpCall:
    server: str
    tool: str
    arguments: dict[str, Any]
    progress: ProgressFnT
    timeout: float
    """Seconds for each turn of the server; the first includes the time to connect."""
    redact: Callable[[str], str]
    client: Client = field(init=False)
    failed: bool = False
    """The server did not answer, or answered with a protocol error; its session may be gone."""
    _turn_ends: float = field(init=False)
    _events: asyncio.Queue[_Round | ElicitRequestParams] = field(default_factory=asyncio.Queue)
    _round: _Round | None = None
    _state: str | None = None
    _open_question: asyncio.Future[ElicitResult] | None = None

    async def within_first_turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Do preparatory work, such as connecting, within the time of the server's first turn."""
        self._start_turn()
        try:
            async with asyncio.timeout_at(self._turn_ends):
                return await work
        except TimeoutError:
            raise self._timed_out() from None

    async def begin(self) -> CallToolResult | Elicitations:
        """Send the call; return its result, or the server's questions."""
        self._send(None)
        return await self._turn()

    async def answer(self, answers: ElicitationAnswers) -> CallToolResult | Elicitations:
        self._start_turn()
        if self._open_question is not None:
            self._reply(answers[_SINGLE])
        else:
            self._send(dict(answers))
        return await self._turn()

    async def elicit(self, params: ElicitRequestParams) -> ElicitResult:
        """Handle a question that the server asks while the call is open."""
        answer: asyncio.Future[ElicitResult] = asyncio.get_running_loop().create_future()
        self._open_question = answer
        self._events.put_nowait(params)
        return await answer

    async def close(self) -> None:
        """Cancel the open round first and then its question, so that the server does not see a refusal."""
        if self._round is not None and not self._round.done():
            self._round.cancel()
            await asyncio.wait({self._round}, timeout=_CANCEL_TIMEOUT)
        self._reply(ElicitResult(action="cancel"))

    def _start_turn(self) -> None:
        self._turn_ends = asyncio.get_running_loop().time() + self.timeout

    def _reply(self, answer: ElicitResult) -> None:
        if self._open_question is not None and not self._open_question.done():
            self._open_question.set_result(answer)
        self._open_question = None

    def _send(self, answers: InputResponses | None) -> None:
        self._round = asyncio.create_task(self._request(answers))
        self._round.add_done_callback(self._events.put_nowait)

    async def _request(self, answers: InputResponses | None) -> CallToolResult | InputRequiredResult:
        # Not call_tool of the SDK, which would run the regular expressions of the server's output schema on the result.
        params = CallToolRequestParams(
            name=self.tool, arguments=self.arguments, input_responses=answers, request_state=self._state
        )
        return await self.client.session.send_request(
            CallToolRequest(params=params), _ROUND_ADAPTER, progress_callback=self.progress
        )

    async def _turn(self) -> CallToolResult | Elicitations:
        try:
            async with asyncio.timeout_at(self._turn_ends):
                return await self._outcome()
        except TimeoutError:
            self.failed = True
            raise self._timed_out() from None
        except MCPError as error:
            self.failed = True
            raise self._error(f"failed: {self._safe_text(error.message)}") from error
        except (RuntimeError, ValueError) as error:  # a result that breaks the protocol
            raise self._error(f"gave no valid result: {self._safe_text(str(error))}") from error

    async def _outcome(self) -> CallToolResult | Elicitations:
        while True:
            event = await self._events.get()
            if not isinstance(event, asyncio.Task):
                return {_SINGLE: event}
            result = event.result()
            if isinstance(result, CallToolResult):
                return result
            self._state = result.request_state
            if result.input_requests:
                return self._elicitations(result.input_requests)
            await asyncio.sleep(_POLL_INTERVAL)
            self._send(None)

    def _elicitations(self, requests: Mapping[str, InputRequest]) -> Elicitations:
        questions = {key: request.params for key, request in requests.items() if isinstance(request, ElicitRequest)}
        if len(questions) < len(requests):
            raise self._error("requests sampling or roots, which are not supported")
        return questions

    def _safe_text(self, text: str) -> str:
        return self.redact(clean_text(text))[:_MAX_ERROR_TEXT]

    def _timed_out(self) -> ToolFailed:
        return self._error(f"did not answer within {self.timeout:g} seconds")

    def _error(self, what: str) -> ToolFailed:
        return ToolFailed(self.tool, f"of the MCP server {self.server!r} {what}")
