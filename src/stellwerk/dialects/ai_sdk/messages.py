"""Messages of the AI SDK (``UIMessage``), folded from the log: what a client has that saw every stream.

Made with the chunks that a client reads, so both agree. Only here is left out what does not count any more:
replaced rounds, removed messages, and texts of model calls that failed or that a graph left out of its state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.ai_sdk.stream import AiSdkTranslator, UIStreamOptions
from stellwerk.dialects.ai_sdk.texts import message_of
from stellwerk.dialects.base import Chunk
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p

_TOOL_STATES = {
    "tool-input-start": "input-streaming",
    "tool-input-available": "input-available",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
    "tool-output-denied": "output-denied",
}
_TOOL_FIELDS = ("input", "output", "errorText", "preliminary", "providerExecuted", "title")


@dataclass
class Answer:
    """A message of the assistant, built as the client's reader builds it."""

    id: str | None
    metadata: Chunk = field(default_factory=dict)
    parts: list[Chunk] = field(default_factory=list)
    _texts: dict[str, Chunk] = field(default_factory=dict)
    """Text and reasoning, by part id."""
    _said: dict[str, list[str]] = field(default_factory=dict)
    """The text of open ones."""
    _tools: dict[str, Chunk] = field(default_factory=dict)
    _data: dict[tuple[str, str], Chunk] = field(default_factory=dict)

    def take(self, chunk: Chunk) -> None:
        kind = chunk["type"]
        if kind.endswith("-delta") and chunk.get("id") in self._texts:
            self._said[chunk["id"]].append(chunk["delta"])
        elif kind in _TOOL_STATES or kind == "tool-approval-request":
            self._tool(kind, chunk)
        elif kind.startswith("data-"):
            self._data_part(chunk)
        else:
            self._frame(kind, chunk)

    def retract(self, message_id: str) -> None:
        """Drop the text of a model call."""
        for id_ in [id_ for id_ in self._texts if message_of(id_) == message_id]:
            gone = self._texts.pop(id_)
            self._said.pop(id_, None)
            self.parts = [part for part in self.parts if part is not gone]

    def as_message(self) -> Chunk:
        for id_, said in self._said.items():
            self._texts[id_]["text"] = "".join(said)
        message: Chunk = {"id": self.id, "role": "assistant", "parts": self.parts}
        return {**message, "metadata": self.metadata} if self.metadata else message

    def _frame(self, kind: str, chunk: Chunk) -> None:
        """Take what begins or ends something, or is a part of its own."""
        self.metadata |= chunk.get("messageMetadata", {})
        match kind:
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "text-start" | "reasoning-start":
                kind = kind.removesuffix("-start")
                part: Chunk = {"type": kind, "text": "", "state": "streaming"}
                if kind == "reasoning":
                    part["id"] = chunk["id"]
                self._texts[chunk["id"]], self._said[chunk["id"]] = part, []
                self.parts.append(part)
            case "text-end" | "reasoning-end":
                ended = self._texts[chunk["id"]]
                ended["text"], ended["state"] = "".join(self._said.pop(chunk["id"])), "done"
                if "providerMetadata" in chunk:
                    ended["providerMetadata"] = chunk["providerMetadata"]
            case "file":
                self.parts.append(dict(chunk))

    def _tool(self, kind: str, chunk: Chunk) -> None:
        part = self._tools.get(chunk["toolCallId"])
        if part is None:
            part = {"type": "dynamic-tool", "toolName": chunk["toolName"], "toolCallId": chunk["toolCallId"]}
            self._tools[chunk["toolCallId"]] = part
            self.parts.append(part)
        if kind == "tool-approval-request":
            part["state"] = "approval-requested"
            approval = {"id": chunk["approvalId"], "requestReason": chunk["reason"]}
            part["approval"] = {**approval, "descriptor": chunk["approvalDescriptor"]}
            return
        part["state"] = _TOOL_STATES[kind]
        if kind != "tool-output-denied":
            kept = ("input", "providerExecuted", "title") if kind.startswith("tool-output") else ("providerExecuted",)
            for name in _TOOL_FIELDS:
                if name in chunk:
                    part[name] = chunk[name]
                elif name not in kept:
                    part.pop(name, None)

    def _data_part(self, chunk: Chunk) -> None:
        if chunk["type"] == "data-retracted":
            self.retract(chunk["data"].get("messageId", ""))
            gone = self._tools.pop(chunk["data"].get("toolCallId", ""), None)
            self.parts = [part for part in self.parts if part is not gone]
        if chunk.get("transient"):
            return
        known = self._data.setdefault((chunk["type"], chunk["id"]), chunk)
        if known is chunk:
            self.parts.append(known)
        known["data"] = chunk["data"]


