"""Anthropic's wire: messages."""

import json
from collections.abc import Iterator
from typing import Any

from tests.openai_server import Reply, pieces_of, words
from tests.stand_in.replies import Prompt, text_of

Json = dict[str, Any]


def read(body: Json) -> Prompt:
    choice = body.get("tool_choice") or {}
    output = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    system = {"role": "system", "content": body.get("system") or ""}
    said = [message for one in body["messages"] for message in _messages_of(one)]
    return Prompt(
        messages=[system, *said] if body.get("system") else said,
        tools={tool["name"]: tool["input_schema"] for tool in body.get("tools") or () if "input_schema" in tool},
        choice=choice.get("name") or choice.get("type") or "auto",
        schema=output.get("schema"),
        stream=bool(body.get("stream")),
        model=body["model"],
    )


def _messages_of(message: Json) -> Iterator[Json]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "tool_result":
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text_of(block)}
    text = text_of({"content": [block for block in blocks if block["type"] == "text"]})
    calls = [
        {"id": block["id"], "function": {"name": block["name"], "arguments": json.dumps(block["input"])}}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    if text or calls:
        yield {"role": message["role"], "content": text, "tool_calls": calls}


def whole(reply: Reply, body: Json) -> Json:
    text = [{"type": "text", "text": reply.say}] if reply.say else []
    calls = [
        {"type": "tool_use", "id": reply.call_id(index), "name": name, "input": args}
        for index, (name, args) in enumerate(reply.calls)
    ]
    return {**_message(body), "content": text + calls, "stop_reason": _reason(reply), "usage": _usage(reply)}


def pieces(reply: Reply, body: Json) -> Iterator[str]:
    for event in _events(reply, body):
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _events(reply: Reply, body: Json) -> Iterator[Json]:
    yield {"type": "message_start", "message": {**_message(body), "usage": _usage(Reply())}}
    place = 0
    if reply.say:
        texts = ({"type": "text_delta", "text": word} for word in words(reply.say))
        yield from _block(place, {"type": "text", "text": ""}, texts)
        place += 1
    for index, (name, args) in enumerate(reply.calls):
        arguments = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces_of(json.dumps(args)))
        block = {"type": "tool_use", "id": reply.call_id(index), "name": name, "input": {}}
        yield from _block(place + index, block, arguments)
    delta = {"stop_reason": _reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": _usage(reply)}
    yield {"type": "message_stop"}


def _block(place: int, block: Json, deltas: Iterator[Json]) -> Iterator[Json]:
    yield {"type": "content_block_start", "index": place, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": place, "delta": delta}
    yield {"type": "content_block_stop", "index": place}


def _message(body: Json) -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
    return {**message, "content": [], "stop_reason": None, "stop_sequence": None}


def _reason(reply: Reply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _usage(reply: Reply) -> Json:
    return {"input_tokens": 1, "output_tokens": len(words(reply.say))}
