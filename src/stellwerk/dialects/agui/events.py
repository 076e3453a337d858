"""Events of AG-UI: their fields and content.

Absent fields are left out, never null: clients of both protocol versions reject null.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stellwerk.dialects.base import Chunk
from stellwerk.envelope.model import Envelope
from stellwerk.envelope.payloads import Answered, Asked, Filed, FilePart, Said, TextPart, ToolEnded, Usage
from stellwerk.envelope.results import FileRef, Table

CUT_OFF = "It was cut off before it came to an end."


def event(kind: str, cause: Envelope, owner: str | None = None, **fields: Any) -> Chunk:
    """Build an event. ``owner`` is its sub-agent; None for the outermost agent."""
    return _present({"type": kind, "timestamp": round(cause.ts * 1000), "subagentRunId": owner, **fields})


def _present(known: Mapping[str, Any]) -> Chunk:
    return {name: value for name, value in known.items() if value is not None}


def whole_message(said: Said) -> Chunk:
    """Return a whole message; only a user's may have more than text."""
    only_text = said.role != "user" or all(isinstance(part, TextPart) for part in said.content)
    content = text_of(said) if only_text else [_part(part) for part in said.content]
    return {"id": said.message_id, "role": said.role, "content": content}


def text_of(said: Said) -> str:
    return "".join(part.text for part in said.content if isinstance(part, TextPart))


def _part(part: TextPart | FilePart | FileRef) -> Chunk:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kind = part.mime.partition("/")[0]
    return {
        "type": kind if kind in ("image", "audio", "video") else "document",
        "source": {"type": "url", "value": f"/files/{part.document_id}", "mimeType": part.mime},
        "metadata": {"filename": part.filename},
    }


def result_content(ended: ToolEnded, *, only_text: bool) -> str | list[Chunk]:
    """Return the content of a tool message: text, JSON as text, or a file part."""
    result = ended.result
    if ended.error is not None:
        return ended.error.message
    if result is None:
        return CUT_OFF if ended.status == "abandoned" else ""
    if isinstance(result, FileRef) and not only_text:
        return [_part(result)]
    return msgspec.json.encode(result).decode() if isinstance(result, Table) else result.as_text()


def interrupt(asked: Asked, owner: str | None, tool_call_id: str | None) -> Chunk:
    metadata = {
        "options": asked.options,
        "default": asked.default,
        "toolName": asked.tool_name,
        "args": asked.args,
        "kind": asked.kind,
        "data": asked.data,
    }
    known = {
        "id": asked.ask_id,
        "reason": "tool_call" if asked.kind == "approval" else "input_required",
        "message": asked.question,
        "toolCallId": tool_call_id,
        "responseSchema": asked.schema if isinstance(asked.schema, dict) else None,
        "subagentRunId": owner,
        "metadata": _present(metadata),
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
        "url": f"/files/{filed.document_id}" if filed.action == "added" else None,
        "action": filed.action,
    }
    return _present(known)
