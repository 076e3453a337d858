"""An MCP server by hand, which can be made to misbehave; every tool is one misbehaviour.

It speaks an older revision; with ``modern`` today's, and with ``deaf`` none at all.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

Message = dict[str, Any]
backlog: list[str] = []
"""What came while an answer was awaited."""


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def text(words: object) -> Message:
    return {"content": [{"type": "text", "text": str(words)}]}


def hello(arguments: Message) -> Message:
    return text(os.getpid())


def garbage(arguments: Message) -> Message:
    sys.stdout.buffer.write(b"\x1b[31mWARNING\x1b[0m \xff\xfe not JSON\n{\n\n[1, 2]\n")
    return text("after the garbage")


def no_answer_but_garbage(arguments: Message) -> None:
    sys.stdout.buffer.write(b"oops\n")
    sys.stdout.flush()


def stuck(arguments: Message) -> None:
    time.sleep(1000)


def long_line(arguments: Message) -> Message:
    return text("x" * 5 * 1024 * 1024)


def many_parts(arguments: Message) -> Message:
    return {"content": [], "structuredContent": {"rows": [[]] * 100_000}}


def long_garbage(arguments: Message) -> Message:
    sys.stdout.write("\r" * 1_000_000 + "\n")
    return text("after the garbage")


def hurry(arguments: Message) -> Message:
    """Tell of progress without end, and say everything at length."""
    for step in range(1000):
        told = {"progressToken": arguments["token"], "progress": step, "message": f"{step} {'y' * 1000}"}
        send({"method": "notifications/progress", "params": told})
    return text("arrived")


def break_a_promise(arguments: Message) -> Message:
    return {"content": [], "structuredContent": {"size": arguments["size"]}}


def chatter(arguments: Message) -> Message:
    for number in range(1000):
        sys.stderr.write(f"line {number} {'x' * 1000}\n")
    sys.stderr.flush()
    return text("said")


def with_child(arguments: Message) -> Message:
    """Start a child, which a ``trap`` makes deaf to SIGTERM; it may leave our group, too."""
    trap = "trap '' TERM; " if arguments.get("stubborn") else ""
    command = ["sh", "-c", f"{trap}while :; do sleep 1000; done"]
    child = subprocess.Popen(command, start_new_session=bool(arguments.get("gone_away")))
    return text(f"{os.getpid()} {child.pid}")


def environment(arguments: Message) -> Message:
    return text(subprocess.run(["env"], capture_output=True, text=True, check=True).stdout)


def parts(arguments: Message) -> Message:
    blob = {"uri": "file:///tmp/a.bin", "mimeType": "application/x-thing", "blob": "AAEC"}
    note = {"uri": "file:///tmp/a.txt", "text": "a note"}
    return {
        "content": [
            {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
            {"type": "resource", "resource": blob},
            {"type": "resource", "resource": note},
            {"type": "resource_link", "uri": "file:///tmp/b.txt", "name": "b"},
        ]
    }


def broken_image(arguments: Message) -> Message:
    return {"content": [{"type": "image", "data": "no base64!", "mimeType": "image/png"}]}


def leave(arguments: Message) -> None:
    sys.exit(4)


def ask(arguments: Message) -> Message:
    schema = {"type": "object", "properties": {"size": {"type": "string"}}, "required": ["size"]}
    return asked({"mode": "form", "message": "Which size?", "requestedSchema": schema})


def ask_to_visit(arguments: Message) -> Message:
    return asked({"mode": "url", "message": "Please log in.", "url": "https://example.org/login", "elicitationId": "e"})


def ask_for_ever(arguments: Message) -> Message:
    answer = ask(arguments)
    while answer != text("cancelled"):
        answer = ask(arguments)
    return answer


def asked(question: Message) -> Message:
    send({"id": "q1", "method": "elicitation/create", "params": question})
    for line in sys.stdin:
        message = json.loads(line)
        if "error" in message:
            return text(message["error"]["message"]) | {"isError": True}
        if message.get("id") == "q1":
            return text(f"{message['result']['action']} {message['result'].get('content')}")
        if message.get("method") == "notifications/cancelled":
            return text("cancelled")
        backlog.append(line)
    sys.exit(0)


TOOLS = (
    *(hello, garbage, no_answer_but_garbage, stuck, long_line, chatter, with_child, environment, leave),
    *(ask, ask_to_visit, ask_for_ever, parts, broken_image, many_parts, long_garbage, hurry, break_a_promise),
)

TWICE = {f"n{level}": {"anyOf": [{"$ref": f"#/$defs/n{level + 1}"}] * 2} for level in range(40)}
ODD_INPUTS: dict[str, Message] = {
    "elsewhere": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema"}}},
    "nowhere": {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
    "endless": {"type": "object", "properties": {"x": {"$ref": "#/$defs/n0"}}, "$defs": TWICE | {"n40": {}}},
    "tree": {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
}
SIZE = {"type": "object", "properties": {"size": {"type": "integer", "pattern": "(a+)+$"}}, "required": ["size"]}


def listed(name: str) -> Message:
    about: Message = {"name": name, "inputSchema": ODD_INPUTS.get(name, {"type": "object"})}
    return about | ({"outputSchema": SIZE} if name == "break_a_promise" else {})


def later(params: Message) -> Message:
    """Not ready at the first call; then, by the state that it gave out."""
    return (
        text("ready") if params.get("requestState") == "s1" else {"resultType": "input_required", "requestState": "s1"}
    )


def use_your_model(params: Message) -> Message:
    wish = {"messages": [], "maxTokens": 10}
    requests = {"k": {"method": "sampling/createMessage", "params": wish}}
    return {"resultType": "input_required", "inputRequests": requests}


MODERN = {"later": later, "use_your_model": use_your_model}
BY_NAME = {tool.__name__: tool for tool in TOOLS} | dict.fromkeys(["get.it", "get_it", *ODD_INPUTS], hello)


def answer(method: str, params: Message) -> Message | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [listed(name) for name in BY_NAME]}
    return BY_NAME[params["name"]](
        (params.get("arguments") or {}) | {"token": params.get("_meta", {}).get("progressToken")}
    )


def modern_answer(method: str, params: Message) -> Message:
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}} | hints
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in MODERN]} | hints
    return {"resultType": "complete"} | MODERN[params["name"]](params)


def main() -> None:
    if "deaf" in sys.argv:
        signal.pause()
    modern = "modern" in sys.argv
    while line := backlog.pop(0) if backlog else sys.stdin.readline():
        message = json.loads(line)
        if message.get("method") == "server/discover" and not modern:
            send({"id": message["id"], "error": {"code": -32601, "message": "what is that?"}})
        elif "id" in message and "method" in message:
            result = (modern_answer if modern else answer)(message["method"], message.get("params") or {})
            if result is not None:
                send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
