"""Protocols as plain requests, one row each: how a message is sent, and what a client is shown of a session.

A row that is added to ``FRONTS`` joins the tests in ``test_across.py``.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import httpx2
import msgspec

Json = dict[str, Any]
Turn = tuple[str, str]
"""What the user said, and the answer or the question that came of it."""
Send = Callable[[httpx2.AsyncClient, str, str], Awaitable[str]]
Show = Callable[[httpx2.AsyncClient, str], Awaitable[Sequence[Turn]]]
_USER, _AGENT = "user", "agent"
_MCP = "2025-11-25"
_numbers = count(1)


class Front(NamedTuple):
    name: str
    send: Send
    """A message, or the answer to the open question; the text with which the agent ends its turn."""
    show: Show | None
    """All turns of a session, as a client sees them after a reload; None if the protocol has no history."""


def turns(said: Iterable[tuple[str, str]]) -> list[Turn]:
    """Texts with their authors: what the agent said last before the user's next text is the end of the turn."""
    found: list[Turn] = []
    for author, text in said:
        if author == _USER:
            found.append((text, ""))
        elif text and found:
            found[-1] = (found[-1][0], text)
    return found


def events(body: str) -> Iterator[Json]:
    """The data of server-sent events."""
    for line in body.splitlines():
        if line.startswith("data: {"):
            yield msgspec.json.decode(line[6:])


