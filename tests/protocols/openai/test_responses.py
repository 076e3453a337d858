"""OpenAI's responses: a response is a run, a conversation is a session, and a stream can be resumed by number."""

from collections.abc import AsyncIterator

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


async def test_a_response_is_streamed_as_the_client_accumulates_it(client: AsyncOpenAI) -> None:
    async with client.responses.stream(model="demo", input="How is the weather?") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert "It is sunny." in final.output_text
    assert [item.phase for item in final.output if item.type == "message"] == ["commentary", "final_answer"]
    assert final.usage is not None
    assert (await client.responses.retrieve(final.id)).output_text == final.output_text


async def test_a_conversation_continues_by_the_previous_response(client: AsyncOpenAI) -> None:
    asked = await client.responses.create(model="demo", input="ask")
    assert "?" in asked.output_text
    answered = await client.responses.create(model="demo", input="blue", previous_response_id=asked.id)
    assert "blue" in answered.output_text
    assert answered.conversation is not None
    named = await client.responses.create(model="demo", input="table", conversation=answered.conversation.id)
    assert named.conversation == answered.conversation


async def test_a_stream_is_resumed_behind_the_last_event_that_was_received(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="demo", input="How is the weather?")
    whole = [event async for event in await client.responses.retrieve(response.id, stream=True)]
    rest = [event async for event in await client.responses.retrieve(response.id, stream=True, starting_after=7)]
    assert [event.sequence_number for event in whole] == list(range(len(whole)))
    assert rest == whole[8:]


async def test_a_response_in_the_background_is_polled_and_cancelled(client: AsyncOpenAI) -> None:
    response = await client.responses.create(model="demo", input="slow", background=True)
    assert response.status == "in_progress"
    cancelled = await client.responses.cancel(response.id)
    assert cancelled.status == "cancelled"
    assert (await client.responses.retrieve(response.id)).status == "cancelled"


async def test_a_run_that_fails_is_a_failed_response(client: AsyncOpenAI) -> None:
    failed = await client.responses.create(model="demo", input="fail")
    assert failed.status == "failed"
    assert failed.error is not None


async def test_an_unknown_response_is_not_found(client: AsyncOpenAI) -> None:
    for call in (client.responses.retrieve("resp_nowhere"), client.responses.cancel("resp_nowhere")):
        with pytest.raises(openai.NotFoundError, match="there is no response"):
            await call
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="demo", input="hi", previous_response_id="resp_nowhere")
