"""A server that goes down in the middle of an answer: the client sees an error, and the answer is there once, whole."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.responses import ResponseStreamEvent

from tests.crash.process import ServerProcess, server_process
from tests.protocols.openai.clients import client_of

LAST_WORDS = "You may ask me again."


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(data, errors=tmp_path / "errors", demo=True) as process:
        yield process


@pytest.mark.parametrize("how", [ServerProcess.kill, ServerProcess.stop])
def test_a_response_that_was_cut_off_is_continued_behind_the_last_event(
    server: ServerProcess, how: Callable[[ServerProcess], None], data: Path, tmp_path: Path
) -> None:
    seen: list[ResponseStreamEvent] = []
    response_id = ""
    with client_of(server.address) as client, pytest.raises((openai.APIError, httpx.HTTPError)):
        for event in client.responses.create(model="demo", input="slow", stream=True):
            seen.append(event)
            if event.type == "response.created":
                response_id = event.response.id
            if "slowly" in getattr(event, "delta", ""):
                how(server)
    assert response_id
    assert "response.completed" not in [event.type for event in seen]
    with server_process(data, errors=tmp_path / "errors", demo=True) as later, client_of(later.address) as client:
        rest = client.responses.retrieve(response_id, stream=True, starting_after=seen[-1].sequence_number)
        seen += list(rest)
        whole = client.responses.retrieve(response_id)
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert seen[-1].type == "response.completed"
    assert whole.output_text.count(LAST_WORDS) == 1


@pytest.mark.parametrize("how", [ServerProcess.kill, ServerProcess.stop])
def test_a_completion_that_was_cut_off_is_an_error_and_never_an_answer(
    server: ServerProcess, how: Callable[[ServerProcess], None]
) -> None:
    count, finished = 0, []
    with client_of(server.address) as client, pytest.raises((openai.APIError, httpx.HTTPError)):
        stream = client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "slow"}], stream=True
        )
        for count, chunk in enumerate(stream, 1):
            finished += [choice.finish_reason for choice in chunk.choices if choice.finish_reason]
            if count == 8:
                how(server)
    assert (count >= 8, finished) == (True, [])
