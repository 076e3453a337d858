"""Questions: what a graph that was interrupted wants to know.

Three kinds are known by their form: a question of ``ask_user``, the approval of
a tool call, and what an MCP server wants to be told. Any other value that a
graph interrupts itself with is a question too.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from stellwerk.envelope.canonical import PAYLOAD_DEPTH, canonical
from stellwerk.envelope.payloads import Asked
from stellwerk.envelope.shapes import Blob
from stellwerk.spec.decisions import forms_of
from stellwerk.stream.facts import Interrupted

APPROVAL = "tool_approval"
ELICITATION = "mcp_elicitation"
LONGEST = 2000
"""Characters of data that are shown as text."""
_WORDS = ("question", "message", "prompt", "description", "text")


def asked(ask_id: str, fact: Interrupted) -> tuple[Asked, tuple[Blob, ...]]:
    """The question, in one form for all who ask; and what it refers to because it is too large."""
    safe, form = canonical(fact.value, depth=PAYLOAD_DEPTH), canonical(fact.schema, depth=PAYLOAD_DEPTH)
    value = safe.value
    known = value if isinstance(value, dict) else {}
    schema = known.get("schema") or form.value
    question = Asked(
        ask_id=ask_id,
        question=words_of(value, _WORDS),
        kind=_kind(known),
        schema=schema if isinstance(schema, dict) else None,
        options=_options(known, schema),
        default=known.get("default"),
        tool_call_id=known.get("tool_call_id") if isinstance(known.get("tool_call_id"), str) else None,
        tool_name=known.get("name") if isinstance(known.get("name"), str) else None,
        args=known.get("args"),
        data=None if "question" in known else value,
        sanitized=list(safe.notes) or None,
    )
    return question, safe.blobs + form.blobs


def words_of(value: Any, names: Iterable[str]) -> str:
    """What people read of a value: itself if it is text, the text in it if it has one, else all of it as JSON."""
    if isinstance(value, str):
        return value
    known = value if isinstance(value, dict) else {}
    found = next((known[name] for name in names if known.get(name) and isinstance(known[name], str)), None)
    return found or msgspec.json.encode(value).decode()[:LONGEST]


def _options(known: dict[str, Any], schema: Any) -> list[Any] | None:
    """What there is to choose from; for an approval the decisions that are open to the user."""
    if isinstance(known.get("options"), list):
        return list(known["options"])
    return list(forms_of(schema)) or None if _kind(known) == "approval" else None


def _kind(value: dict[str, Any]) -> Any:
    return {APPROVAL: "approval", ELICITATION: "elicitation"}.get(str(value.get("type")), "question")
