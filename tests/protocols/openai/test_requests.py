"""What clients of OpenAI's API send: files, whole histories, repeated and broken requests."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pytest
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic import SecretStr

from stellwerk.app import Parts
from tests import keyed
from tests.conftest import without_pauses
from tests.protocols.openai.clients import async_client_of

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not much of a picture").decode()


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def client(shared_address: str) -> AsyncIterator[AsyncOpenAI]:
    async with async_client_of(shared_address) as made:
        yield made


@pytest.fixture
async def http(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as made:
        yield made


async def sessions(http: httpx2.AsyncClient) -> int:
    return len((await http.get("/sessions", params={"limit": 500})).json()["sessions"])


async def test_a_file_inside_of_a_message_is_a_file_of_the_session(
    client: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="demo",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "How is the weather?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            }
        ],
    )
    messages = (await http.get(f"/sessions/{raw.headers['X-Session-Id']}/messages")).json()["messages"]
    (document,) = messages[0]["documents"]
    download = await http.get(f"/files/{document}")
    assert (download.headers["content-type"], download.content) == ("image/png", base64.b64decode(PIXEL))


async def test_the_messages_before_the_last_one_are_the_history_of_a_new_session(
    client: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="demo",
        messages=[
            {"role": "system", "content": "You are somebody else."},
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Hello Ada."},
            {"role": "user", "content": "How is the weather?"},
        ],
    )
    messages = (await http.get(f"/sessions/{raw.headers['X-Session-Id']}/messages")).json()["messages"]
    assert [message["text"] for message in messages[:3]] == ["My name is Ada.", "Hello Ada.", "How is the weather?"]


async def test_a_history_of_ten_mebibytes_is_taken_and_only_its_last_message_is_sent(
    client: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    await client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "weather"}], extra_headers={"X-Session-Id": "long"}
    )
    history: list[Any] = [{"role": "assistant", "content": "x" * 1024 * 1024} for _ in range(10)]
    raw = await client.chat.completions.with_raw_response.create(
        model="demo",
        messages=[*history, {"role": "user", "content": "table"}],
        extra_headers={"X-Session-Id": "long"},
    )
    log = await http.get(f"/sessions/{raw.headers['X-Session-Id']}/messages")
    assert len(log.content) < 10_000


async def test_a_request_with_the_same_key_is_one_message(client: AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    headers = {"X-Session-Id": "once", "Idempotency-Key": "k1"}
    answers = []
    for _ in range(2):
        answer = await client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "weather"}], extra_headers=headers
        )
        answers.append((answer.id, answer.choices[0].message.content))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"{", 400, "body"),
        (b"[" * 100_000, 422, "body"),
        (b'{"model": "demo", "messages": []}', 422, "messages"),
        (b'{"model": "demo"}', 422, "body"),
        (b'{"model": 7, "messages": []}', 422, "model"),
        (b'{"model": "demo", "messages": [{"role": "user", "content": ""}]}', 422, "messages"),
        (b'{"model": "demo", "messages": [{"role": "user", "content": "hi"}], "n": 2}', 422, "n"),
        (b'{"model": "demo", "messages": [{"role": "user", "content": "%b"}]}' % (b"x" * 70_000), 422, "messages"),
        (
            b'{"model": "demo", "messages": [{"role": "user", "content": '
            b'[{"type": "image_url", "image_url": {"url": "http://127.0.0.1/"}}]}]}',
            422,
            "url",
        ),
    ],
)
async def test_a_bad_request_is_an_error_in_the_form_of_the_protocol_and_stores_nothing(
    http: httpx2.AsyncClient, body: bytes, status: int, param: str
) -> None:
    before = await sessions(http)
    answer = await http.post("/v1/chat/completions", content=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["param"] == param
    assert await sessions(http) == before


async def test_a_body_of_more_than_16_mebibytes_is_refused_in_the_form_of_the_protocol(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/v1/chat/completions", content=b" " * (17 * 1024 * 1024))
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"


async def test_housekeeping_tasks_of_a_client_are_refused_and_not_kept(http: httpx2.AsyncClient) -> None:
    before = await sessions(http)
    body = {"model": "demo", "messages": [{"role": "user", "content": "### Task: a title"}]}
    answer = await http.post("/v1/chat/completions", json=body, headers={"X-Stellwerk-Task": "title_generation"})
    assert answer.status_code == 422
    assert "task model" in answer.json()["error"]["message"]
    assert await sessions(http) == before


def chat_model(address: str, **more: Any) -> ChatOpenAI:
    key = keyed.shown_to(address).get("Authorization", "none").removeprefix("Bearer ")
    return ChatOpenAI(model="demo", base_url=f"{address}/v1", api_key=SecretStr(key), max_retries=0, **more)


@pytest.mark.parametrize("uses_responses", [False, True])
def test_langchain_uses_an_agent_system_as_a_chat_model(shared_address: str, uses_responses: bool) -> None:
    model = chat_model(shared_address, use_responses_api=uses_responses)
    pieces = [piece.text for piece in model.stream("How is the weather?")]
    assert len(pieces) > 3
    assert "It is sunny." in "".join(pieces)
    for text, answer in (
        ("table", "A table keeps its columns"),
        ("file", "stored once"),
        ("delegate", "The researcher"),
    ):
        assert answer in model.invoke(text).text
    with pytest.raises(openai.UnprocessableEntityError, match="leave tools out"):
        model.bind_tools([{"type": "function", "function": {"name": "f", "parameters": {}}}]).invoke("hi")


def test_langchain_answers_a_question_in_a_session_and_sees_a_failure(shared_address: str) -> None:
    model = chat_model(shared_address, default_headers={"X-Session-Id": "langchain"})
    assert model.invoke("ask").text.endswith("Which colour do you like?")
    assert model.invoke("blue").text == "You answered: blue"
    with pytest.raises(openai.APIError, match="the script of the demo says"):
        list(model.stream("fail"))
    assert "It is sunny." in model.invoke("weather").text
