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
from tests.protocols.ai_sdk.test_restarts import ANSWER, SLOW


@pytest.mark.timeout(240)
@pytest.mark.parametrize("how", [ServerProcess.kill, ServerProcess.stop])
async def test_a_task_and_a_question_are_there_after_the_server_went_down(
    tmp_path: Path, how: Callable[[ServerProcess], None]
) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors"
    cut = Seen()
    with server_process(data, errors=errors, demo=True, serves=[str(SLOW)]) as server:
        async with peer_of(server.address) as demo, peer_of(server.address, system="slow") as peer:
            asked = await say(demo, "ask")
            try:
                async for event in peer.send_message(message("count")):
                    cut.add(event)
                    if len(cut.text) > 20 and not server.out.closed:
                        await asyncio.to_thread(how, server)
            except (A2AClientError, A2AError, httpx.HTTPError) as error:
                cut.question = type(error).__name__
    assert (cut.state, bool(cut.question)) == ("WORKING", True)
    with server_process(data, errors=errors, demo=True, serves=[str(SLOW)]) as later:
        async with peer_of(later.address) as demo, peer_of(later.address, system="slow") as peer:
            rest = shown(await peer.get_task(pb.GetTaskRequest(id=cut.task_id)))
            if rest.state == "WORKING":
                async for event in peer.subscribe(pb.SubscribeToTaskRequest(id=cut.task_id)):
                    rest.add(event)
            whole = shown(await peer.get_task(pb.GetTaskRequest(id=cut.task_id)))
            answered = await say(demo, "green", task_id=asked.task_id)
    assert rest.state == "COMPLETED"
    assert rest.text == whole.text
    assert whole.text == ANSWER
    assert whole.text.startswith(cut.text[:20])
    assert "You answered: green" in answered.text
