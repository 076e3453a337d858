"""Events of AG-UI: their fields and content.

Absent fields are left out, never null: clients of both protocol versions reject null.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import AskUser, Envelope
from stellwerk.envelope.payloads import Answered, Filed, Said, TextPart, ToolEnded, Usage
from stellwerk.envelope.results import FileRef, Table, ToolResult

_REASONS = {"approval": "tool_call", "question": "input_required", "elicitation": "input_required"}
_MEDIA = ("image", "audio", "video")
CUT_OFF = "It was cut off before it came to an end."


def event(kind: str, cause: Envelope, owner: str | None = None, **fields: Any) -> Chunk:
    """Build an event. ``owner`` is its sub-agent; None for the outermost agent."""
    return _present({"type": kind, "timestamp": round(cause.ts * 1000), "subagentRunId": owner, **fields})


def url_of(document_id: str) -> str:
    return f"/files/{document_id}"


def file_part(document_id: str, filename: str, mime: str) -> Chunk:
    kind = mime.partition("/")[0]
    source = {"type": "url", "value": url_of(document_id), "mimeType": mime}
    return {"type": kind if kind in _MEDIA else "document", "source": source, "metadata": {"filename": filename}}


def whole_message(said: Said) -> Chunk:
    """Return a whole message; only a user's may have more than text."""
    parts = [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else file_part(part.document_id, part.filename, part.mime)
        for part in said.content
    ]
    only_text = said.role != "user" or all(isinstance(part, TextPart) for part in said.content)
    return {"id": said.message_id, "role": said.role, "content": text_of(said) if only_text else parts}


def text_of(said: Said) -> str:
    return "".join(part.text for part in said.content if isinstance(part, TextPart))


def result_content(ended: ToolEnded) -> str | list[Chunk]:
    """Return the content of a tool message: text, JSON as text, or a file part."""
    if ended.error is not None:
        return ended.error.message
    if ended.result is not None:
        return _content(ended.result)
    return CUT_OFF if ended.status == "abandoned" else ""


def _content(result: ToolResult) -> str | list[Chunk]:
    if isinstance(result, FileRef):
        return [file_part(result.document_id, result.filename, result.mime)]
    return msgspec.json.encode(result).decode() if isinstance(result, Table) else result.as_text()


def interrupt(ask: AskUser, owner: str | None, tool_call_id: str | None) -> Chunk:
    asked = ask.payload
    more = {"options": asked.options, "default": asked.default, "toolName": asked.tool_name, "args": asked.args}
    known = {
        "id": asked.ask_id,
        "reason": _REASONS[asked.kind],
        "message": asked.question,
        "toolCallId": tool_call_id,
        "responseSchema": asked.schema if isinstance(asked.schema, dict) else None,
        "subagentRunId": owner,
        "metadata": _present(more | {"kind": asked.kind, "data": asked.data}),
    }
    return _present(known)


def resume_entry(answer: Answered) -> Chunk:
    payload = answer.data if answer.data is not None else answer.text
    status = "cancelled" if answer.refused else "resolved"
    return _present({"interruptId": answer.ask_id, "status": status, "payload": payload})


def usage_entries(usage: Iterable[Usage]) -> list[Chunk] | None:
    entries = [
        {
            "model": used.model,
            "inputTokens": used.input_tokens,
            "outputTokens": used.output_tokens,
            "totalTokens": used.input_tokens + used.output_tokens,
        }
        for used in usage
    ]
    return entries or None


def artifact(filed: Filed) -> Chunk:
    known = {
        "documentId": filed.document_id,
        "name": filed.name,
        "mimeType": filed.mime,
        "size": filed.size,
        "url": url_of(filed.document_id) if filed.action == "added" else None,
        "action": filed.action,
    }
    return _present(known)


def _present(known: Mapping[str, Any]) -> Chunk:
    return {name: value for name, value in known.items() if value is not None}
