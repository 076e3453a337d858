"""One call of one tool of an MCP server, over as many rounds as the server has questions.

A server asks in one of two ways. Since revision 2026-07-28 it answers with its
questions, and is called again with the answers; before that it asks while the
call is open. Here both look the same: a call gives a result, or questions.
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

from stellwerk.envelope.canonical import clean_text
from stellwerk.errors import ToolFailed

Questions = Mapping[str, ElicitRequestParams]
Answers = Mapping[str, ElicitResult]

_DIRECT = "asked"
_PAUSE = 0.2
"""Seconds after which a server is asked again that has sent neither result nor questions."""
_CANCEL = 2.0
_WORDS = 500
"""Characters of an error that are passed on."""

T = TypeVar("T")
_Round = asyncio.Task[CallToolResult | InputRequiredResult]
_ROUND: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


@dataclass(eq=False)
class Call:
    server: str
    tool: str
    arguments: dict[str, Any]
    progress: ProgressFnT
    timeout: float
    """Seconds for each stretch in which it is the server's turn; the first begins before there is a connection."""
    redact: Callable[[str], str]
    client: Client = field(init=False)
    failed: bool = False
    """The server did not answer, or with an error of the protocol; perhaps its session is gone."""
    _spent: float = 0
    _events: asyncio.Queue[_Round | ElicitRequestParams] = field(default_factory=asyncio.Queue)
    _round: _Round | None = None
    _state: str | None = None
    _awaited: asyncio.Future[ElicitResult] | None = None

    async def within_turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what comes first, in the time that the server has for its first turn."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self.timeout):
                return await work
        except TimeoutError:
            raise self._late() from None
        finally:
            self._spent = loop.time() - began

    async def begin(self) -> CallToolResult | Questions:
        """The result, or what the server must know first."""
        self._send(None)
        return await self._turn()

    async def answer(self, answers: Answers) -> CallToolResult | Questions:
        if self._awaited is not None:
            self._reply(answers[_DIRECT])
        else:
            self._send(dict(answers))
        return await self._turn()

    async def asked(self, params: ElicitRequestParams) -> ElicitResult:
        """A question while the call is open."""
        answer: asyncio.Future[ElicitResult] = asyncio.get_running_loop().create_future()
        self._awaited = answer
        self._events.put_nowait(params)
        return await answer

    async def close(self) -> None:
        """Cancel what is open. The call before its question, so that the server is not told of a refusal."""
        if self._round is not None and not self._round.done():
            self._round.cancel()
            await asyncio.wait({self._round}, timeout=_CANCEL)
        self._reply(ElicitResult(action="cancel"))

    def _reply(self, answer: ElicitResult) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(answer)
        self._awaited = None

    def _send(self, answers: InputResponses | None) -> None:
        self._round = asyncio.create_task(self._request(answers))
        self._round.add_done_callback(self._events.put_nowait)

    async def _request(self, answers: InputResponses | None) -> CallToolResult | InputRequiredResult:
        # Not by its own call_tool, which would try the expressions of the server's output schema on the result.
        params = CallToolRequestParams(
            name=self.tool, arguments=self.arguments, input_responses=answers, request_state=self._state
        )
        return await self.client.session.send_request(
            CallToolRequest(params=params), _ROUND, progress_callback=self.progress
        )

    async def _turn(self) -> CallToolResult | Questions:
        try:
            async with asyncio.timeout(self.timeout - self._spent):
                return await self._outcome()
        except TimeoutError:
            self.failed = True
            raise self._late() from None
        except MCPError as error:
            self.failed = True
            raise self._error(f"failed: {self._words(error.message)}") from error
        except (RuntimeError, ValueError) as error:  # a result that breaks the protocol
            raise self._error(f"gave no valid result: {self._words(str(error))}") from error
        finally:
            self._spent = 0

    async def _outcome(self) -> CallToolResult | Questions:
        while True:
            event = await self._events.get()
            if not isinstance(event, asyncio.Task):
                return {_DIRECT: event}
            result = event.result()
            if isinstance(result, CallToolResult):
                return result
            self._state = result.request_state
            if result.input_requests:
                return self._questions(result.input_requests)
            await asyncio.sleep(_PAUSE)
            self._send(None)

    def _questions(self, requests: Mapping[str, InputRequest]) -> Questions:
        questions = {key: request.params for key, request in requests.items() if isinstance(request, ElicitRequest)}
        if len(questions) < len(requests):
            raise self._error("wants a model or folders of ours, which no server gets")
        return questions

    def _words(self, text: str) -> str:
        return self.redact(clean_text(text))[:_WORDS]

    def _late(self) -> ToolFailed:
        return self._error(f"did not answer within {self.timeout:g} seconds")

    def _error(self, what: str) -> ToolFailed:
        return ToolFailed(self.tool, f"of the MCP server {self.server!r} {what}")
