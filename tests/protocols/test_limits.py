"""What no protocol takes: each says so in its own form, and nothing of it is stored."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

from stellwerk.app import Parts
from tests.conftest import without_pauses

Json = dict[str, Any]
MIB = 1024 * 1024
HISTORY = 10 * MIB


def plain_text(answer: httpx2.Response) -> str:
    assert answer.headers["content-type"].startswith("text/plain")
    assert "{" not in answer.text
    return answer.text


def openai_error(answer: httpx2.Response) -> str:
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return str(error["message"])


def detail(answer: httpx2.Response) -> str:
    return str(answer.json()["detail"])


def message(answer: httpx2.Response) -> str:
    return str(answer.json()["message"])


def json_rpc(answer: httpx2.Response) -> str:
    """An error of the protocol; MCP has results that are errors as well."""
    found = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    said = msgspec.json.decode(found[-1] if found else answer.content)
    if "result" in said:
        assert said["result"]["isError"] is True
        return str(said["result"]["content"][0]["text"])
    assert said["jsonrpc"] == "2.0" and said["error"]["code"] < 0
    return str(said["error"]["message"])


def google(answer: httpx2.Response) -> str:
    """HTTP+JSON of A2A has the errors of Google's APIs; what is refused before it, those of JSON-RPC."""
    return str(answer.json()["error"]["message"])


class Entrance(NamedTuple):
    """Where a protocol takes messages."""

    path: str
    body: Json
    """A message in the session "limits"."""
    text: tuple[str | int, ...]
    """Where the text of the last message is in it."""
    error: Callable[[httpx2.Response], str]
    history: tuple[str | int, ...] = ()
    """Where the list is that earlier messages are put in front of; empty if clients send none."""
    headers: Mapping[str, str] = {}
    system: str = ""
    """The field that names the agent system; empty if the path does."""
    unknown: str = "/nowhere"
    """A thing that does not exist."""
    takes: Collection[str] = ()
    """What is no error here."""


_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_MCP = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "demo",
}
_CALL = {"name": "demo", "arguments": {"message": "weather", "session_id": "limits"}, "_meta": _META}
_A2A = {"message": {"role": "ROLE_USER", "messageId": "m9", "contextId": "limits", "parts": [{"text": "weather"}]}}
_AGUI = {"threadId": "limits", "runId": "r9", "messages": [{"id": "m9", "role": "user", "content": "weather"}]}
ENTRANCES = {
    "ai-sdk": Entrance(
        "/ai-sdk/demo/chat",
        {"id": "limits", "messages": [{"id": "m9", "role": "user", "parts": [{"type": "text", "text": "weather"}]}]},
        ("messages", -1, "parts", 0, "text"),
        plain_text,
        ("messages",),
        unknown="/ai-sdk/demo/chat/nowhere",
    ),
    "openai-completions": Entrance(
        "/v1/chat/completions",
        {"model": "demo", "messages": [{"role": "user", "content": "weather"}]},
        ("messages", -1, "content"),
        openai_error,
        ("messages",),
        {"X-Session-Id": "limits"},
        "model",
        "/v1/models/nowhere",
    ),
    "openai-responses": Entrance(
        "/v1/responses",
        {"model": "demo", "input": [{"role": "user", "content": "weather"}], "conversation": "limits"},
        ("input", -1, "content"),
        openai_error,
        ("input",),
        system="model",
        unknown="/v1/responses/nowhere",
    ),
    "langgraph": Entrance(
        "/langgraph/threads/limits/runs/wait",
        {
            "assistant_id": "demo",
            "if_not_exists": "create",
            "input": {"messages": [{"type": "human", "content": "weather"}]},
        },
        ("input", "messages", -1, "content"),
        detail,
        ("input", "messages"),
        system="assistant_id",
        unknown="/langgraph/threads/nowhere/state",
        takes=("no text", "another type"),
    ),
    "ag-ui": Entrance(
        "/ag-ui/demo",
        _AGUI,
        ("messages", -1, "content"),
        message,
        ("messages",),
        unknown="/ag-ui/demo/nowhere",
        takes=("no text",),
    ),
    "copilotkit": Entrance(
        "/copilotkit/agent/demo/run",
        _AGUI,
        ("messages", -1, "content"),
        message,
        ("messages",),
        unknown="/copilotkit/nowhere",
        takes=("no text",),
    ),
    "a2a": Entrance(
        "/a2a/demo/",
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": _A2A},
        ("params", "message", "parts", 0, "text"),
        json_rpc,
        headers={"A2A-Version": "1.0"},
        unknown="/a2a/demo/nowhere",
    ),
    "a2a, http": Entrance(
        "/a2a/demo/message:send",
        _A2A,
        ("message", "parts", 0, "text"),
        google,
        headers={"A2A-Version": "1.0"},
        unknown="/a2a/demo/tasks/nowhere",
    ),
    "mcp": Entrance(
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL},
        ("params", "arguments", "message"),
        json_rpc,
        headers=_MCP,
        unknown="/mcp/nowhere",
    ),
}


