"""Values: the state of a graph as LangGraph clients know it, folded from the log.

Messages in LangChain's JSON form, the named states (todos, files, checklist …)
and the graph's own keys. One fold per graph: the outermost one, and each agent
or graph inside; the caller feeds each with its own envelopes. A message keeps the
id of its first tokens, so a client finds the same message in every snapshot.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from stellwerk.envelope.results import Text
from stellwerk.views import checklist
from stellwerk.views.rounds import Rounds, run_starts

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


TASK = "task"
"""The tool by which LangGraph's clients know a sub-agent: with ``description`` and ``subagent_type``."""
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

    def called(self, call: Block) -> Json:
        """Return a tool call as far as it is written; its arguments once they are whole."""
        return {
            "type": "tool_call",
            "id": call.tool_call_id,
            "name": call.name,
            "args": self.arguments(call.tool_call_id) or {},
        }

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
    agents: Collection[str] = ()
    """Names of sub-agents that are called by their own names; their calls are shown as ``task``."""
    recalls: bool = False
    """It is fed without the pieces of messages: their texts come with the whole ones."""
    drafts: dict[str, DraftMessage] = field(default_factory=dict)
    """Open model calls, by call_id."""
    touched: Block | None = None
    """The block that the latest envelope extended."""
    _messages: dict[str, Json] = field(default_factory=dict)
    _keys: Json = field(default_factory=dict)
    _asked: dict[str, p.Asked] = field(default_factory=dict)
    _answers: dict[str, str] = field(default_factory=dict)
    """The id of the tool message, by call; a retried call has that of the first attempt."""
    _runs: dict[str, str] = field(default_factory=dict)
    """The run of every message that is not the user's."""
    _rounds: Rounds = ()
    _unsure: dict[str, set[str]] = field(default_factory=dict)
    """The tool calls of messages that may not be in the graph's state, by message id."""
    _enqueued: dict[str, m.Message] = field(default_factory=dict)
    """Messages that wait for their run, by message id."""
    _with_reasoning: list[str] = field(default_factory=list)
    _without_text: set[str] = field(default_factory=set)
    """Recalled messages whose texts have not come yet."""

    @property
    def interrupts(self) -> list[Json]:
        """Open questions in LangGraph's form, as under ``__interrupt__``."""
        together: dict[str, list[p.Asked]] = {}
        for asked in self._asked.values():
            together.setdefault(asked.interrupt_id or asked.ask_id, []).append(asked)
        return [_interrupt(interrupt_id, asked) for interrupt_id, asked in together.items()]

    def snapshot(self) -> Json:
        """Return the whole state; later envelopes do not change it."""
        derived = {} if "todos" in self._keys else todos_of(self._keys.get("checklist"))
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
            case m.Message(payload=said) if _is_enqueued(envelope):
                self._enqueued[said.message_id] = envelope
            case m.Message(payload=said):
                return self._said(envelope, said)
            case m.State(payload=changed):
                state, _ = after(self._keys.get(changed.name), changed)
                return self._set({changed.name: state})
            case m.Update(payload=updated) if isinstance(updated.delta, dict):
                # A client's change may have messages; a reducer of the graph decides what becomes of them.
                return self._set({key: value for key, value in updated.delta.items() if key != "messages"})
            case m.RunStart(payload=started):
                return self._run_starts(envelope, started)
            case m.AskUser(payload=asked):
                self._asked[asked.ask_id] = asked
                self._called(asked.tool_call_id)
            case m.UserAnswer(payload=answered):
                self._asked.pop(answered.ask_id, None)
            case m.RunEnd(payload=over):
                return self._run_over(over)
        return None

    def _run_starts(self, envelope: m.RunStart, started: p.RunStarted) -> Json | None:
        """A new trace keeps the texts of earlier messages, and not their reasoning."""
        if started.trigger in ("message", "regenerate"):
            for message_id in self._with_reasoning:
                if (message := self._messages.get(message_id)) is not None:
                    self._messages[message_id] = message | {"content": text_of(message["content"])}
            self._with_reasoning.clear()
        change: Json = {"messages": []}
        self._rounds, replaced = run_starts(self._rounds, envelope)
        gone = [mid for mid, run in self._runs.items() if run in replaced.runs] if replaced.runs else []
        change["messages"] += (self._remove([*sorted(replaced.messages), *gone]) or change)["messages"]
        waited = self._enqueued.pop(started.message_id or "", None)
        if waited is not None:
            change["messages"] += (self._said(waited, waited.payload) or {"messages": []})["messages"]
        return change if change["messages"] else None

    def _run_over(self, over: p.RunEnded) -> Json | None:
        """Remove the texts of models that the graph did not put into its state."""
        waits = over.status == "awaiting_user"
        if not waits:
            self._asked.clear()
        left_out = [message_id for message_id, calls in self._unsure.items() if not (waits and calls)]
        for message_id in left_out:
            del self._unsure[message_id]
        if not waits:
            left_out += self._without_text
            self._without_text.clear()
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
            case m.ToolUpdate(payload=update) if call in self.drafts and update.tool_name not in self.agents:
                tool_call_id, name = update.tool_call_id or "", update.tool_name or ""
                self.touched = self.drafts[call].write(tool_call_id, name, update.text or "")
            case m.ToolEnd(payload=result) if call in self._answers:
                return self._put(self._tool_message(call, result), envelope.run_id)
        return None

    def _finished(self, envelope: m.LlmEnd, draft: DraftMessage) -> Json | None:
        ended = envelope.payload
        if ended.status != "ok":
            return None
        calls = [self._wanted(draft, ref.tool_call_id, ref.name, ref.args) for ref in ended.tool_calls or ()]
        if not draft.blocks and not self.recalls:  # it was not streamed, or empty
            return None
        message = {"type": "ai", "id": draft.message_id, "content": draft.content(), "tool_calls": calls}
        if draft.is_draft:
            self._unsure[draft.message_id] = {call["id"] for call in calls}
        self.model_messages[ended.message_id] = {**message, **closing_of(envelope)}
        if not draft.blocks:
            self._without_text.add(draft.message_id)
        if not draft.plain:
            self._with_reasoning.append(draft.message_id)
        return self._put(self.model_messages[ended.message_id], envelope.run_id)

    def _wanted(self, draft: DraftMessage, call_id: str, name: str, args: Json | None) -> Json:
        known = args or draft.arguments(call_id) or {}
        if name in self.agents:
            name, known = TASK, delegated(name, known)
        if ("tool", call_id) not in draft.blocks:
            draft.write(call_id, name, msgspec.json.encode(known).decode())
        return {"type": "tool_call", "id": call_id, "name": name, "args": known}

    def _tool_message(self, call: str, ended: p.ToolEnded) -> Json:
        message = _tool_message(self._answers[call], ended)
        return message | {"name": TASK} if ended.tool_name in self.agents else message

    def _said(self, envelope: m.Message, said: p.Said) -> Json | None:
        streamed = self.model_messages.get(said.message_id)
        message_id = said.message_id if streamed is None else streamed["id"]
        self._unsure.pop(message_id, None)
        if said.action == "removed":
            self._enqueued.pop(message_id, None)
            return self._remove([message_id])
        content = _content(said)
        self._without_text.discard(message_id)
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