async def post(client: httpx2.AsyncClient, path: str, body: Json, headers: dict[str, str] | None = None) -> Any:
    answer = await client.post(path, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text


async def get(client: httpx2.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send_natively(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    sent = await client.post(f"/sessions/{sid}/messages", json={"text": text})
    assert sent.status_code == 202, sent.text
    await client.get(f"/sessions/{sid}/stream", params={"until": "run_end", "after": sent.json()["after"]})
    return list(await shown_natively(client, sid))[-1][1]


async def shown_natively(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    entries = (await get(client, f"/sessions/{sid}/messages"))["messages"]
    return turns((_USER if entry["role"] == "user" else _AGENT, entry["text"]) for entry in entries)


async def send_completion(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    answer = await post(client, "/v1/chat/completions", body, {"X-Session-Id": sid})
    return str(answer["choices"][0]["message"]["content"])


async def send_streamed_completion(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": text}], "stream": True}
    stream = await post(client, "/v1/chat/completions", body, {"X-Session-Id": sid})
    said = [choice["delta"].get("content") or "" for chunk in events(stream) for choice in chunk["choices"]]
    return "".join(said)


async def send_response(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    answer = await post(client, "/v1/responses", {"model": "demo", "input": text, "conversation": sid})
    return _last_output(answer)


def _last_output(response: Json) -> str:
    return str([item for item in response["output"] if item["type"] == "message"][-1]["content"][0]["text"])


async def shown_responses(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    """The protocol has no list of them; what the user said is not part of them."""
    said: list[tuple[str, str]] = []
    for entry in (await get(client, f"/sessions/{sid}/messages"))["messages"]:
        if entry["role"] == "user":  # the run of an answer is the one that it starts
            response = await get(client, f"/v1/responses/resp_{entry['run_id']}")
            said += [(_USER, entry["text"]), (_AGENT, _last_output(response))]
    return turns(said)


async def send_ai_sdk(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    message = {"id": f"ai-sdk-{next(_numbers)}", "role": "user", "parts": [{"type": "text", "text": text}]}
    stream = list(events(await post(client, "/ai-sdk/demo/chat", {"id": sid, "messages": [message]})))
    asked = [each["input"]["question"] for each in stream if _is_question(each)]
    if asked and not any(each["type"] == "tool-output-available" for each in stream):
        return str(asked[-1])
    last = [each["id"] for each in stream if each["type"] == "text-start"][-1]
    return "".join(each["delta"] for each in stream if each["type"] == "text-delta" and each["id"] == last)


def _is_question(part: Json) -> bool:
    return bool(part["type"] == "tool-input-available" and part["toolName"] == "ask_user")


async def shown_by_ai_sdk(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    said: list[tuple[str, str]] = []
    for message in await get(client, f"/ai-sdk/demo/chat/{sid}"):
        for part in message["parts"]:
            if part["type"] == "text":
                said.append((_USER if message["role"] == "user" else _AGENT, part["text"]))
            elif part.get("toolName") == "ask_user":
                said.append((_AGENT, part["input"]["question"]))
                said += [(_USER, part["output"])] if "output" in part else []
    return turns(said)


async def send_langgraph(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    body = {"assistant_id": "demo", "input": {"messages": [{"type": "human", "content": text}]}}
    values = await post(client, f"/langgraph/threads/{sid}/runs/wait", body)
    asked = [each["value"] for each in values.get("__interrupt__", ())]
    return str(asked[-1]["question"] if asked else values["messages"][-1]["content"])


async def shown_by_langgraph(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    state = await get(client, f"/langgraph/threads/{sid}/state")
    said: list[tuple[str, str]] = []
    for message in state["values"]["messages"]:
        if message["type"] in ("human", "ai"):
            said.append((_USER if message["type"] == "human" else _AGENT, message["content"]))
            said += [(_AGENT, call["args"]["question"]) for call in message.get("tool_calls", ()) if _asks(call)]
        elif _asks(message):
            said.append((_USER, message["content"]))
    return turns(said)


def _asks(call: Json) -> bool:
    return bool(call["name"] == "ask_user")


async def send_agui(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    return said_in_agui(await post(client, "/ag-ui/demo", _agui_input(sid, text)))[-1][1]


async def send_copilotkit(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    return said_in_agui(await post(client, "/copilotkit/agent/demo/run", _agui_input(sid, text)))[-1][1]


async def shown_by_agui(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    return said_in_agui((await client.get(f"/ag-ui/demo/{sid}")).text)


async def shown_by_copilotkit(client: httpx2.AsyncClient, sid: str) -> Sequence[Turn]:
    body = {"threadId": sid, "runId": f"run-{next(_numbers)}"}
    return said_in_agui(await post(client, "/copilotkit/agent/demo/connect", body))


def _agui_input(sid: str, text: str) -> Json:
    number = next(_numbers)
    message = {"id": f"ag-ui-{number}", "role": "user", "content": text}
    return {"threadId": sid, "runId": f"run-{number}", "messages": [message], "protocolVersion": "1.0"}


def said_in_agui(stream: str) -> list[Turn]:
    said: list[tuple[str, str]] = []
    for event in events(stream):
        match event["type"]:
            case "RUN_STARTED":
                said += [(_USER, each["content"]) for each in event["input"]["messages"]]
                said += [(_USER, each["payload"]) for each in event["input"].get("resume", ())]
            case "TEXT_MESSAGE_START":
                said.append((_AGENT, ""))
            case "TEXT_MESSAGE_CONTENT":
                said[-1] = (_AGENT, said[-1][1] + event["delta"])
            case "RUN_FINISHED":
                said += [(_AGENT, each["message"]) for each in event["outcome"].get("interrupts", ())]
    return turns(said)


async def send_mcp(client: httpx2.AsyncClient, sid: str, text: str) -> str:
    """The host has no forms: a question is a part of the result."""
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": _MCP}
    hello = {"protocolVersion": _MCP, "capabilities": {}, "clientInfo": {"name": "plain", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    begun = await client.post("/mcp", json=begin, headers=accept)
    headers = {**accept, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
    await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    called = {"name": "demo", "arguments": {"message": text, "session_id": sid}}
    answer = await post(client, "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": called}, headers)
    result = [each["result"] for each in events(answer) if each.get("id") == 2][0]
    questions = result["structuredContent"].get("questions", ())
    return str(questions[-1]["question"] if questions else result["content"][0]["text"])


NATIVE = Front("native", send_natively, shown_natively)
FRONTS = (
    Front("openai-completions", send_completion, None),
    Front("openai-completions, streamed", send_streamed_completion, None),
    Front("openai-responses", send_response, shown_responses),
    Front("ai-sdk", send_ai_sdk, shown_by_ai_sdk),
    Front("ag-ui", send_agui, shown_by_agui),
    Front("copilotkit", send_copilotkit, shown_by_copilotkit),
    Front("langgraph", send_langgraph, shown_by_langgraph),
    Front("mcp", send_mcp, None),
)
