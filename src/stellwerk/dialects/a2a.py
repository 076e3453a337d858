"""A2A: a trace as a task, in ProtoJSON: the task itself, then updates of its status and its artifacts.

A message of the outermost agent is an artifact, written while the model writes, and so is each of its
files. Tools, sub-agents and log lines are messages of the status ``working``. A question is the status
``input-required``, which ends a stream; the task goes on with its answer under the same id.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stellwerk.dialects.base import Chunk, failure_of, form_of
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import Asked, FilePart, Said

SUBMITTED, WORKING, INPUT_REQUIRED = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"
COMPLETED, FAILED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED"
CUT_OFF = "cut_off"
OVER = frozenset({COMPLETED, FAILED, CANCELED})
_ENDS = {"completed": COMPLETED, "failed": FAILED, "stopped": CANCELED, "awaiting_user": INPUT_REQUIRED}
_AGENT = "ROLE_AGENT"


@dataclass(slots=True)
class TaskTranslator:
    """Fed from the start of a trace."""

    context_id: str
    files: str = ""
    """The URL of files, to which the id of a document is added."""
    task_id: str = ""
    history: list[Chunk] = field(default_factory=list)
    """What the user said, and what was asked."""
    _run: str = ""
    _outer: dict[str, str] = field(default_factory=dict)
    """Model calls of the outermost agent under way, with their text."""
    _text: str = ""
    """Of the last artifact that a model wrote."""
    _cut_off: list[str] = field(default_factory=list)
    """Artifacts of model calls that failed or were cut off, which are emptied when the model is called again."""
    _asked: list[Asked] = field(default_factory=list)
    _is_input: bool = False
    """What comes at the beginning of a run are the user's files."""

    def feed(self, position: int, envelope: m.Envelope) -> Iterator[Chunk]:
        if not isinstance(envelope, m.RunStart | m.Document):
            self._is_input = False
        match envelope:
            case m.RunStart():
                yield from self._start(envelope)
            case m.Message() | m.UserAnswer():
                self._remember(envelope)
            case m.LlmStart() | m.LlmToken() | m.LlmEnd():
                yield from self._written(envelope)
            case m.ToolStart(payload=called):
                yield self._working(envelope, called.title or called.tool_name)
            case m.Log(payload=logged):
                yield self._working(envelope, logged.message)
            case m.Document(payload=filed) if filed.action == "added" and not self._is_input:
                part = {"url": self.files + filed.document_id, "mediaType": filed.mime, "filename": filed.name}
                yield self._artifact(filed.document_id, part, name=filed.name, last=True)
            case m.AskUser(payload=asked):
                self._asked.append(asked)
            case m.RunEnd():
                yield from self._end(envelope)

    def _remember(self, envelope: m.Message | m.UserAnswer) -> None:
        if isinstance(envelope, m.Message):
            if envelope.payload.role == "user" and envelope.payload.action != "removed":
                self.history.append(self._said(envelope.payload))
            return
        answered = envelope.payload
        text = "refused" if answered.refused else answered.text
        part: Chunk = {"data": answered.data} if text is None else {"text": text}
        self.history.append(self._message(envelope.call_id, "ROLE_USER", [part]))

    def _start(self, start: m.RunStart) -> Iterator[Chunk]:
        self._run, self._asked, self._is_input = start.call_id, [], True
        self._outer.clear()
        if not self.task_id:
            self.task_id = start.trace_id or start.call_id
            yield {
                "task": {
                    "id": self.task_id,
                    "contextId": self.context_id,
                    "status": {"state": SUBMITTED, "timestamp": _time(start.ts)},
                }
            }
        yield self._status(WORKING, start.ts)

    def _written(self, envelope: m.Envelope) -> Iterator[Chunk]:
        call_id = envelope.call_id
        match envelope:
            case m.LlmStart(payload=called) if envelope.parent_id == self._run and not called.draft:
                self._outer[call_id] = ""
                for gone in self._cut_off:
                    yield self._artifact(gone, {"text": ""}, last=True, metadata={"phase": CUT_OFF})
                self._cut_off.clear()
            case m.LlmToken(payload=token) if call_id in self._outer and token.kind == "text" and token.text:
                yield self._artifact(call_id, {"text": token.text}, append=bool(self._outer[call_id]))
                self._outer[call_id] += token.text
            case m.LlmEnd(payload=ended) if self._outer.get(call_id):
                text = self._outer.pop(call_id)
                phase = "commentary" if ended.tool_calls else "answer"
                if ended.status == "ok":
                    self._text = text
                else:
                    phase = CUT_OFF
                    self._cut_off.append(call_id)
                yield self._artifact(call_id, {"text": ""}, append=True, last=True, metadata={"phase": phase})

    def _end(self, end: m.RunEnd) -> Iterator[Chunk]:
        ended = end.payload
        result = ended.result or ""
        if ended.status == "completed" and result.strip() and result.strip() != self._text.strip():
            # The answer of a graph need not be what its models wrote.
            yield self._artifact(f"{self._run}-answer", {"text": result}, last=True, metadata={"phase": "answer"})
        message = None
        if ended.status == "awaiting_user":
            message = self._message(f"{self._run}-ask", _AGENT, [part for asked in self._asked for part in _ask(asked)])
            self.history.append(message)
        elif ended.status == "failed":
            message = self._message(f"{self._run}-end", _AGENT, [{"text": failure_of(end)["message"]}])
        usage = [
            {"model": u.model, "inputTokens": u.input_tokens, "outputTokens": u.output_tokens} for u in ended.usage
        ]
        yield self._status(_ENDS[ended.status], end.ts, message, {"usage": usage} if usage else None)

    def _working(self, envelope: m.Envelope, text: str) -> Chunk:
        return self._status(WORKING, envelope.ts, self._message(envelope.call_id, _AGENT, [{"text": text}]))

    def _status(
        self, state: str, ts: float, message: Chunk | None = None, metadata: dict[str, Any] | None = None
    ) -> Chunk:
        status = {"state": state, "timestamp": _time(ts), **({"message": message} if message else {})}
        place = {"taskId": self.task_id, "contextId": self.context_id}
        return {"statusUpdate": {**place, "status": status, **({"metadata": metadata} if metadata else {})}}

    def _artifact(
        self,
        artifact_id: str,
        part: Chunk,
        *,
        name: str = "answer",
        append: bool = False,
        last: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Chunk:
        artifact: Chunk = {"artifactId": artifact_id, "name": name, "parts": [part]}
        if metadata:
            artifact["metadata"] = metadata
        place = {"taskId": self.task_id, "contextId": self.context_id}
        return {"artifactUpdate": {**place, "artifact": artifact, "append": append, "lastChunk": last}}

    def _message(self, message_id: str, role: str, parts: list[Chunk]) -> Chunk:
        place = {"taskId": self.task_id, "contextId": self.context_id}
        return {"messageId": message_id, "role": role, "parts": parts, **place}

    def _said(self, said: Said) -> Chunk:
        parts: list[Chunk] = [{"text": said.text}] if said.text else []
        for part in said.content:
            if isinstance(part, FilePart):
                url = self.files + part.document_id
                parts.append({"url": url, "mediaType": part.mime, "filename": part.filename})
        return self._message(said.message_id, "ROLE_USER", parts or [{"text": ""}])


@dataclass(slots=True)
class TaskView:
    """The task as it is after some chunks."""

    task: Chunk = field(default_factory=dict)
    _artifacts: dict[str, Chunk] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return str(self.task.get("status", {}).get("state", SUBMITTED))

    def apply(self, chunk: Chunk) -> None:
        if "task" in chunk:
            self.task = dict(chunk["task"])
        elif "statusUpdate" in chunk:
            update = chunk["statusUpdate"]
            self.task["status"] = update["status"]
            self.task["metadata"] = update.get("metadata", self.task.get("metadata", {}))
        elif "artifactUpdate" in chunk:
            self._add(chunk["artifactUpdate"])

    def _add(self, update: Chunk) -> None:
        new = update["artifact"]
        known = self._artifacts.get(new["artifactId"])
        if new.get("metadata") == {"phase": CUT_OFF} and not update["append"]:
            self._artifacts.pop(new["artifactId"], None)
        elif known is None or not update["append"]:
            self._artifacts[new["artifactId"]] = {**new, "parts": [dict(part) for part in new["parts"]]}
        else:
            known["parts"][0]["text"] += new["parts"][0]["text"]
            known.update({name: new[name] for name in ("metadata",) if name in new})
        self.task["artifacts"] = list(self._artifacts.values())


def _ask(asked: Asked) -> list[Chunk]:
    return [{"text": asked.question}, {"data": {"askId": asked.ask_id, **form_of(asked)}}]


def _time(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
