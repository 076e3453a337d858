"""Gemini's wire: generateContent, with searches of the web that find one page."""

import json
from collections.abc import Iterator
from typing import Any

from tests.openai_server import Reply, words
from tests.stand_in.replies import Prompt

Json = dict[str, Any]


def read(body: Json) -> Prompt:
    declared = [one for tool in body.get("tools") or () for one in _of(tool, "functionDeclarations") or ()]
    calling = _of(_of(body, "toolConfig") or {}, "functionCallingConfig") or {}
    allowed = _of(calling, "allowedFunctionNames") or []
    only = allowed[0] if len(allowed) == 1 else "any"
    config = _of(body, "generationConfig") or {}
    return Prompt(
        messages=_messages(body),
        tools={one["name"]: _of(one, "parametersJsonSchema") or one.get("parameters") or {} for one in declared},
        choice={"ANY": only, "NONE": "none"}.get(calling.get("mode", "AUTO"), "auto"),
        schema=_of(config, "responseJsonSchema") or _of(config, "responseSchema"),
    )


def _of(fields: Json, name: str) -> Any:
    """A field by its name in camel case; clients write it in snake case as well."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return fields.get(name, fields.get(snake))


def _messages(body: Json) -> list[Json]:
    """Calls have no ids here: a response belongs to the oldest open call of its name."""
    system = _of(body, "systemInstruction")
    messages: list[Json] = [{"role": "system", "content": _text(system)}] if system else []
    open_calls: list[tuple[str, str]] = []
    for content in body["contents"]:
        role = "assistant" if content.get("role") == "model" else "user"
        calls = [part for one in content["parts"] if (part := _of(one, "functionCall"))]
        numbered = [(f"{len(messages)}.{number}", call["name"]) for number, call in enumerate(calls)]
        open_calls += numbered
        for answer in (part for one in content["parts"] if (part := _of(one, "functionResponse"))):
            found = next((call for call in open_calls if call[1] == answer["name"]), None)
            if found is not None:
                open_calls.remove(found)
                messages.append({"role": "tool", "tool_call_id": found[0], "content": json.dumps(answer["response"])})
        if calls or _text(content):
            asked = [{"id": number, "function": {"name": name}} for number, name in numbered]
            messages.append({"role": role, "content": _text(content), "tool_calls": asked})
    return messages


def _text(content: Json) -> str:
    return " ".join(part.get("text") or "" for part in content.get("parts") or ()).strip()


def whole(reply: Reply, body: Json) -> Json:
    return _chunk(body, _parts(reply), "STOP")


def pieces(reply: Reply, body: Json) -> Iterator[str]:
    parts = [{"text": word} for word in words(reply.say)] or _parts(reply)
    for part in parts:
        yield f"data: {json.dumps(_chunk(body, [part]))}\r\n\r\n"
    yield f"data: {json.dumps(_chunk(body, [{'text': ''}], 'STOP'))}\r\n\r\n"


def _parts(reply: Reply) -> list[Json]:
    text = [{"text": reply.say}] if reply.say else []
    return text + [{"functionCall": {"name": name, "args": args}} for name, args in reply.calls]


def _chunk(body: Json, parts: list[Json], finished: str | None = None) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finished:
        candidate["finishReason"] = finished
    if any(_of(tool, "googleSearch") is not None for tool in body.get("tools") or ()):
        candidate["groundingMetadata"] = _FOUND
    usage = {"promptTokenCount": 1, "candidatesTokenCount": len(parts), "totalTokenCount": 1 + len(parts)}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stand-in"}


_FOUND = {
    "webSearchQueries": ["a query"],
    "groundingChunks": [{"web": {"uri": "https://example.org/1", "title": "example.org"}}],
    "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 2, "text": "To"}, "groundingChunkIndices": [0]}],
}
