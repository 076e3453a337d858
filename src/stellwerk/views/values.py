"""Values: the state of a graph as LangGraph clients know it, folded from the log.

Messages in LangChain's JSON form, the named states (todos, files, checklist …)
and the graph's own keys. One fold per graph: the outermost one, and each agent
or graph inside; the caller feeds each with its own envelopes. A message keeps the
id of its first tokens, so a client finds the same message in every snapshot.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import Text
from stellwerk.views import checklist

Json = dict[str, Any]
_Call = m.LlmStart | m.LlmToken | m.LlmEnd | m.ToolStart | m.ToolUpdate | m.ToolEnd


def after(before: Any, changed: p.StateChanged) -> tuple[Any, list[Json]]:
    """Return a named state after a change, and the operations of RFC 6902 that lead to it.

    A patch adds and removes single keys. A graph may remove a key that is not there, which is left
    out. Values that were returned before never change.
    """
    if changed.patch is None:
        whole = _whole(before, changed)
        return whole, [{"op": "add", "path": "", "value": whole}]
    state = dict(before) if isinstance(before, dict) else {}
    done = []
    for operation in changed.patch:
        key = operation["path"][1:].replace("~1", "/").replace("~0", "~")
        if operation["op"] == "add":
            state[key] = operation["value"]
        elif key in state:
            del state[key]
        else:
            continue
        done.append(operation)
    return state, done


def _whole(before: Any, changed: p.StateChanged) -> Any:
    """Return the snapshot; checklists are merged: each parallel tool has only its own change."""
    if changed.name != checklist.NAME:
        return changed.snapshot
    try:
        known, new = checklist.from_json(before or {}), checklist.from_json(changed.snapshot)
    except msgspec.ValidationError:  # a graph of the operator may use this name for something else
        return changed.snapshot
    return checklist.to_json(checklist.merged(known, new))


_ROLES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_CUT_OFF = "The call was cut off before it ended."
_TODO_STATUS = {"completed": "completed", "skipped": "completed", "in_progress": "in_progress"}


@dataclass
class Block:
    index: int
    kind: Literal["text", "reasoning", "tool"]
    text: str = ""
    """For a tool call, the JSON of its arguments so far."""
    name: str = ""
    tool_call_id: str = ""

    def content(self) -> Json:
        kind = "text" if self.kind == "text" else "reasoning"
        return {"type": kind, kind: self.text, "index": self.index}


@dataclass
class DraftMessage:
    message_id: str
    node: str
    is_draft: bool = False
    """The graph may leave it out of its state."""
    blocks: dict[tuple[str, str], Block] = field(default_factory=dict)
    """In the order of their starts, which is also their index."""

    @property
    def plain(self) -> bool:
        """Only text, which most clients want as a string."""
        return not any(kind == "reasoning" for kind, _ in self.blocks)

    def add(self, token: p.Token) -> Block:
        block = self._block(token.kind, str(token.block))
        block.text += token.text
        return block

    def write(self, tool_call_id: str, name: str, text: str) -> Block:
        block = self._block("tool", tool_call_id)
        block.tool_call_id, block.name = tool_call_id, name
        block.text += text
        return block

    def calls(self) -> list[Block]:
        return [block for block in self.blocks.values() if block.kind == "tool"]

    def arguments(self, tool_call_id: str) -> Json | None:
        """Return the arguments that the model wrote, if they are complete."""
        block = self.blocks.get(("tool", tool_call_id))
        try:
            args = msgspec.json.decode(block.text) if block is not None else None
        except msgspec.DecodeError:
            return None
        return args if isinstance(args, dict) else None

    def content(self) -> str | list[Json]:
        """Return LangChain's form: a string, or blocks if there is reasoning."""
        said = [block for block in self.blocks.values() if block.kind != "tool"]
        if self.plain:
            return "".join(block.text for block in said)
        return [block.content() for block in said]

    def _block(self, kind: Literal["text", "reasoning", "tool"], key: str) -> Block:
        if (kind, key) not in self.blocks:
            self.blocks[kind, key] = Block(len(self.blocks), kind)
        return self.blocks[kind, key]