@dataclass
class _Round:
    """What a user said, and the trace that answers it; either may be missing."""

    said: list[Chunk] = field(default_factory=list)
    answer: Answer | None = None
    runs: set[str] = field(default_factory=set)


@dataclass
class UIMessages:
    """The messages of a session, from its start."""

    options: UIStreamOptions = field(default_factory=UIStreamOptions)
    _rounds: list[_Round] = field(default_factory=list)
    _waiting: dict[str, Chunk] = field(default_factory=dict)
    """Messages that no run has started with yet."""
    _translator: AiSdkTranslator = field(init=False)

    def __post_init__(self) -> None:
        self._translator = AiSdkTranslator(self.options)

    @property
    def questions(self) -> dict[str, str]:
        """The ask_id of each open question, by the id of its tool part."""
        message = self._translator.message
        return {} if message is None else message.tools.questions

    def feed(self, position: int, envelope: m.Envelope) -> None:
        if isinstance(envelope, m.RunStart):
            self._run_starts(envelope)
        elif isinstance(envelope, m.Message):
            self._said(envelope)
        for chunk in self._translator.feed(position, envelope):
            answer = self._rounds[-1].answer
            if answer is not None:
                answer.take(chunk)

    def messages(self) -> list[Chunk]:
        return [*self._known(), *self._waiting.values()]

    def _known(self) -> Iterator[Chunk]:
        for round_ in self._rounds:
            yield from round_.said
            if round_.answer is not None:
                yield round_.answer.as_message()

    def _run_starts(self, start: m.RunStart) -> None:
        started = start.payload
        kept = self._replaced(started) if started.replaces is not None else []
        last = self._rounds[-1] if self._rounds else None
        if last is None or last.answer is None or last.answer.id != start.trace_id:
            last = _Round(kept, Answer(start.trace_id))
            self._rounds.append(last)
        last.runs.add(start.call_id)
        if started.message_id in self._waiting:
            last.said.append(self._waiting.pop(started.message_id))

    def _replaced(self, started: p.RunStarted) -> list[Chunk]:
        """Drop a round and all later ones; return its message if the new round answers it again."""
        places = [place for place, round_ in enumerate(self._rounds) if started.replaces in round_.runs]
        if not places:
            return []
        gone = self._rounds[places[-1] :]
        del self._rounds[places[-1] :]
        return [each for round_ in gone for each in round_.said if each["id"] == started.message_id]

    def _said(self, message: m.Message) -> None:
        said = message.payload
        if said.action == "removed":
            self._remove(said.message_id)
        elif message.run_id is None and said.status == "first":
            self._waiting[said.message_id] = self._whole(said)
        elif message.run_id is None and said.role != "tool":  # from before the session
            self._rounds.append(_Round([self._whole(said)]))
        elif said.role == "user":
            self._rounds[-1].said.append(self._whole(said))

    def _remove(self, message_id: str) -> None:
        self._waiting.pop(message_id, None)
        for round_ in self._rounds:
            round_.said = [each for each in round_.said if each["id"] != message_id]
            if round_.answer is not None:
                round_.answer.retract(message_id)

    def _whole(self, said: p.Said) -> Chunk:
        parts: list[Chunk] = []
        for part in said.content:
            if isinstance(part, p.TextPart):
                parts.append({"type": "text", "text": part.text})
            else:
                url = f"{self.options.files}{part.document_id}"
                parts.append({"type": "file", "mediaType": part.mime, "filename": part.filename, "url": url})
        data: Any = said.input if said.output is None else said.output
        if data is not None:
            parts.append({"type": "data-input" if said.role == "user" else "data-output", "data": data})
        return {"id": said.message_id, "role": said.role, "parts": parts}