def _is_enqueued(envelope: m.Message) -> bool:
    """Whether the message waits for a run; messages from before the session belong to none either."""
    said = envelope.payload
    return envelope.run_id is None and (said.role, said.status, said.action) == ("user", "first", "added")


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


def delegated(agent: str, args: Json) -> Json:
    """Return the arguments of a call of a sub-agent as LangGraph's clients know them."""
    task = args.get("description", args.get("task", ""))
    more = {name: value for name, value in args.items() if name not in ("description", "task")}
    return {"description": task, "subagent_type": agent, **more}


def _interrupt(interrupt_id: str, together: Sequence[p.Asked]) -> Json:
    """Return the interrupt in the graph's own form; for ``ask_user``, as its arguments."""
    asked = together[0]
    value = asked.data
    if asked.kind == "approval":
        value = _review(together)
    elif value is None:
        known = {name: getattr(asked, name) for name in ("question", "options", "default", "schema")}
        value = {name: given for name, given in known.items() if given is not None}
    interrupt = {"id": interrupt_id, "value": value}
    if asked.schema is None or len(together) > 1:
        return interrupt
    return {**interrupt, "response_schema": asked.schema}


def _review(together: Sequence[p.Asked]) -> Any:
    """Return what is to be approved, as LangChain's HITLRequest; Agent Inbox's form stays, as its graph expects it."""
    values = [asked.data for asked in together]
    if all(isinstance(value, list) for value in values):
        return [request for value in values for request in value]
    if any("action_request" in value for value in values if isinstance(value, dict)):
        return values[0]
    requests: list[Json] = []
    configs: list[Json] = []
    for asked in together:
        action = {"name": asked.tool_name or "", "args": asked.args or {}, "description": asked.question}
        config = {"action_name": action["name"], "allowed_decisions": asked.options or []}
        own = asked.data if isinstance(asked.data, dict) else {}
        requests += own.get("action_requests", [action])
        configs += [each for each in own.get("review_configs", [config]) if each not in configs]
    return {"action_requests": requests, "review_configs": configs}


def todos_of(checklist: Any) -> Json:
    """Return a checklist as the to-do list of deep-agents-ui."""
    if not isinstance(checklist, dict):
        return {}
    todos = [
        {"content": task.get("title", ""), "status": _TODO_STATUS.get(str(task.get("status")), "pending")}
        for task in checklist.get("tasks", ())
        if isinstance(task, dict)
    ]
    return {"todos": todos}
