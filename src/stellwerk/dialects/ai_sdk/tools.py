"""Tool calls and questions as tool parts of the message.

All are dynamic: a front end has no types of our tools. A tool that the server executes has
``providerExecuted``, so that the client neither calls it nor waits for its own result. A question is
a call of ``ask_user`` without that, which the client answers with an output. A question that does
not come from such a call of the outermost agent gets a part of its own, whose id is its ask_id.
An approval is an approval request for the part of its call.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.dialects.base import Chunk, form_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Answered, ToolEnded
from stellwerk.envelope.results import FileRef, Json, Text

ASK_USER = "ask_user"
CUT_OFF = "It was cut off before it came to an end."
NEVER = "It did not run."
UNANSWERED = "It was not answered."

_Key = tuple[str, str]
"""A call as its model knows it: the graph around it ("" is the outermost) and its tool_call_id."""


@dataclass
class _Part:
    id: str
    name: str
    input: Any = None
    """As the client has it; None while it is streamed."""
    refused: bool = False
    own: bool = False
    """Made for a question; no tool call of this message belongs to it."""

    @property
    def tag(self) -> Chunk:
        return {"dynamic": True} if self.name == ASK_USER else {"dynamic": True, "providerExecuted": True}

    def available(self, input_: Any, title: str | None = None) -> Chunk:
        self.input = input_
        named = {"toolCallId": self.id, "toolName": self.name, "input": input_, **self.tag}
        return {"type": "tool-input-available", **named, **({"title": title} if title else {})}

    def output(self, output: Any, **more: Any) -> Chunk:
        return {"type": "tool-output-available", "toolCallId": self.id, "output": output, **self.tag, **more}

    def failed(self, text: str) -> Chunk:
        return {"type": "tool-output-error", "toolCallId": self.id, "errorText": text, **self.tag}

    def denied(self) -> Chunk:
        self.refused = True
        return {"type": "tool-output-denied", "toolCallId": self.id}


@dataclass
class ToolParts:
    files: str
    """The URL of documents, without their ids."""
    _open: dict[str, _Part] = field(default_factory=dict)
    """Calls that have started, by call_id."""
    _writing: dict[str, dict[_Key, _Part]] = field(default_factory=dict)
    """Calls whose arguments a model writes, by model call."""
    _announced: dict[_Key, _Part] = field(default_factory=dict)
    """Calls that the client has although they have not started."""
    _asked: dict[str, tuple[_Part, bool]] = field(default_factory=dict)
    """Open questions, and whether each is an approval."""
    _graphs: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)

    @property
    def questions(self) -> dict[str, str]:
        """The ask_id of each open question, by the id of its tool part."""
        return {part.id: ask_id for ask_id, (part, _) in self._asked.items()}

    def id_of(self, call_id: str) -> str | None:
        part = self._open.get(call_id)
        return None if part is None else part.id

    def written(self, update: m.ToolUpdate) -> Iterator[Chunk]:
        said = update.payload
        calls = self._writing.setdefault(update.call_id, {})
        key = self._key(update.parent_id, said.tool_call_id or "")
        part = calls.get(key)
        if part is None:
            part = calls[key] = _Part(self._fresh(key[1], f"{update.call_id}.{key[1]}"), said.tool_name or "")
            yield {"type": "tool-input-start", "toolCallId": part.id, "toolName": part.name, **part.tag}
        yield {"type": "tool-input-delta", "toolCallId": part.id, "inputTextDelta": said.text or ""}

    def wanted(self, end: m.LlmEnd) -> Iterator[Chunk]:
        """End the arguments that a model wrote; only the calls named in its end will start."""
        named = {self._key(end.parent_id, call.tool_call_id): call for call in end.payload.tool_calls or ()}
        for key, part in self._writing.pop(end.call_id, {}).items():
            if key in named:
                self._announced[key] = part
                yield part.available(named[key].args or {})
            else:
                yield part.failed(NEVER)
                yield {"type": "data-retracted", "data": {"toolCallId": part.id}, "transient": True}

    def started(self, start: m.ToolStart) -> Iterator[Chunk]:
        called = start.payload
        if called.kind == "graph":
            self._graphs.add(start.call_id)
            return
        part = self._announced.pop(self._key(start.parent_id, called.tool_call_id), None)
        input_ = called.args or called.input or {}
        if part is None:
            part = _Part(self._fresh(called.tool_call_id, start.call_id), called.tool_name)
            yield part.available(input_, called.title)
        elif part.input != input_ and not part.refused:  # approved with other arguments
            yield part.available(input_, called.title)
        self._open[start.call_id] = part

    def updated(self, update: m.ToolUpdate) -> Iterator[Chunk]:
        part, said = self._open.get(update.call_id), update.payload
        if part is not None:
            yield part.output(said.data if said.text is None else said.text, preliminary=True)

    def ended(self, end: m.ToolEnd) -> Iterator[Chunk]:
        self._graphs.discard(end.call_id)
        part, done = self._open.pop(end.call_id, None), end.payload
        if part is None or part.refused:
            return
        if done.status == "ok":
            yield part.output(output_of(done, self.files))
        else:
            yield part.failed(done.error.message if done.error else CUT_OFF)

    def asked(self, ask: m.AskUser, *, at_root: bool) -> Iterator[Chunk]:
        asked = ask.payload
        if asked.kind == "approval":
            part = self._of_call(ask) if at_root else None
            if part is None:
                yield from self._own(ask, asked.tool_name or "approval", asked.args or {"question": asked.question})
            else:
                self._asked[asked.ask_id] = part, True
                if part.input is None:  # its arguments were not streamed
                    yield part.available(asked.args or {})
            part = self._asked[asked.ask_id][0]
            about = {"reason": asked.question, "approvalDescriptor": form_of(asked)}
            yield {"type": "tool-approval-request", "approvalId": asked.ask_id, "toolCallId": part.id, **about}
        elif (part := self._open.get(ask.parent_id or "")) is not None and part.name == ASK_USER:
            self._asked[asked.ask_id] = part, False
        else:
            yield from self._own(ask, ASK_USER, {"question": asked.question, **form_of(asked)})

    def answered(self, answer: Answered) -> Iterator[Chunk]:
        part, is_approval = self._asked.pop(answer.ask_id, (None, False))
        if part is None:
            return
        given = answer.text if answer.data is None else answer.data
        if is_approval and answer.refused:
            yield part.denied()
        elif part.own and answer.refused:
            yield part.failed(answer.text or "The question was refused.")
        elif part.own:
            yield part.output(given)

    def run_ends(self, end: m.RunEnd) -> Iterator[Chunk]:
        """End what will not go on; the log has ended all calls that had started."""
        if end.payload.status == "awaiting_user":
            return
        for part in self._announced.values():
            if not part.refused:
                yield part.failed(NEVER)
        for part, _ in self._asked.values():
            if part.own:
                yield part.failed(UNANSWERED)
        self._announced.clear()
        self._asked.clear()

    def _own(self, ask: m.AskUser, name: str, input_: Any) -> Iterator[Chunk]:
        asked = ask.payload
        part = _Part(asked.ask_id, name, own=True)
        self._used.add(part.id)
        self._asked[asked.ask_id] = part, asked.kind == "approval"
        yield part.available(input_)

    def _of_call(self, ask: m.AskUser) -> _Part | None:
        """Return the part of the call that needs approval; None if the question names no call."""
        asked = ask.payload
        if (around := self._open.get(ask.parent_id or "")) is not None:
            return around
        if asked.tool_call_id is None or asked.tool_name is None:
            return None
        key = self._key(ask.parent_id, asked.tool_call_id)
        if key not in self._announced:
            self._announced[key] = _Part(self._fresh(asked.tool_call_id, ask.call_id), asked.tool_name)
        return self._announced[key]

    def _fresh(self, tool_call_id: str, call_id: str) -> str:
        """Return the model's id, or ours if the model used it before or the call is repeated."""
        id_ = tool_call_id if tool_call_id and tool_call_id not in self._used else call_id
        self._used.add(id_)
        return id_

    def _key(self, parent_id: str | None, tool_call_id: str) -> _Key:
        return (parent_id if parent_id in self._graphs else "") or "", tool_call_id


def output_of(ended: ToolEnded, files: str) -> Any:
    """Return text as text, JSON as it is, tables and files as objects with a kind."""
    match ended.result:
        case None:
            return ""
        case Text(text=text):
            return text
        case Json(data=data):
            return data
        case FileRef() as file:
            return {**msgspec.to_builtins(file), "url": f"{files}{file.document_id}"}
        case table:
            return msgspec.to_builtins(table)
