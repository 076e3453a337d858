"""Requests to AG-UI's routes that cannot be served, and large ones."""

import json
from typing import Any

import httpx2
import pytest

from tests import keyed

BODY: dict[str, Any] = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hello"}]}


def post(server: str, body: Any, system: str = "demo") -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.post(f"{server}/ag-ui/{system}", content=content, headers=keyed.shown_to(server), timeout=60)


def threads(server: str) -> int:
    found = httpx2.get(f"{server}/sessions", headers=keyed.shown_to(server)).json()["sessions"]
    return len(found)


@pytest.mark.parametrize(
    ("changes", "status", "code", "field"),
    [
        ({"threadId": None}, 422, "invalid_field", "threadId"),
        ({"threadId": ""}, 422, "invalid_field", "thread_id"),
        ({"threadId": "x" * 201}, 422, "invalid_field", "thread_id"),
        ({"messages": []}, 422, "invalid_field", "messages"),
        ({"messages": "hello"}, 422, "invalid_field", "messages"),
        ({"messages": [{"id": "m", "role": "user", "content": 7}]}, 422, "invalid_field", "messages"),
        ({"messages": [{"id": "m", "role": "assistant", "content": "hello"}]}, 422, "invalid_field", "messages"),
        ({"messages": [{"id": "m\n", "role": "user", "content": "hello"}]}, 422, "invalid_field", "message_id"),
        ({"messages": [{"id": "m", "role": "user", "content": "x" * 70_000}]}, 422, "invalid_field", "messages"),
        ({"forwardedProps": {"ifBusy": "dance"}}, 422, "invalid_field", "forwardedProps"),
        ({"forwardedProps": {"input": {"a": 1}}}, 422, "invalid_field", "input"),
        (
            {
                "messages": [
                    {"id": "m", "role": "user", "content": [{"type": "image", "source": {"value": "http://a"}}]}
                ]
            },
            422,
            "invalid_field",
            "url",
        ),
    ],
)
def test_a_wrong_body_is_named_and_nothing_is_stored(
    server: str, changes: dict[str, Any], status: int, code: str, field: str
) -> None:
    before = threads(server)
    answer = post(server, {**BODY, **changes})
    assert (answer.status_code, answer.json()["error"], answer.json()["field"]) == (status, code, field)
    assert threads(server) == before


def test_what_is_no_json_an_unknown_system_and_an_unknown_thread_are_errors(server: str) -> None:
    assert post(server, b'{"threadId": ').json()["error"] == "malformed_json"
    assert post(server, BODY, "nowhere").json()["error"] == "unknown_agent_system"
    headers = keyed.shown_to(server)
    for path in ("demo/never-used", "nowhere/never-used"):
        answer = httpx2.get(f"{server}/ag-ui/{path}", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (404, "unknown_thread")
    assert httpx2.get(f"{server}/ag-ui/demo", headers=headers).json()["humanInTheLoop"]["interrupts"] is True


def test_unknown_fields_are_ignored_and_a_thread_has_one_system(server: str) -> None:
    body = {**BODY, "threadId": "one system", "new": {"a": [1]}, "tools": None, "context": None, "forwardedProps": None}
    assert '"type":"RUN_FINISHED"' in post(server, body).text
    other = post(server, {**body, "runId": "r2"}, "chats")
    assert (other.status_code, other.json()["error"]) == (409, "other_system")


def test_a_history_of_10_mib_is_read_at_its_end_and_a_larger_body_is_refused(server: str) -> None:
    old = [{"id": f"m{n}", "role": "assistant", "content": "x" * 1024} for n in range(10 * 1024)]
    first = {**BODY, "threadId": "large"}
    assert post(server, first).is_success
    last = {"id": "last", "role": "user", "content": "the end"}
    told = post(server, {**first, "runId": "r2", "messages": [*BODY["messages"], *old, last]})
    assert told.is_success
    assert "You said “the end”" in told.text
    refused = post(server, {**first, "messages": [{"id": "m", "role": "user", "content": "x" * 17 * 1024 * 1024}]})
    assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
