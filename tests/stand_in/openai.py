"""OpenAI's wire: chat completions and responses."""

import json
from collections.abc import Iterator
from typing import Any

from tests import openai_server
from tests.openai_server import Reply, pieces_of, words
from tests.stand_in.replies import Prompt, text_of

Json = dict[str, Any]


def read_chat(body: Json) -> Prompt:
    functions = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
    return Prompt(
        messages=[{**message, "role": _ROLES.get(message["role"], message["role"])} for message in body["messages"]],
        tools={function["name"]: function.get("parameters") or {} for function in functions},
        choice=_choice(body.get("tool_choice")),
        schema=_schema(body.get("response_format") or {}),
        stream=bool(body.get("stream")),
        model=body["model"],
    )


_ROLES = {"developer": "system", "function": "tool"}


def _choice(choice: Any) -> str:
    if isinstance(choice, dict):
        return str((choice.get("function") or choice).get("name", "any"))
    return {"required": "any", None: "auto"}.get(choice) or str(choice)


def _schema(wanted: Json) -> Json | None:
    """Of both APIs: chat completions nest the schema one level deeper. JSON without a schema is any object."""
    if wanted.get("type") not in ("json_schema", "json_object"):
        return None
    found = wanted.get("schema") or (wanted.get("json_schema") or {}).get("schema")
    return found or {"type": "object", "properties": {"query": {"type": "string"}}}


def whole_chat(reply: Reply, body: Json) -> Json:
    return openai_server.whole(reply, body)


def chat_pieces(reply: Reply, body: Json) -> Iterator[str]:
    yield from openai_server.pieces(reply, body)
    yield from openai_server.ending(reply, body)


def read_response(body: Json) -> Prompt:
    functions = [tool for tool in body.get("tools") or () if tool.get("type") == "function"]
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    system = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    return Prompt(
        messages=system + [message for item in items for message in _messages_of(item)],
        tools={function["name"]: function.get("parameters") or {} for function in functions},
        choice=_choice(body.get("tool_choice")),
        schema=_schema((body.get("text") or {}).get("format") or {}),
        stream=bool(body.get("stream")),
        model=body["model"],
    )


def _messages_of(item: Json) -> Iterator[Json]:
    match item.get("type", "message"):
        case "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            yield {"role": "assistant", "tool_calls": [{"id": item["call_id"], "function": function}]}
        case "function_call_output":
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": str(item["output"])}
        case "message":
            yield {"role": _ROLES.get(item["role"], item["role"]), "content": text_of(item)}


def merged(messages: list[Json]) -> list[Json]:
    """Calls side by side in one message, as the other wires have them."""
    together: list[Json] = []
    for message in messages:
        if together and message.get("tool_calls") and together[-1].get("tool_calls"):
            together[-1] = {**together[-1], "tool_calls": together[-1]["tool_calls"] + message["tool_calls"]}
        else:
            together.append(message)
    return together


def whole_response(reply: Reply, body: Json) -> Json:
    items = [_text_item(reply.say)] if reply.say else []
    items += [_call_item(reply, index) for index in range(len(reply.calls))]
    return _response(body, reply, items)


def _response(body: Json, reply: Reply, items: list[Json], status: str = "completed") -> Json:
    read, written = 1, len(words(reply.say))
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": body["model"],
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [],
        "text": body.get("text") or {"format": {"type": "text"}},
        "usage": usage if status == "completed" else None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": None,
        "top_p": None,
    }


def _text_item(text: str, status: str = "completed") -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}] if status == "completed" else []
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}


def _call_item(reply: Reply, index: int, status: str = "completed") -> Json:
    name, args = reply.calls[index]
    call_id = reply.call_id(index)
    arguments = json.dumps(args) if status == "completed" else ""
    item = {"id": f"fc_{call_id}", "type": "function_call", "status": status}
    return {**item, "call_id": call_id, "name": name, "arguments": arguments}


def response_pieces(reply: Reply, body: Json) -> Iterator[str]:
    for number, piece in enumerate(_response_events(reply, body)):
        yield f"event: {piece['type']}\ndata: {json.dumps({**piece, 'sequence_number': number})}\n\n"


def _response_events(reply: Reply, body: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": _response(body, reply, [], "in_progress")}
    items: list[Json] = []
    if reply.say:
        yield from _text_events(reply.say)
        items.append(_text_item(reply.say))
    for index in range(len(reply.calls)):
        yield from _call_events(reply, index, len(items))
        items.append(_call_item(reply, index))
    yield {"type": "response.completed", "response": _response(body, reply, items)}


def _text_events(text: str) -> Iterator[Json]:
    where = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": _text_item("", "in_progress")}
    yield {"type": "response.content_part.added", **where, "part": empty}
    for word in words(text):
        yield {"type": "response.output_text.delta", **where, "delta": word, "logprobs": []}
    yield {"type": "response.output_text.done", **where, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **where, "part": {**empty, "text": text}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": _text_item(text)}


def _call_events(reply: Reply, index: int, place: int) -> Iterator[Json]:
    item = _call_item(reply, index)
    where = {"item_id": item["id"], "output_index": place}
    started = _call_item(reply, index, "in_progress")
    yield {"type": "response.output_item.added", "output_index": place, "item": started}
    for piece in pieces_of(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
    done = {"type": "response.function_call_arguments.done", **where, "name": item["name"]}
    yield {**done, "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}
