"""OpenAI's own Python client drives an agent system as a model."""

from collections.abc import AsyncIterator

import httpx2
import openai
import pytest
from openai import AsyncOpenAI

from stellwerk.app import Parts
from tests.conftest import without_pauses
from tests.protocols.openai.clients import async_client_of


@pytest.fixture(scope="module")
def parts() -> Parts:
    return Parts(demo_systems=without_pauses)


@pytest.fixture
async def client(shared_address: str) -> AsyncIterator[AsyncOpenAI]:
    async with async_client_of(shared_address) as made:
        yield made


async def test_agent_systems_are_models(client: AsyncOpenAI) -> None:
    models = [model.id async for model in client.models.list()]
    assert "demo" in models
    assert (await client.models.retrieve("demo")).owned_by == "stellwerk"


async def test_an_answer_is_streamed_and_has_its_usage(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": "How is the weather?"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "It is sunny." in text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


async def test_an_answer_that_is_not_streamed_is_the_result_of_the_run(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "How is the weather?"}]
    )
    assert (answer.choices[0].message.content or "").startswith("It is sunny.")
    assert answer.usage is not None


async def test_a_session_by_header_remembers_and_is_a_native_session(client: AsyncOpenAI, shared_address: str) -> None:
    said = []
    for text in ("How is the weather?", "ask", "blue"):
        raw = await client.chat.completions.with_raw_response.create(
            model="demo", messages=[{"role": "user", "content": text}], extra_headers={"X-Session-Id": "chat 7"}
        )
        said.append((raw.headers["X-Session-Id"], raw.parse().choices[0].message.content or ""))
    ((session_id, _), (_, question), (_, answer)) = said
    assert "?" in question
    assert "blue" in answer
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        messages = (await native.get(f"/sessions/{session_id}/messages")).json()["messages"]
    assert [message["text"] for message in messages if message["role"] == "user"][:2] == [
        "How is the weather?",
        "ask",
    ]


async def test_an_unknown_model_and_bad_requests_are_errors_in_the_form_of_the_protocol(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="nowhere", messages=[{"role": "user", "content": "hi"}])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.UnprocessableEntityError, match="leave tools out"):
        await client.chat.completions.create(
            model="demo",
            messages=[{"role": "user", "content": "hi"}],
            tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
        )


async def test_a_run_that_fails_is_an_error_also_in_the_middle_of_a_stream(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.InternalServerError):
        await client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "fail"}])
    stream = await client.chat.completions.create(
        model="demo", messages=[{"role": "user", "content": "fail"}], stream=True
    )
    with pytest.raises(openai.APIError):
        async for _ in stream:
            pass
