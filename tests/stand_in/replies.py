"""What the stand-in answers: a function of the prompt alone, whichever vendor's wire it came over.

By default a model calls the first tool that it was offered, once per message of the user, and then says a text.
Marks in a user's text or a system prompt choose otherwise: `[[search]]` calls the tool search, `[[task+task]]` calls
task twice in parallel, `[[kind=respond]]` gives the field kind that value, and `[[say]]` calls nothing.
"""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.openai_server import Reply

Schema = dict[str, Any]

_MARK = re.compile(r"\[\[([\w.+ -]+?)(?:=([^\]]*))?\]\]")
_LAST = re.compile(r"done|complete|finish|final|end", re.IGNORECASE)
"""Tools that end the work are called when all others have been."""
_NO = re.compile(r"^(need|should_ask|ask|follow|is_missing|error)", re.IGNORECASE)
"""Fields whose yes would make a graph go round again."""
_FILLER = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_ids = count()


@dataclass(frozen=True)
class Prompt:
    """A request in the words of OpenAI's chat completions; the other vendors are translated into it."""

    messages: list[dict[str, Any]]
    tools: dict[str, Schema] = field(default_factory=dict)
    choice: str = "auto"
    """auto, any, none, or the name of a tool."""
    schema: Schema | None = None
    """What the answer must be an instance of."""
    stream: bool = False
    model: str = "stand-in"


def reply_to(prompt: Prompt) -> Reply:
    if prompt.schema is not None:
        return Reply(say=json.dumps(example(prompt.schema, values(prompt))))
    if names := tools_to_call(prompt):
        calls = tuple((name, example(prompt.tools[name], values(prompt), name)) for name in names)
        return Reply(calls=calls, first_id=next(_ids) * 10)
    excerpt = " ".join(last_said(prompt).split()[:6])
    return Reply(say=f"To '{excerpt}', after {len(prompt.messages)} messages: {_FILLER}.")


def tools_to_call(prompt: Prompt) -> list[str]:
    if prompt.choice == "none" or not prompt.tools:
        return []
    if prompt.choice in prompt.tools:
        return [prompt.choice]
    called = called_since_the_user_spoke(prompt)
    for wanted in marked_tools(prompt):
        if not set(wanted) & called:
            return wanted
    if prompt.choice == "any":
        inviting = sorted(prompt.tools, key=lambda name: bool(_LAST.search(name)))
        return [next((name for name in inviting if name not in called), inviting[-1])]
    if called or any(mark for mark, value in marks(prompt) if not value):
        return []
    return [next(iter(prompt.tools))]


def called_since_the_user_spoke(prompt: Prompt) -> set[str]:
    called: set[str] = set()
    for message in prompt.messages:
        if message["role"] == "user":
            called = set()
        called |= {call["function"]["name"] for call in message.get("tool_calls") or ()}
    return called


def marked_tools(prompt: Prompt) -> list[list[str]]:
    groups = [mark.split("+") for mark, value in marks(prompt) if not value]
    return [group for group in groups if set(group) <= set(prompt.tools)]


def values(prompt: Prompt) -> dict[str, str]:
    return {mark: value for mark, value in marks(prompt) if value}


def marks(prompt: Prompt) -> list[tuple[str, str]]:
    asked = [text_of(message) for message in prompt.messages if message["role"] in ("system", "user")]
    return _MARK.findall("\n".join(asked))


def last_said(prompt: Prompt) -> str:
    said = [text_of(message) for message in prompt.messages if message["role"] == "user"]
    return said[-1] if said else ""


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content if isinstance(part, dict))


def example(schema: Schema, given: dict[str, str] | None = None, name: str = "text") -> Any:
    """An instance of a JSON schema: the first of all choices, two items in a list, optional fields too."""
    return _instance(schema, schema.get("$defs") or schema.get("definitions") or {}, given or {}, name)


def _instance(schema: Schema, definitions: dict[str, Schema], given: dict[str, str], name: str) -> Any:
    def inner(below: Schema, called: str = name) -> Any:
        return _instance(below, definitions, given, called)

    if reference := schema.get("$ref"):
        return inner(definitions[reference.rsplit("/", 1)[-1]])
    if options := schema.get("enum"):
        return given[name] if given.get(name) in options else options[0]
    if "const" in schema:
        return schema["const"]
    for combined in ("anyOf", "oneOf", "allOf"):
        if combined in schema:
            return inner(next((one for one in schema[combined] if one.get("type") != "null"), {}))
    kind = _kind(schema)
    if kind == "object":
        return {key: inner(below, key) for key, below in (schema.get("properties") or {}).items()}
    if kind == "array":
        number = max(int(schema.get("minItems") or 0), min(2, int(schema.get("maxItems") or 2)))
        return [inner(schema.get("items") or {}, f"{name} {index + 1}") for index in range(number)]
    return _scalar(kind, schema, given.get(name), name)


def _kind(schema: Schema) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return str(kind[0] if isinstance(kind, list) else kind).lower()  # Gemini writes them in capitals


def _scalar(kind: str, schema: Schema, given: str | None, name: str) -> Any:
    match kind:
        case "integer" | "number":
            return int(given or schema.get("minimum") or 1)
        case "boolean":
            return given == "true" if given else not _NO.search(name)
        case "null":
            return None
    if "url" in name.lower():
        return given or "https://example.org/1"
    dates = {"date": "2026-11-18", "date-time": "2026-11-18T12:00:00Z"}
    return given or dates.get(schema.get("format") or "") or f"a {name}"


def embedding(text: str, dimensions: int) -> list[float]:
    """Texts with words in common are near each other."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % dimensions] += 1.0
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]
