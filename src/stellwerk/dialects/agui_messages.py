"""The messages that an AG-UI client has, as it builds them from the events.

The protocol cannot take one message back. What it has is MESSAGES_SNAPSHOT, the
whole list: a client drops every message that is not in it. Activities and
reasoning are left out, which tells a client to keep its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stellwerk.dialects.base import Chunk


@dataclass
class _Message:
    run_id: str
    fields: Chunk
    text: list[str] = field(default_factory=list)
    calls: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """Name and arguments of the tool calls in it, by toolCallId."""
    results: list[Chunk] = field(default_factory=list)
    """Tool messages; they stand behind the message that asked for them."""

    def whole(self) -> Iterator[Chunk]:
        content = {"content": "".join(self.text)} if self.text else {}
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": "".join(args)}}
            for id_, (name, args) in self.calls.items()
        ]
        yield {**self.fields, **content, **({"toolCalls": calls} if calls else {})}
        yield from self.results


@dataclass
class Transcript:
    _messages: dict[str, _Message] = field(default_factory=dict)
    _holders: dict[str, _Message] = field(default_factory=dict)
    """The message that each tool call stands in."""
    _run_id: str = ""

    def take(self, chunk: Chunk) -> None:
        """Follow an event, as the client does."""
        match chunk["type"]:
            case "RUN_STARTED":
                self._run_id = chunk["runId"]
                for message in chunk.get("input", {}).get("messages", []):
                    self._add(message)
            case "TEXT_MESSAGE_START":
                self._add({"id": chunk["messageId"], "role": chunk["role"], **_tag(chunk)})
            case "TEXT_MESSAGE_CONTENT":
                self._messages[chunk["messageId"]].text.append(chunk["delta"])
            case "TOOL_CALL_START":
                self._call(chunk)
            case "TOOL_CALL_ARGS":
                call = chunk["toolCallId"]
                self._holders[call].calls[call][1].append(chunk["delta"])
            case "TOOL_CALL_RESULT":
                self._result(chunk)

    def drop(self, message_id: str) -> bool:
        """Forget a message, with the results of the calls in it; False if there is none."""
        return self._messages.pop(message_id, None) is not None

    def drop_answer(self, run_id: str) -> bool:
        """Forget all that a run said; the user's message stays."""
        said = [k for k, m in self._messages.items() if m.run_id == run_id and m.fields["role"] != "user"]
        for message_id in said:
            self.drop(message_id)
        return bool(said)

    def snapshot(self) -> list[Chunk]:
        return [whole for message in self._messages.values() for whole in message.whole()]

    def _add(self, fields: Chunk) -> _Message:
        return self._messages.setdefault(fields["id"], _Message(self._run_id, fields))

    def _call(self, start: Chunk) -> None:
        call = start["toolCallId"]
        holder = self._add({"id": start.get("parentMessageId", call), "role": "assistant", **_tag(start)})
        holder.calls[call] = (start["toolCallName"], [])
        self._holders[call] = holder

    def _result(self, result: Chunk) -> None:
        call, content = result["toolCallId"], result["content"]
        message = {"id": result["messageId"], "role": "tool", "toolCallId": call, "content": content, **_tag(result)}
        if (holder := self._holders.get(call)) is not None:
            holder.results.append(message)
        else:
            self._add(message)


def _tag(chunk: Chunk) -> dict[str, Any]:
    return {"subagentRunId": chunk["subagentRunId"]} if "subagentRunId" in chunk else {}
