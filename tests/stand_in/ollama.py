"""Ollama's wire: chat. Its calls have no ids, and it accepts a call without a result."""

import json
from collections.abc import Iterator
from typing import Any

from tests.openai_server import Reply, words
from tests.stand_in.replies import Prompt

Json = dict[str, Any]


def read(body: Json) -> Prompt:
    functions = [tool["function"] for tool in body.get("tools") or ()]
    wanted = body.get("format") or None
    return Prompt(
        messages=body["messages"],
        tools={function["name"]: function.get("parameters") or {} for function in functions},
        schema={"properties": {"query": {"type": "string"}}} if wanted == "json" else wanted,
        stream=bool(body.get("stream", True)),
        model=body["model"],
    )


def whole(reply: Reply, body: Json) -> Json:
    return _line(body, reply.say, reply) | _COUNTS


def pieces(reply: Reply, body: Json) -> Iterator[str]:
    for word in words(reply.say):
        yield json.dumps({**_line(body, word, Reply()), "done": False}) + "\n"
    if reply.calls:
        yield json.dumps({**_line(body, "", reply), "done": False}) + "\n"
    yield json.dumps(_line(body, "", Reply()) | _COUNTS) + "\n"


_COUNTS = {"done": True, "done_reason": "stop", "total_duration": 1, "prompt_eval_count": 1, "eval_count": 1}


def _line(body: Json, text: str, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": text}
    if reply.calls:
        message["tool_calls"] = [{"function": {"name": name, "arguments": args}} for name, args in reply.calls]
    return {"model": body["model"], "created_at": "2026-11-18T12:00:00Z", "message": message}