@dataclass
class Values:
    model_messages: dict[str, Json] = field(default_factory=dict)
    """Messages of completed model calls, by provider ids; shared by all graphs of a session."""
    drafts: dict[str, DraftMessage] = field(default_factory=dict)
    """Open model calls, by call_id."""
    touched: Block | None = None
    """The block that the latest envelope extended."""
    _messages: dict[str, Json] = field(default_factory=dict)
    _keys: Json = field(default_factory=dict)
    _asked: dict[str, Json] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)
    """The id of the tool message, by call; a retried call has that of the first attempt."""
    _runs: dict[str, str] = field(default_factory=dict)
    """The run of every message that is not the user's."""
    _unsure: dict[str, set[str]] = field(default_factory=dict)
    """The tool calls of messages that may not be in the graph's state, by message id."""

    @property
    def interrupts(self) -> list[Json]:
        """Open questions in LangGraph's form, as under ``__interrupt__``."""
        return list(self._asked.values())

    def snapshot(self) -> Json:
        """Return the whole state; later envelopes do not change it."""
        derived = {} if "todos" in self._keys else _todos(self._keys.get("checklist"))
        return {"messages": list(self._messages.values()), **derived, **self._keys}

    def assign(self, message_id: str, task: str) -> None:
        """Put the task of an inner agent at the start of its conversation."""
        self._messages[message_id] = {"type": "human", "id": message_id, "content": task}

    def feed(self, envelope: m.Envelope) -> Json | None:
        """Return the change of the state, as a node would return it; None if there is none."""
        self.touched = None
        match envelope:
            case m.LlmStart() | m.LlmToken() | m.LlmEnd() | m.ToolStart() | m.ToolUpdate() | m.ToolEnd():
                return self._call(envelope)
            case m.Message(payload=said):
                return self._said(envelope, said)
            case m.State(payload=changed):
                state, _ = after(self._keys.get(changed.name), changed)
                return self._set({changed.name: state})
            case m.Update(payload=updated) if isinstance(updated.delta, dict):
                # A client's change may have messages; a reducer of the graph decides what becomes of them.
                return self._set({key: value for key, value in updated.delta.items() if key != "messages"})
            case m.RunStart(payload=started) if started.replaces:
                return self._remove([mid for mid, run in self._runs.items() if run == started.replaces])
            case m.AskUser(payload=asked):
                self._asked[asked.ask_id] = _interrupt(asked)
                self._called(asked.tool_call_id)
            case m.UserAnswer(payload=answered):
                self._asked.pop(answered.ask_id, None)
            case m.RunEnd(payload=over):
                return self._run_over(over)
        return None

    def _run_over(self, over: p.RunEnded) -> Json | None:
        """Remove the texts of models that the graph did not put into its state."""
        waits = over.status == "awaiting_user"
        if not waits:
            self._asked.clear()
        left_out = [message_id for message_id, calls in self._unsure.items() if not (waits and calls)]
        for message_id in left_out:
            del self._unsure[message_id]
        return self._remove(left_out)

    def _called(self, tool_call_id: str | None) -> None:
        """A tool call starts, or is asked about: its message is in the state."""
        for message_id in [each for each, calls in self._unsure.items() if tool_call_id in calls]:
            del self._unsure[message_id]

    def _call(self, envelope: _Call) -> Json | None:
        call = envelope.call_id
        match envelope:
            case m.LlmStart(payload=called):
                self.drafts[call] = DraftMessage(called.message_id, called.node or "model", called.draft)
            case m.LlmToken(payload=token) if call in self.drafts:
                self.touched = self.drafts[call].add(token)
            case m.LlmEnd() if call in self.drafts:
                return self._finished(envelope, self.drafts.pop(call))
            case m.ToolStart(payload=called) if called.kind != "graph":  # graphs have no message
                self._answers[call] = self._answers.get(called.retry_of or "", call)
                self._called(called.tool_call_id)
            case m.ToolUpdate(payload=update) if call in self.drafts:
                tool_call_id, name = update.tool_call_id or "", update.tool_name or ""
                self.touched = self.drafts[call].write(tool_call_id, name, update.text or "")
            case m.ToolEnd(payload=result) if call in self._answers:
                return self._put(_tool_message(self._answers[call], result), envelope.run_id)
        return None

    def _finished(self, envelope: m.LlmEnd, draft: DraftMessage) -> Json | None:
        ended = envelope.payload
        if ended.status != "ok":
            return None
        calls = [self._wanted(draft, ref.tool_call_id, ref.name, ref.args) for ref in ended.tool_calls or ()]
        if not draft.blocks:  # it was not streamed, or empty
            return None
        message = {"type": "ai", "id": draft.message_id, "content": draft.content(), "tool_calls": calls}
        if draft.is_draft:
            self._unsure[draft.message_id] = {call["id"] for call in calls}
        self.model_messages[ended.message_id] = {**message, **closing_of(envelope)}
        return self._put(self.model_messages[ended.message_id], envelope.run_id)

    def _wanted(self, draft: DraftMessage, call_id: str, name: str, args: Json | None) -> Json:
        known = args or draft.arguments(call_id) or {}
        if ("tool", call_id) not in draft.blocks:
            draft.write(call_id, name, msgspec.json.encode(known).decode())
        return {"type": "tool_call", "id": call_id, "name": name, "args": known}

    def _said(self, envelope: m.Message, said: p.Said) -> Json | None:
        streamed = self.model_messages.get(said.message_id)
        message_id = said.message_id if streamed is None else streamed["id"]
        self._unsure.pop(message_id, None)
        if said.action == "removed":
            return self._remove([message_id])
        content = _content(said)
        known = self._messages.get(message_id)
        if known is not None and isinstance(content, str) and text_of(known["content"]) == content:
            return None
        known = known or streamed
        message = dict(known or {"type": _ROLES[said.role], "id": message_id})
        if said.role == "assistant" and known is None:
            message["tool_calls"] = []
            if said.author:
                message["name"] = said.author
        if said.role == "tool":
            message["tool_call_id"] = said.parent_message_id or ""
        return self._put(message | {"content": content}, None if said.role == "user" else envelope.run_id)

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