def place(body: Any, path: tuple[str | int, ...]) -> tuple[Any, str | int]:
    for name in path[:-1]:
        body = body[name]
    return body, path[-1]


def changed(body: Json, path: tuple[str | int, ...], value: Any) -> Json:
    copy = deepcopy(body)
    inner, name = place(copy, path)
    inner[name] = value
    return copy


def broken(entrance: Entrance) -> dict[str, bytes]:
    """Bodies that cannot be read, by what is wrong."""
    encoded = msgspec.json.encode
    without = {name: value for name, value in entrance.body.items() if name != next(iter(entrance.body))}
    return {
        "cut off": encoded(entrance.body)[:-2],
        "not JSON": b"weather",
        "not UTF-8": b'{"id": "\xff\xfe"}',
        "nested": b"[" * 100_000,
        "a list": b"[7]",
        "null": b"null",
        "empty": b"{}",
        "a field is missing": encoded(without),
        "another type": encoded(changed(entrance.body, entrance.text, {"a": 1})),
        "no text": encoded(changed(entrance.body, entrance.text, "")),
        "a long text": encoded(changed(entrance.body, entrance.text, "x" * 70_000)),
        "17 MiB": b'{"x": "' + b"x" * 17 * MIB + b'"}',
    }


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def http(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=120) as made:
        yield made


async def stored(http: httpx2.AsyncClient) -> tuple[Any, Any]:
    """All sessions with their lengths, and all threads."""
    sessions = (await http.get("/sessions", params={"limit": 500})).json()["sessions"]
    threads = await http.post("/langgraph/threads/search", json={"limit": 1000})
    return {each["id"]: each["position"] for each in sessions}, sorted(each["thread_id"] for each in threads.json())


@pytest.mark.parametrize("protocol", ENTRANCES)
async def test_a_body_that_cannot_be_read_is_an_error_of_the_protocol_and_nothing_is_stored(
    http: httpx2.AsyncClient, protocol: str
) -> None:
    entrance = ENTRANCES[protocol]
    before = await stored(http)
    headers = {"Content-Type": "application/json", **entrance.headers}
    path = entrance.path.replace("limits", f"nothing of {protocol}")
    for what, body in broken(entrance).items():
        if what in entrance.takes:
            continue
        content = body.replace(b'"limits"', msgspec.json.encode(f"nothing of {protocol}"))
        answer = await http.post(path, content=content, headers=headers)
        assert answer.status_code < 500, (what, answer.status_code, answer.text[:500])
        assert entrance.error(answer), what
        assert answer.status_code == 413 or what != "17 MiB"
    assert await stored(http) == before


@pytest.mark.parametrize("protocol", ENTRANCES)
async def test_unknown_systems_and_things_are_errors_of_the_protocol_and_nothing_is_stored(
    http: httpx2.AsyncClient, protocol: str
) -> None:
    entrance = ENTRANCES[protocol]
    before = await stored(http)
    body, path, headers = deepcopy(entrance.body), entrance.path, dict(entrance.headers)
    if entrance.system:
        body[entrance.system] = "unheard-of"
    elif protocol == "mcp":
        body["params"]["name"] = headers["Mcp-Name"] = "unheard-of"
    else:
        path = path.replace("demo", "unheard-of", 1)
    answer = await http.post(path, json=body, headers=headers)
    assert answer.status_code < 500
    assert "unheard-of" in entrance.error(answer)
    unknown = await http.get(entrance.unknown, headers=headers)
    assert unknown.status_code == 404
    assert await stored(http) == before


