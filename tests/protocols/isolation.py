"""Requests for ``tests/api/test_plugin_isolation.py``, which walks the routes of all plug-ins.

The test finds the routes by itself. It needs two things of whoever adds one: what the parameters in its path
name, in ``IDS``, and for POST, PUT and PATCH at least one example of what is sent, in ``EXAMPLES``. Texts may have
the parameters of ``IDS`` and of ``NATIVE`` in braces; each request is sent with ids of another tenant and with ids
that do not exist, and both must get the same answer. Requests to mounted apps are found by their examples only.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple


class Example(NamedTuple):
    body: Any = None
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}


NATIVE = ("sid", "run_id", "trace_id", "message_id", "ask_id", "document_id", "checkpoint_id", "system_id")
"""What can be named in the patterns of ``IDS``."""
IDS: Mapping[str, str] = {
    "chat_id": "{sid}",
    "system": "{system_id}",
    "name": "{system_id}",
    "model": "{system_id}",
    "response_id": "resp_{run_id}",
    "thread_id": "{sid}",
    "assistant_id": "{system_id}",
    "cron_id": "{sid}",
    "namespace": "none",
    "rest": "tasks/{trace_id}",
}
"""By the name of a parameter: how ids are spelled there. Those of agent systems are ``{system_id}``."""
_USER = {"role": "user", "content": "weather"}
_AGUI = {"threadId": "{sid}", "runId": "r1", "messages": [{"id": "m1", **_USER}]}
_RESUME = {**_AGUI, "resume": [{"interruptId": "{ask_id}", "status": "resolved", "payload": "red"}]}
_TARGET = {"agentId": "{system_id}", "threadId": "{sid}"}
_INPUT = {"messages": [{"type": "human", "content": "weather"}]}
_RUN = {"assistant_id": "{assistant_id}", "input": _INPUT}
_RUNS = [
    Example(_RUN),
    Example({**_RUN, "command": {"resume": "red"}}),
    Example({**_RUN, "checkpoint_id": "{checkpoint_id}"}),
]
_COMMANDS = {
    "run.start": _RUN,
    "input.respond": {"interrupt_id": "{ask_id}", "namespace": [], "response": "red"},
}
_NOT_SERVED = (
    *(f"POST /langgraph/assistants{path}" for path in ("", "/{assistant_id}/latest", "/{assistant_id}/versions")),
    "PATCH /langgraph/assistants/{assistant_id}",
    *(f"POST /langgraph/runs/{path}" for path in ("batch", "cancel")),
    "POST /langgraph/threads/prune",
)
_CRON = {**_RUN, "schedule": "0 7 * * *"}
_LANGGRAPH = {
    **dict.fromkeys(_NOT_SERVED, [Example({})]),
    "POST /langgraph/runs/crons": [Example(_CRON)],
    "POST /langgraph/threads/{thread_id}/runs/crons": [Example(_CRON)],
    **{f"POST /langgraph/runs/crons/{path}": [Example({"thread_id": "{sid}"})] for path in ("search", "count")},
    "PATCH /langgraph/runs/crons/{cron_id}": [Example({"schedule": "0 8 * * *"})],
    "PUT /langgraph/store/items": [Example({"namespace": ["a"], "key": "{sid}", "value": {}})],
    "POST /langgraph/store/items/search": [Example({"namespace_prefix": []})],
    "POST /langgraph/store/namespaces": [Example({})],
    **{f"POST /langgraph/assistants/{path}": [Example({"graph_id": "{system_id}"})] for path in ("search", "count")},
    **{f"POST /langgraph/runs{path}": [Example(_RUN)] for path in ("", "/wait", "/stream")},
    "POST /langgraph/threads": [
        Example({"thread_id": "{sid}"}),
        Example({"thread_id": "{sid}", "if_exists": "do_nothing"}),
    ],
    **{f"POST /langgraph/threads/{path}": [Example({"ids": ["{sid}"]})] for path in ("search", "count")},
    "PATCH /langgraph/threads/{thread_id}": [Example({"metadata": {"a": 1}})],
    "POST /langgraph/threads/{thread_id}/copy": [Example({})],
    "POST /langgraph/threads/{thread_id}/history": [Example({}), Example({"before": "{checkpoint_id}"})],
    "POST /langgraph/threads/{thread_id}/state": [
        Example({"values": {"files": {}}}),
        Example({"checkpoint_id": "{checkpoint_id}"}),
    ],
    "POST /langgraph/threads/{thread_id}/state/checkpoint": [
        Example({"checkpoint": {"checkpoint_id": "{checkpoint_id}"}})
    ],
    **{f"POST /langgraph/threads/{{thread_id}}/runs{path}": _RUNS for path in ("", "/wait", "/stream")},
    "POST /langgraph/threads/{thread_id}/runs/{run_id}/cancel": [Example({})],
    "POST /langgraph/threads/{thread_id}/commands": [
        Example({"id": 1, "method": method, "params": params}) for method, params in _COMMANDS.items()
    ],
    "POST /langgraph/threads/{thread_id}/stream/events": [Example({"channels": ["messages", "values", "lifecycle"]})],
}
_A2A = {"A2A-Version": "1.0"}
_A2A_MESSAGE = {"role": "ROLE_USER", "messageId": "m1", "contextId": "{sid}", "parts": [{"text": "weather"}]}
_MCP = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "{system_id}",
}
_MCP_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MCP_CALL = {"name": "{system_id}", "arguments": {"message": "weather", "session_id": "{sid}"}, "_meta": _MCP_META}
EXAMPLES: Mapping[str, Sequence[Example]] = {
    **_LANGGRAPH,
    "POST /a2a/{system}": [
        Example({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "{trace_id}"}}, _A2A),
        Example({"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": "{trace_id}"}}, _A2A),
        Example({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": _A2A_MESSAGE}}, _A2A),
    ],
    "POST /a2a/{system}/{rest:path}": [Example({}, _A2A)],
    "POST /mcp": [Example({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _MCP_CALL}, _MCP)],
    "POST /ag-ui/{system}": [Example(_AGUI), Example(_RESUME)],
    "POST /copilotkit/agent/{system}/run": [Example(_AGUI), Example(_RESUME)],
    "POST /copilotkit/agent/{system}/connect": [Example(_AGUI)],
    "POST /copilotkit/agent/{system}/stop/{thread_id}": [Example(), Example({"runId": "r1"})],
    "POST /copilotkit": [
        Example({"method": "agent/run", "params": _TARGET, "body": _AGUI}),
        Example({"method": "agent/connect", "params": {"agentId": "demo"}, "body": _AGUI}),
        Example({"method": "agent/stop", "params": _TARGET}),
    ],
    "POST /copilotkit/": [Example({"method": "agent/stop", "params": _TARGET, "body": {"runId": "r1"}})],
    "POST /ai-sdk/{system}/chat": [
        Example(
            {
                "id": "{chat_id}",
                "trigger": "submit-message",
                "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "weather"}]}],
            }
        ),
        Example({"id": "{chat_id}", "trigger": "regenerate-message", "messageId": "{message_id}", "messages": []}),
    ],
    "POST /ai-sdk/{system}/chat/{chat_id}/stop": [Example()],
    "POST /v1/chat/completions": [
        Example({"model": "{model}", "messages": [_USER]}, headers={"X-Session-Id": "{sid}"}),
        Example({"model": "{model}", "messages": [_USER], "stream": True}, headers={"X-Session-Id": "{sid}"}),
    ],
    "POST /v1/responses": [
        Example({"model": "{model}", "input": "weather", "conversation": "{sid}"}),
        Example({"model": "{model}", "input": "weather", "previous_response_id": "{response_id}"}),
    ],
    "POST /v1/responses/{response_id}/cancel": [Example()],
}
STAYS_OPEN: Collection[str] = {"POST /langgraph/threads/{thread_id}/stream/events"}
"""Streams that do not end: they are read until the server goes down."""
