"""A server that goes down in the middle of a task: the peer sees an error, and subscribes to the rest."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError

from tests.crash.process import ServerProcess, server_process
from tests.protocols.a2a.peers import Seen, message, peer_of, say, shown

FIRST_WORDS, LAST_WORDS = "Now I speak slowly", "You may ask me again."


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [ServerProcess.kill, ServerProcess.stop])
async def test_a_task_and_a_question_are_there_after_the_server_went_down(
    tmp_path: Path, how: Callable[[ServerProcess], None]
) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors"
    cut = Seen()
    with server_process(data, errors=errors, demo=True) as server:
        async with peer_of(server.address) as peer:
            asked = await say(peer, "ask")
            try:
                # The agent is silent for five seconds, longer than this client waits for the next event.
                async for event in peer.send_message(message("slow")):
                    cut.add(event)
                    if "slowly" in cut.text:
                        await asyncio.to_thread(how, server)
            except (A2AClientError, A2AError, httpx.HTTPError) as error:
                cut.question = type(error).__name__
    assert (cut.state, bool(cut.question)) == ("WORKING", True)
    with server_process(data, errors=errors, demo=True) as later:
        async with peer_of(later.address) as peer:
            rest = shown(await peer.get_task(pb.GetTaskRequest(id=cut.task_id)))
            if rest.state == "WORKING":
                async for event in peer.subscribe(pb.SubscribeToTaskRequest(id=cut.task_id)):
                    rest.add(event)
            whole = shown(await peer.get_task(pb.GetTaskRequest(id=cut.task_id)))
            answered = await say(peer, "green", task_id=asked.task_id)
    assert rest.state == "COMPLETED"
    assert rest.text == whole.text
    assert [whole.text.count(words) for words in (FIRST_WORDS, LAST_WORDS)] == [1, 1]
    assert whole.text.startswith(cut.text[: cut.text.index("slowly")])
    assert "You answered: green" in answered.text