@pytest.mark.parametrize("protocol", ENTRANCES)
async def test_unknown_fields_and_a_history_of_ten_mebibytes_are_taken_and_only_the_message_is_stored(
    http: httpx2.AsyncClient, protocol: str
) -> None:
    entrance, session = ENTRANCES[protocol], f"limits of {protocol}"
    whole = msgspec.json.encode(entrance.body).replace(b'"limits"', msgspec.json.encode(session))
    first = msgspec.json.decode(whole)
    first["unheardOf"] = {"a": [1]}
    path, headers = entrance.path.replace("limits", session), dict(entrance.headers)
    if "X-Session-Id" in headers:
        headers["X-Session-Id"] = session
    answer = await http.post(path, json=first, headers=headers)
    if protocol == "a2a":  # its package refuses them here
        assert entrance.error(answer)
        del first["unheardOf"]
        answer = await http.post(path, json=first, headers=headers)
    assert answer.status_code == 200, answer.text
    if not entrance.history:
        return
    before = sum((await stored(http))[0].values())
    last = msgspec.json.decode(whole.replace(b'"m9"', b'"m10"').replace(b'"r9"', b'"r10"'))
    inner, name = place(changed(last, entrance.text, "x" * 100_000), entrance.history)
    earlier = msgspec.json.encode(inner[name][0]).replace(b'"role":"user"', b'"role":"assistant"')
    earlier = earlier.replace(b'"type":"human"', b'"type":"ai"')
    history = [msgspec.json.decode(earlier.replace(b'"m10"', b'"old %d"' % n)) for n in range(HISTORY // 100_000)]
    inner, name = place(last, entrance.history)
    answer = await http.post(path, json=changed(last, entrance.history, [*history, *inner[name]]), headers=headers)
    assert answer.status_code == 200, answer.text[:500]
    assert 0 < sum((await stored(http))[0].values()) - before < 200, "one more round"


_SAID = {"messages": [{"type": "human", "content": "weather"}]}
_PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
_TOO_LARGE = 10**30


def with_picture(**more: Any) -> Json:
    return {"messages": [{"type": "human", "content": [_PICTURE | more]}]}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("runs/wait", {"input": _SAID, "config": {"metadata": "x"}, "metadata": {"a": 1}}, 422),
        ("runs/wait", {"input": with_picture(extras="x", metadata={"filename": 5})}, 200),
        ("history", {"before": {"configurable": "x"}}, 200),
        ("history", {"before": {"configurable": {"checkpoint_id": "none"}}}, 200),
        ("/langgraph/threads/search", {"values": {"a": 1}}, 422),
        ("state", {"values": {}, "checkpoint": {"checkpoint_id": [1]}}, 404),
        (f"runs?offset={_TOO_LARGE}", None, 200),
    ],
)
async def test_fields_of_another_type_or_size_are_no_failure_of_the_server(
    http: httpx2.AsyncClient, path: str, body: Json | None, status: int
) -> None:
    thread = {"assistant_id": "demo", "if_not_exists": "create", "input": _SAID}
    assert (await http.post("/langgraph/threads/types/runs/wait", json=thread)).status_code == 200
    url = path if path.startswith("/") else f"/langgraph/threads/types/{path}"
    answer = await (http.get(url) if body is None else http.post(url, json=body))
    assert answer.status_code == status, answer.text


async def test_a_number_that_no_position_has_is_behind_the_last_one(http: httpx2.AsyncClient) -> None:
    wanted = {"offset": _TOO_LARGE, "limit": _TOO_LARGE, "max_depth": _TOO_LARGE}
    answer = await http.post("/langgraph/store/namespaces", json=wanted)
    assert (answer.status_code, answer.json()) == (200, {"namespaces": []})


async def test_the_name_of_a_file_that_is_no_text_is_left_out(http: httpx2.AsyncClient) -> None:
    file = {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk=", "filename": 5}}
    said = [{"role": "user", "content": [{"type": "text", "text": "weather"}, file]}]
    answer = await http.post("/v1/chat/completions", json={"model": "demo", "messages": said})
    assert answer.status_code == 200, answer.text


async def test_the_id_that_a_client_gives_to_a_run_is_short(http: httpx2.AsyncClient) -> None:
    before = await stored(http)
    answer = await http.post("/ag-ui/demo", json={**_AGUI, "threadId": "long id", "runId": "r" * 201})
    assert (answer.status_code, answer.json()["field"]) == (422, "runId")
    assert await stored(http) == before
