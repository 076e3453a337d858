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


NATIVE = ("sid", "run_id", "trace_id", "message_id", "ask_id", "document_id", "system_id")
"""What can be named in the patterns of ``IDS``."""
IDS: Mapping[str, str] = {
    "chat_id": "{sid}",
    "system": "{system_id}",
    "name": "{system_id}",
    "model": "{system_id}",
    "response_id": "resp_{run_id}",
    "thread_id": "{sid}",
}
"""By the name of a parameter: how ids are spelled there. Those of agent systems are ``{system_id}``."""
_USER = {"role": "user", "content": "weather"}
_AGUI = {"threadId": "{sid}", "runId": "r1", "messages": [{"id": "m1", **_USER}]}
_RESUME = {**_AGUI, "resume": [{"interruptId": "{ask_id}", "status": "resolved", "payload": "red"}]}
_TARGET = {"agentId": "{system_id}", "threadId": "{sid}"}
EXAMPLES: Mapping[str, Sequence[Example]] = {
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
STAYS_OPEN: Collection[str] = ()
"""Streams that do not end: they are read until the server goes down."""
