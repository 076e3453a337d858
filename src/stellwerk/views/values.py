"""Values: the state of a graph as its LangGraph clients know it, folded from the log.

Messages in LangChain's JSON form, the named states (todos, files, checklist …)
and the graph's own keys. One fold for the outermost graph of a session, and one
for each agent or graph inside it; whoever feeds it decides what belongs to which.
A message keeps the id under which its first words were told, so that a client
which saw them finds the same message in every snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stellwerk.envelope.model import (
    AskUser,
    Envelope,
    LlmEnd,
    LlmStart,
    LlmToken,
    Message,
    RunEnd,
    RunStart,
    State,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    Update,
    UserAnswer,
)
from stellwerk.envelope.payloads import Asked, FilePart, ModelEnded, Said, TextPart, ToolCalled, ToolEnded
from stellwerk.envelope.results import Text
from stellwerk.views import states
from stellwerk.views.speech import Block, Json, Speech

_ROLES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_CUT_OFF = "The call was cut off before it ended."
_TODO_STATUS = {"completed": "completed", "skipped": "completed", "in_progress": "in_progress"}


@dataclass
class Values:
    spoken: dict[str, Json] = field(default_factory=dict)
    """Messages of model calls that ended well, by the ids that providers gave them; one for all graphs of a session."""
    speaking: dict[str, Speech] = field(default_factory=dict)
    """Model calls that are open, by call."""
    touched: Block | None = None
    """The block of a message that the latest envelope went on with."""
    _messages: dict[str, Json] = field(default_factory=dict)
    """By id, in order."""
    _keys: Json = field(default_factory=dict)
    _asked: dict[str, Json] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)
    """The id of the message that answers a tool call, by call; a call that is tried again has that of the first try."""
    _begun: dict[str, ToolCalled] = field(default_factory=dict)
    """Tool calls that are open."""
    _argless: dict[str, str] = field(default_factory=dict)
    """Tool calls whose arguments are not known yet, and the messages that ask for them."""
    _runs: dict[str, str] = field(default_factory=dict)
    """The run of every message that no user wrote."""

    @property
    def interrupts(self) -> list[Json]:
        """Questions that wait for an answer, as LangGraph puts them under ``__interrupt__``."""
        return list(self._asked.values())

    def snapshot(self) -> Json:
        """The whole state. Later envelopes change none of what was given out."""
        derived = {} if "todos" in self._keys else _todos(self._keys.get("checklist"))
        return {"messages": list(self._messages.values()), **derived, **self._keys}

    def assign(self, message_id: str, task: str) -> None:
        """Put the task of an inner agent where its conversation begins."""
        self._messages[message_id] = {"type": "human", "id": message_id, "content": task}

    def feed(self, envelope: Envelope) -> Json | None:
        """What the envelope changes in the state, as a node would return it; None if nothing."""
        self.touched = None
        match envelope:
            case LlmStart() | LlmToken() | LlmEnd() | ToolStart() | ToolUpdate() | ToolEnd():
                return self._call(envelope)
            case Message(payload=said):
                return self._said(envelope, said)
            case State(payload=changed):
                state, _ = states.after(self._keys.get(changed.name), changed)
                return self._set({changed.name: state})
            case Update(payload=updated) if isinstance(updated.delta, dict):
                return self._set(updated.delta)
            case RunStart(payload=started) if started.replaces:
                return self._remove([mid for mid, run in self._runs.items() if run == started.replaces])
            case AskUser(payload=asked):
                self._asked[asked.ask_id] = _interrupt(asked)
            case UserAnswer(payload=answered):
                self._asked.pop(answered.ask_id, None)
            case RunEnd(payload=over) if over.status != "awaiting_user":
                self._asked.clear()
        return None

    def _call(self, envelope: LlmStart | LlmToken | LlmEnd | ToolStart | ToolUpdate | ToolEnd) -> Json | None:
        call = envelope.call_id
        match envelope:
            case LlmStart(payload=called):
                self.speaking[call] = Speech(called.message_id, called.node or "model")
            case LlmToken(payload=token) if call in self.speaking:
                self.touched = self.speaking[call].add(token)
            case LlmEnd() if call in self.speaking:
                return self._spoken(envelope, self.speaking.pop(call))
            case ToolStart():
                return self._called(envelope)
            case ToolUpdate(payload=update) if call in self.speaking:
                written = (update.tool_call_id or "", update.tool_name or "", update.text or "")
                self.touched = self.speaking[call].write(*written)
            case ToolEnd(payload=result) if self._begun.pop(call, None) is not None:
                return self._put(_tool_message(self._answers[call], result), envelope.run_id)
        return None

    def _spoken(self, envelope: LlmEnd, speech: Speech) -> Json | None:
        ended = envelope.payload
        if ended.status != "ok":
            return None
        calls = [self._wanted(speech, ref.tool_call_id, ref.name, ref.args) for ref in ended.tool_calls or ()]
        if not speech.blocks:  # nobody was to hear it, or it said nothing
            return None
        told = {"type": "ai", "id": speech.message_id, "content": speech.content(), "tool_calls": calls}
        self.spoken[ended.message_id] = {**told, **closing_of(envelope)}
        return self._put(self.spoken[ended.message_id], envelope.run_id)

    def _wanted(self, speech: Speech, call_id: str, name: str, args: Json | None) -> Json:
        if args is None:
            args = speech.arguments(call_id)
        if args is None:
            self._argless[call_id] = speech.message_id
        if not speech.has(call_id):
            speech.write(call_id, name, "" if args is None else msgspec.json.encode(args).decode())
        return {"type": "tool_call", "id": call_id, "name": name, "args": args or {}}

    def _called(self, start: ToolStart) -> Json | None:
        called = start.payload
        if called.kind == "graph":  # no model asked for it, and nobody answers it
            return None
        self._begun[start.call_id] = called
        self._answers[start.call_id] = self._answers.get(called.retry_of or "", start.call_id)
        message = self._messages.get(self._argless.pop(called.tool_call_id, ""))
        if message is None:
            return None
        calls = [c | {"args": called.args} if c["id"] == called.tool_call_id else c for c in message["tool_calls"]]
        return self._put(message | {"tool_calls": calls}, start.run_id)

    def _said(self, envelope: Message, said: Said) -> Json | None:
        spoken, content = self.spoken.get(said.message_id), _content(said)
        message_id = said.message_id if spoken is None else spoken["id"]
        if said.action == "removed":
            return self._remove([message_id])
        known = self._messages.get(message_id)
        if known is not None and text_of(known["content"]) == text_of(content):
            return None
        known = known or spoken
        told = known or {"type": _ROLES[said.role], "id": message_id}
        if said.role == "assistant" and known is None:
            told |= {"tool_calls": []} | ({"name": said.author} if said.author else {})
        if said.role == "tool":
            told |= {"tool_call_id": said.parent_message_id or ""}
        return self._put(told | {"content": content}, None if said.role == "user" else envelope.run_id)

    def _set(self, news: Json) -> Json | None:
        self._keys |= news
        return news or None

    def _put(self, message: Json, run_id: str | None) -> Json:
        self._messages[message["id"]] = message
        if run_id is not None:
            self._runs[message["id"]] = run_id
        return {"messages": [message]}

    def _remove(self, ids: Iterable[str]) -> Json | None:
        gone = [mid for mid in ids if self._messages.pop(mid, None) is not None]
        return {"messages": [{"type": "remove", "id": mid, "content": ""} for mid in gone]} if gone else None


def closing_of(end: LlmEnd) -> Json:
    """What is known of a message once it is whole: who said it, why it ended, what it took."""
    used, reason = end.payload.usage, end.payload.finish_reason
    about = ({"model_name": used.model} if used else {}) | ({"finish_reason": reason} if reason else {})
    return {
        **({"name": end.agent} if end.agent else {}),
        "response_metadata": about,
        **({"usage_metadata": usage_of(end.payload)} if used else {}),
    }


def usage_of(ended: ModelEnded) -> dict[str, int]:
    used = ended.usage
    if used is None:
        return {}
    total = used.input_tokens + used.output_tokens
    return {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "total_tokens": total}


def text_of(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _tool_message(message_id: str, ended: ToolEnded) -> Json:
    result, error = ended.result, ended.error
    text = result.as_text() if result is not None else error.message if error is not None else None
    told = {
        "type": "tool",
        "id": message_id,
        "name": ended.tool_name,
        "tool_call_id": ended.tool_call_id,
        "content": text if text is not None else "" if ended.status == "ok" else _CUT_OFF,
        "status": "success" if ended.status == "ok" else "error",
    }
    typed = result is not None and not isinstance(result, Text)
    return {**told, "artifact": msgspec.to_builtins(result)} if typed else told


def _content(said: Said) -> str | list[Json]:
    if all(isinstance(part, TextPart) for part in said.content):
        return "".join(part.text for part in said.content if isinstance(part, TextPart))
    return [_file(part) if isinstance(part, FilePart) else {"type": "text", "text": part.text} for part in said.content]


def _file(part: FilePart) -> Json:
    named = {"extras": {"filename": part.filename}}
    return {"type": "file", "file_id": part.document_id, "mime_type": part.mime, **named}


def _interrupt(asked: Asked) -> Json:
    """What the graph asked, in its own form; a question of ours in the form in which it was asked."""
    known = {"question": asked.question, "options": asked.options, "default": asked.default, "schema": asked.schema}
    ours = {name: value for name, value in known.items() if value is not None}
    value = {"id": asked.ask_id, "value": ours if asked.data is None else asked.data}
    return value if asked.schema is None else {**value, "response_schema": asked.schema}


def _todos(checklist: Any) -> Json:
    """A checklist as the to-do list that deep-agents-ui shows."""
    if not isinstance(checklist, dict):
        return {}
    tasks = [task for task in checklist.get("tasks", ()) if isinstance(task, dict)]
    status = [_TODO_STATUS.get(str(task.get("status")), "pending") for task in tasks]
    return {"todos": [{"content": t.get("title", ""), "status": s} for t, s in zip(tasks, status, strict=True)]}
