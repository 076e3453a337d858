"""Requests to chat endpoints as clients of the AI SDK send them, and as they should not."""

import base64
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from tests.conftest import without_pauses

Json = dict[str, Any]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
def client(shared_address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=f"{shared_address}/ai-sdk/demo", timeout=60) as made:
        yield made


def user(text: str, id_: str = "m1", **more: Any) -> Json:
    return {"id": id_, "role": "user", "parts": [{"type": "text", "text": text}], **more}


def chat(id_: str, *messages: Any, **more: Any) -> Json:
    return {"id": id_, "messages": list(messages), "trigger": "submit-message", **more}


def history(client: httpx2.Client, id_: str) -> list[Json]:
    found: list[Json] = client.get(f"/chat/{id_}").json()
    return found


def test_a_stream_has_the_header_of_the_protocol_and_ends_with_done(client: httpx2.Client) -> None:
    answer = client.post("/chat", json=chat("requests-1", user("hi"), foo={"bar": 1}))
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith('data: {"type":"start"') and answer.text.endswith("data: [DONE]\n\n")
    assert "\r" not in answer.text


def test_the_same_message_again_is_the_same_request(client: httpx2.Client) -> None:
    body = chat("requests-2", user("hi", "twice"))
    first, second = (client.post("/chat?from=useChat", json=body).text for _ in range(2))
    assert first == second
    assert [message["role"] for message in history(client, "requests-2")] == ["user", "assistant"]


def test_a_file_of_the_user_is_stored_and_shown_with_its_address(client: httpx2.Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    file = {"type": "file", "mediaType": "image/png", "filename": "dot.png", "url": url}
    message = user("see", "with-file")
    message["parts"].append(file)
    assert client.post("/chat", json=chat("requests-3", message)).status_code == 200
    shown = history(client, "requests-3")[0]["parts"][1]
    assert (shown["type"], shown["filename"], shown["mediaType"]) == ("file", "dot.png", "image/png")
    assert httpx2.get(shown["url"]).content == PNG
    changed = user("look", "with-file")
    changed["parts"].append(shown)
    assert client.post("/chat", json=chat("requests-3", changed, messageId="with-file")).status_code == 200
    first, _ = history(client, "requests-3")
    assert [part.get("text", part.get("url")) for part in first["parts"]] == ["look", shown["url"]]


def test_of_a_history_of_ten_mebibytes_only_the_last_message_is_read(client: httpx2.Client) -> None:
    old = [user("x" * 100_000, f"old-{number}") for number in range(100)]
    answer = client.post("/chat", json=chat("requests-4", {"nonsense": True}, *old, user("hi", "new")))
    assert answer.status_code == 200
    assert [message["id"] for message in history(client, "requests-4") if message["role"] == "user"] == ["new"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"[]", 422, "body"),
        (b'{"messages": []}', 422, "id"),
        (b'{"id": "requests-5", "messages": []}', 422, "messages: it is empty"),
        (b'{"id": "requests-5", "messages": [{"role": "user"}]}', 422, "id"),
        (b'{"id": "requests-5", "messages": [{"id": "m", "role": "robot"}]}', 422, "role"),
        (b'{"id": "requests-5", "messages": [1]}', 422, "messages: the last one"),
        (b'{"id": "requests-5", "messages": [{"id": "m", "role": "user", "parts": []}]}', 422, "text"),
        (b'{"id": "", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "a"}]}]}', 422, "id"),
        (b'{"id": "requests-5", "trigger": "explode", "messages": [1]}', 422, "trigger"),
        (
            b'{"id": "requests-5", "messages": [{"id": "m", "role": "user", "parts":'
            b' [{"type": "file", "mediaType": "image/png", "url": "https://example.org/a.png"}]}]}',
            422,
            "data: URL",
        ),
    ],
)
def test_a_bad_request_is_an_error_in_a_few_words_and_nothing_is_stored(
    client: httpx2.Client, body: bytes, status: int, said: str
) -> None:
    answer = client.post("/chat", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8")
    assert said in answer.text and "{" not in answer.text
    assert client.get("/chat/requests-5").status_code == 404


def test_unknown_systems_chats_and_answers_are_errors(client: httpx2.Client) -> None:
    client.post("/chat", json=chat("requests-6", user("hi")))
    assert client.post("/chat", json=chat("requests-6", user("hi", "m2"))).status_code == 200
    unknown = client.post("/../nowhere/chat", json=chat("requests-7", user("hi")))
    assert unknown.status_code == 404 and "nowhere" in unknown.text
    assert client.get("/chat/requests-7").status_code == 404
    assert client.get("/chat/requests-7/stream").status_code == 204
    answer = {
        "id": "x",
        "role": "assistant",
        "parts": [{"type": "tool-ask_user", "toolCallId": "c", "state": "output-available"}],
    }
    assert client.post("/chat", json=chat("requests-7", user("a"), answer)).status_code == 404
    refused = client.post("/chat", json=chat("requests-6", user("a"), answer))
    assert refused.status_code == 409 and "no open question" in refused.text
    long = client.post("/chat", json=chat("requests-6", user("x" * 70_000, "m3")))
    assert long.status_code == 422 and "at most" in long.text


def test_a_body_above_the_limit_is_an_error_as_text(client: httpx2.Client) -> None:
    answer = client.post("/chat", content=b" " * (17 * 1024 * 1024), headers={"content-type": "application/json"})
    assert answer.status_code == 413 and answer.headers["content-type"].startswith("text/plain")
