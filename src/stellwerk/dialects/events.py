"""The dialect ``events``: finished steps ``{type, payload, id, ts, agent_name}`` as NDJSON.

Tool calls of every agent, and the answer of the outermost one in fragments; no
tokens, no markers, no intermediate text. The id is the cursor in the log, with
which a reader may resume.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from stellwerk.dialects.base import Chunk, Dialect, failure_of, form_of, fragments, ndjson
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import ToolEnded
from stellwerk.envelope.results import Text

PREVIEW = 200
"""How many characters of a call's arguments are shown."""

_Payload = dict[str, Any]
_Line = tuple[str, _Payload]


@dataclass
class Events:
    """Translates one session, from the run_start of any trace on."""

    _agent: str = ""
    """The outermost agent, or its system until the agent is known."""
    _named: bool = False
    _graphs: set[str] = field(default_factory=set)
    """Calls that are graphs inside the graph: no model requested them."""
    _failed: bool = False
    """A fatal error of the run was sent."""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        if envelope.agent and envelope.run_id and not self._named:
            self._agent, self._named = envelope.agent, True
        for number, (kind, payload) in enumerate(self._lines(envelope)):
            yield {
                "type": kind,
                "payload": payload,
                "id": f"{position}.{number}",
                "ts": envelope.ts,
                "agent_name": envelope.agent or self._agent,
            }

    def _lines(self, envelope: m.Envelope) -> Iterator[_Line]:
        match envelope:
            case m.ToolStart() | m.ToolEnd():
                yield from self._work(envelope)
            case m.Message() | m.AskUser():
                yield from _words(envelope)
            case m.RunStart() | m.Error() | m.RunEnd():
                yield from self._course(envelope)
            case m.LlmStart() | m.LlmToken() | m.LlmEnd() | m.ToolUpdate():
                pass  # nothing of this is finished
            case m.SubgraphCheckpoint() | m.SubgraphResume() | m.State() | m.Update() | m.Document() | m.Log():
                pass  # inner workings; the results of tools name documents
            case m.UserAnswer() | m.StopRequest() | m.Warning():
                pass  # the reader's own actions, and warnings for the operator
            case _:
                assert_never(envelope)

    def _work(self, envelope: m.ToolStart | m.ToolEnd) -> Iterator[_Line]:
        payload = envelope.payload
        tool = {"toolName": payload.tool_name, "toolCallId": payload.tool_call_id}
        match envelope:
            case m.ToolStart(payload=called) if called.kind == "graph":
                self._graphs.add(envelope.call_id)
            case m.ToolStart(payload=called):
                yield "toolcall_request", {**tool, "argsPreview": _preview(called.args)}
            case m.ToolEnd(payload=ended) if envelope.call_id not in self._graphs:
                yield "toolcall_result", {**tool, **_result(ended)}

    def _course(self, envelope: m.RunStart | m.Error | m.RunEnd) -> Iterator[_Line]:
        match envelope:
            case m.RunStart(payload=started):
                self._failed = False
                if started.trigger != "answer":  # an answer resumes the same trace and agent
                    self._agent, self._named = started.system, False
            case m.Error(payload=problem):
                self._failed = self._failed or problem.fatal
                error = {"code": problem.code, "message": problem.message, "fatal": problem.fatal}
                yield "error", error
            case m.RunEnd(payload=ended) if ended.status == "failed" and not self._failed:
                yield "error", {**failure_of(envelope), "fatal": True}
            case m.RunEnd(payload=ended) if ended.status == "stopped":
                reason = ended.reason or "the run was stopped"
                yield "error", {"code": "stopped", "message": reason, "fatal": True}


def _words(envelope: m.Message | m.AskUser) -> Iterator[_Line]:
    match envelope:
        case m.Message(payload=said) if said.role == "assistant" and said.status == "last" and said.action == "added":
            for fragment in fragments(said.text):
                yield "text_message", {"text": fragment}
            if said.output is not None:
                yield "output", {"data": said.output}
        case m.AskUser(payload=asked):
            form = form_of(asked)
            yield "text_message", {"text": asked.question, "ask_id": asked.ask_id, "question": form}


def _preview(args: _Payload) -> str:
    return msgspec.json.encode(args, order="sorted").decode()[:PREVIEW]


def _result(ended: ToolEnded) -> _Payload:
    """Return text as text, anything else as data; and whether it failed."""
    failed: _Payload = {} if ended.status == "ok" else {"failed": True}
    match ended.result:
        case Text(text=text):
            return {"text": text, **failed}
        case None if ended.error is not None:
            return {"text": ended.error.message, **failed}
        case None:
            return {"text": "" if ended.status == "ok" else f"{ended.tool_name} was cut off", **failed}
        case result:
            return {"data": msgspec.to_builtins(result), **failed}


DIALECT = Dialect("events", "application/x-ndjson", lambda *_: Events(), ndjson, memory="trace")
