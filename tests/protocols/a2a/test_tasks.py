"""A2A's own Python client drives agent systems: both bindings, the newest version and 0.3."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import ParseDict

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import server_beside, without_pauses
from tests.protocols.a2a.peers import Seen, message, peer_of, say, shown
from tests.protocols.ai_sdk.conftest import CHATS

EVERY = pytest.mark.parametrize(
    ("binding", "version"), [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "0.3")]
)


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the demo, and the system of chats.yaml."""
    settings = Settings(data=tmp_path_factory.mktemp("shared") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as found:
        yield found


@EVERY
async def test_a_task_streams_its_answer_and_is_found_again(shared_address: str, binding: str, version: str) -> None:
    async with peer_of(shared_address, binding=binding, version=version) as peer:
        seen = await say(peer, "How is the weather?")
        assert seen.state == "COMPLETED"
        assert "It is sunny." in seen.text
        found = shown(await peer.get_task(pb.GetTaskRequest(id=seen.task_id)))
        assert (found.text, found.state, found.context_id) == (seen.text, seen.state, seen.context_id)
        again = await say(peer, "table", context_id=seen.context_id)
    assert again.context_id == seen.context_id
    assert again.task_id != seen.task_id
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        messages = (await native.get(f"/sessions/{seen.context_id}/messages")).json()["messages"]
    assert [each["text"] for each in messages if each["role"] == "user"] == ["How is the weather?", "table"]


@EVERY
async def test_a_question_is_input_required_and_its_answer_continues_the_task(
    shared_address: str, binding: str, version: str
) -> None:
    async with peer_of(shared_address, binding=binding, version=version) as peer:
        asked = await say(peer, "ask")
        assert (asked.state, asked.question) == ("INPUT_REQUIRED", "Which colour do you like?")
        answered = await say(peer, "blue", task_id=asked.task_id, context_id=asked.context_id, message_id="b")
    assert answered.task_id == asked.task_id
    assert answered.state == "COMPLETED"
    assert "You answered: blue" in answered.text


@EVERY
@pytest.mark.parametrize(
    ("decision", "written"),
    [
        ({"type": "approve"}, "five"),
        ({"type": "edit", "edited_action": {"name": "write_report", "args": {"title": "B", "text": "seven"}}}, "seven"),
        ({"refused": True}, None),
    ],
)
async def test_a_call_is_approved_changed_or_refused_with_data(
    shared_address: str, binding: str, version: str, decision: dict[str, Any], written: str | None
) -> None:
    async with peer_of(shared_address, binding=binding, version=version, system="chats") as peer:
        asked = await say(peer, "pay")
        assert asked.state == "INPUT_REQUIRED"
        answer = message("", task_id=asked.task_id)
        del answer.message.parts[:]
        answer.message.parts.append(ParseDict({"data": decision}, pb.Part()))
        states = [event.status_update.status.state async for event in peer.send_message(answer)]
    assert states[-1] == pb.TASK_STATE_COMPLETED
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        whole = {"profile": "debug", "limit": "500"}
        log = (await native.get(f"/sessions/{asked.context_id}/events", params=whole)).json()["events"]
    args = {each["call_id"]: each["payload"]["args"] for each in log if each["type"] == "tool_start"}
    ended = [each for each in log if each["type"] == "tool_end" and each["payload"]["status"] == "ok"]
    assert [args[each["call_id"]]["text"] for each in ended] == ([] if written is None else [written])


async def test_a_message_to_a_busy_context_is_a_task_that_waits_for_its_turn(shared_address: str) -> None:
    async with peer_of(shared_address, system="chats") as peer, peer_of(shared_address, system="chats") as second:
        begun = asyncio.get_running_loop().create_future()

        async def first() -> Seen:
            seen = Seen()
            async for event in peer.send_message(message("pause", context_id="busy")):
                seen.add(event)
                if not begun.done():
                    begun.set_result(None)
            return seen

        running = asyncio.create_task(first())
        await begun
        waited = await say(second, "next", context_id="busy")
        done = await running
    assert (done.state, done.text) == ("COMPLETED", "Now I pause. \n\nThat was it.")
    assert (waited.state, waited.text, waited.context_id) == ("COMPLETED", "You said: next", done.context_id)


@pytest.mark.parametrize(("text", "answer"), [("table", "A table keeps"), ("delegate", "The researcher says:")])
async def test_tables_and_sub_agents_are_in_the_text(shared_address: str, text: str, answer: str) -> None:
    async with peer_of(shared_address) as peer:
        seen = await say(peer, text)
    said = [part.text for event in seen.events for part in event.status_update.status.message.parts]
    assert (seen.state, answer in seen.text) == ("COMPLETED", True)
    assert {"table": "make_table", "delegate": "researcher"}[text] in said


async def test_without_a_stream_the_answer_is_the_task(shared_address: str) -> None:
    async with peer_of(shared_address, streaming=False) as peer:
        seen = await say(peer, "How is the weather?", context_id="from a peer", message_id="m1")
        again = await say(peer, "How is the weather?", context_id="from a peer", message_id="m1")
        assert (seen.state, seen.context_id) == ("COMPLETED", "from a peer")
        assert "It is sunny." in seen.text
        assert again.task_id == seen.task_id
        listed = await peer.list_tasks(pb.ListTasksRequest(context_id="from a peer", include_artifacts=True))
        assert [task.id for task in listed.tasks] == [seen.task_id]
        assert listed.tasks[0].history[0].parts[0].text == "How is the weather?"
        everything = await peer.list_tasks(pb.ListTasksRequest(page_size=1))
        assert everything.next_page_token
        assert 0 < (await peer.list_tasks(pb.ListTasksRequest(page_size=-1))).page_size <= 100


async def test_data_without_a_task_is_said_as_json(shared_address: str) -> None:
    request = message("")
    del request.message.parts[:]
    request.message.parts.append(ParseDict({"data": {"colour": None, "sure": True}}, pb.Part()))
    async with peer_of(shared_address) as peer:
        seen = [event async for event in peer.send_message(request)]
        task = await peer.get_task(pb.GetTaskRequest(id=seen[0].task.id))
    assert task.history[0].parts[0].text == '{"colour":null,"sure":true}'


async def test_a_file_is_an_artifact_and_bytes_become_a_document(shared_address: str) -> None:
    request = message("file")
    request.message.parts.append(pb.Part(raw=b"a,b\n1,2\n", filename="t.csv", media_type="text/csv"))
    async with peer_of(shared_address) as peer:
        seen = [event async for event in peer.send_message(request)]
        task = await peer.get_task(pb.GetTaskRequest(id=seen[0].task.id))
    (link,) = shown(task).files
    async with httpx2.AsyncClient() as native:
        assert (await native.get(link)).status_code == 200
    assert [part.filename for part in task.history[0].parts][-1] == "t.csv"


async def test_a_run_that_fails_is_a_failed_task(shared_address: str) -> None:
    async with peer_of(shared_address) as peer:
        seen = await say(peer, "fail")
        with pytest.raises(errors.UnsupportedOperationError):
            await say(peer, "again", task_id=seen.task_id)
        with pytest.raises(errors.TaskNotCancelableError):
            await peer.cancel_task(pb.CancelTaskRequest(id=seen.task_id))
        with pytest.raises(errors.UnsupportedOperationError):
            _ = [event async for event in peer.subscribe(pb.SubscribeToTaskRequest(id=seen.task_id))]
    assert seen.state == "FAILED"


async def test_a_second_peer_subscribes_and_a_task_is_cancelled(shared_address: str) -> None:
    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with peer_of(shared_address) as peer, peer_of(shared_address, binding="HTTP+JSON") as second:

        async def first() -> str:
            last = ""
            async for event in peer.send_message(message("slow")):
                if not begun.done():
                    begun.set_result(event.task.id)
                last = pb.TaskState.Name(event.status_update.status.state)
            return last

        async def subscriber(task_id: str) -> str:
            last = ""
            async for event in second.subscribe(pb.SubscribeToTaskRequest(id=task_id)):
                if event.HasField("task"):
                    subscribed.set()
                last = pb.TaskState.Name(event.status_update.status.state)
            return last

        subscribed = asyncio.Event()
        running = asyncio.create_task(first())
        task_id = await begun
        watching = asyncio.create_task(subscriber(task_id))
        await subscribed.wait()
        cancelled = await peer.cancel_task(pb.CancelTaskRequest(id=task_id))
        assert shown(cancelled).state == "CANCELED"
        assert {await running, await watching} == {"TASK_STATE_CANCELED"}


async def test_bad_bodies_and_unknown_ids_are_errors_of_the_protocol(shared_address: str) -> None:
    async with httpx2.AsyncClient(base_url=f"{shared_address}/a2a/demo", headers={"A2A-Version": "1.0"}) as client:
        for body in (b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "Nothing"}', *_requests()):
            response = await client.post("/", content=body)
            error: dict[str, Any] = response.json()["error"]
            assert error["code"] < 0, body
        assert (await client.get("/tasks/nowhere")).status_code == 404
        assert (await client.post("/message:send", content=b"{")).status_code == 400
        assert (await client.get("/agent-systems")).status_code == 404
        assert (await client.get("/../nowhere/.well-known/agent-card.json")).status_code == 404
    async with httpx2.AsyncClient(base_url=shared_address) as native:
        assert (await native.get("/sessions")).json()["sessions"] is not None


def _requests() -> list[bytes]:
    start = b'{"jsonrpc": "2.0", "id": 1, "method": '
    return [
        start + b'"GetTask", "params": {"id": "nowhere"}}',
        start + b'"GetTask", "params": {"id": 7}}',
        start + b'"SendMessage", "params": {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}}',
        start + b'"SendMessage", "params": {}}',
        start + b'"ListTasks", "params": {"pageToken": "x"}}',
    ]