def closing_of(end: m.LlmEnd) -> Json:
    """Return what the end of a message adds: agent, finish reason and usage."""
    used = end.payload.usage
    closing: Json = {"name": end.agent} if end.agent else {}
    closing["response_metadata"] = {"model_name": used.model} if used else {}
    if end.payload.finish_reason:
        closing["response_metadata"]["finish_reason"] = end.payload.finish_reason
    if used:
        closing["usage_metadata"] = usage_of(used)
    return closing


def usage_of(used: p.Usage) -> dict[str, int]:
    total = used.input_tokens + used.output_tokens
    return {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "total_tokens": total}


def text_of(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _tool_message(message_id: str, ended: p.ToolEnded) -> Json:
    text = "" if ended.status == "ok" else _CUT_OFF
    if ended.result is not None:
        text = ended.result.as_text()
    elif ended.error is not None:
        text = ended.error.message
    message = {
        "type": "tool",
        "id": message_id,
        "name": ended.tool_name,
        "tool_call_id": ended.tool_call_id,
        "content": text,
        "status": "success" if ended.status == "ok" else "error",
    }
    if ended.result is not None and not isinstance(ended.result, Text):
        message["artifact"] = msgspec.to_builtins(ended.result)
    return message


def _content(said: p.Said) -> str | list[Json]:
    if all(isinstance(part, p.TextPart) for part in said.content):
        return "".join(part.text for part in said.content if isinstance(part, p.TextPart))
    return [_part(part) for part in said.content]


def _part(part: p.TextPart | p.FilePart) -> Json:
    if isinstance(part, p.TextPart):
        return {"type": "text", "text": part.text}
    extras = {"filename": part.filename}
    return {"type": "file", "file_id": part.document_id, "mime_type": part.mime, "extras": extras}


def _interrupt(asked: p.Asked) -> Json:
    """Return the interrupt in the graph's own form; for ``ask_user``, as its arguments."""
    value = asked.data
    if value is None:
        known = {name: getattr(asked, name) for name in ("question", "options", "default", "schema")}
        value = {name: given for name, given in known.items() if given is not None}
    interrupt = {"id": asked.ask_id, "value": value}
    return interrupt if asked.schema is None else {**interrupt, "response_schema": asked.schema}


def _todos(checklist: Any) -> Json:
    """Return a checklist as the to-do list of deep-agents-ui."""
    if not isinstance(checklist, dict):
        return {}
    todos = [
        {"content": task.get("title", ""), "status": _TODO_STATUS.get(str(task.get("status")), "pending")}
        for task in checklist.get("tasks", ())
        if isinstance(task, dict)
    ]
    return {"todos": todos}
