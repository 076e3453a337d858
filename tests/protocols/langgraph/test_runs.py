"""Runs over LangGraph's API: streams, joins, cancels, queues, answers, and bad requests."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from httpx import HTTPStatusError
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

Refused = (APIStatusError, HTTPStatusError)


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text, **more}]}


def frames(text: str) -> list[tuple[str, str, Any]]:
    """Event, id and data of each block."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in lines:
            found.append((lines["event"], lines["id"], json.loads(lines["data"])))
    return found


async def thread_of(sdk: LangGraphClient) -> str:
    return str((await sdk.threads.create())["thread_id"])


async def test_the_answer_of_a_tool_and_its_call_have_the_ids_of_the_stream(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    modes: Any = ["messages-tuple", "values"]
    parts = [part async for part in sdk.runs.stream(thread, "demo", input=said("weather", id="m-1"), stream_mode=modes)]
    state: Any = await sdk.threads.get_state(thread)
    stored = state["values"]["messages"]
    assert [message["type"] for message in stored] == ["human", "ai", "tool", "ai"]
    assert stored[0]["id"] == "m-1"
    streamed = {part.data[0]["id"] for part in parts if part.event == "messages"}
    assert streamed == {message["id"] for message in stored[1:]}


async def test_a_run_is_joined_where_its_reader_was_cut_off(sdk: LangGraphClient, http: httpx2.AsyncClient) -> None:
    thread = await thread_of(sdk)
    body = {"assistant_id": "demo", "input": said("weather"), "stream_mode": ["values", "messages-tuple"]}
    whole = await http.post(f"/threads/{thread}/runs/stream", json=body)
    place = whole.headers["content-location"]
    assert place.startswith(f"/threads/{thread}/runs/")
    seen = frames(whole.text)
    again = whole.headers["location"]
    for _, last, _ in (seen[0], seen[4], seen[-1]):
        rest = await http.get(again, headers={"Last-Event-ID": last})
        assert frames(rest.text) == seen[[each[1] for each in seen].index(last) + 1 :]
    everything = await http.get(again, headers={"Last-Event-ID": "-1"})
    assert frames(everything.text) == seen
    all_modes = await http.get(f"{place}/stream")
    assert {event for event, _, _ in frames(all_modes.text)} >= {"metadata", "values", "updates", "messages"}


async def test_a_message_that_is_enqueued_has_a_run_of_its_own_that_can_be_joined_or_cancelled(
    sdk: LangGraphClient,
) -> None:
    thread = await thread_of(sdk)
    first = await sdk.runs.create(thread, "demo", input=said("slow"))
    second = await sdk.runs.create(thread, "demo", input=said("weather"))
    third = await sdk.runs.create(thread, "demo", input=said("table"))
    assert [run["status"] for run in await sdk.runs.list(thread)][:2] == ["pending", "pending"]
    with pytest.raises(Refused) as busy:
        await sdk.runs.create(thread, "demo", input=said("hi"), multitask_strategy="reject")
    assert busy.value.response.status_code == 409
    await sdk.runs.cancel(thread, third["run_id"])
    joining = asyncio.create_task(sdk.runs.join(thread, second["run_id"]))
    await sdk.runs.cancel(thread, first["run_id"], wait=True)
    assert (await sdk.runs.get(thread, first["run_id"]))["status"] == "interrupted"
    joining.cancel()


async def test_another_message_interrupts_a_run(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    first = await sdk.runs.create(thread, "demo", input=said("slow"))
    values: Any = await sdk.runs.wait(thread, "demo", input=said("weather"), multitask_strategy="interrupt")
    assert "sunny" in values["messages"][-1]["content"]
    assert (await sdk.runs.get(thread, first["run_id"]))["status"] == "interrupted"


async def test_a_rollback_takes_back_the_round_under_way(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    await sdk.runs.create(thread, "demo", input=said("slow"))
    values: Any = await sdk.runs.wait(thread, "demo", input=said("weather"), multitask_strategy="rollback")
    assert [message["content"] for message in values["messages"] if message["type"] == "human"] == ["weather"]


async def test_a_run_stops_with_its_reader_if_that_is_asked_for(sdk: LangGraphClient, http: httpx2.AsyncClient) -> None:
    thread = await thread_of(sdk)
    body = {"assistant_id": "demo", "input": said("slow"), "on_disconnect": "cancel", "stream_mode": "values"}
    async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
        await anext(response.aiter_text())
    (run,) = await sdk.runs.list(thread)
    await sdk.runs.join(thread, run["run_id"])
    assert (await sdk.runs.get(thread, run["run_id"]))["status"] == "interrupted"


async def test_a_text_while_one_question_is_open_is_its_answer(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    asked: Any = await sdk.runs.wait(thread, "demo", input=said("ask"))
    assert asked["__interrupt__"][0]["value"]["options"] == ["red", "green", "blue"]
    with pytest.raises(Refused) as wrong:
        await sdk.runs.wait(thread, "demo", input=said("purple"))
    assert wrong.value.response.status_code == 422
    values: Any = await sdk.runs.wait(thread, "demo", input=said("blue"), config={"recursion_limit": 50})
    assert values["messages"][-1]["content"] == "You answered: blue"


async def test_a_question_is_left_with_a_goto_to_the_end(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    await sdk.runs.wait(thread, "demo", input=said("ask"))
    await sdk.runs.wait(thread, "demo", command={"goto": "__end__"})
    assert (await sdk.threads.get(thread))["status"] == "idle"
    with pytest.raises(Refused) as elsewhere:
        await sdk.runs.wait(thread, "demo", command={"goto": "tools"})
    assert elsewhere.value.response.status_code == 422


async def test_a_sub_agent_is_a_call_of_task_with_its_work_in_a_namespace(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    modes: Any = ["values", "messages-tuple"]
    stream = sdk.runs.stream(thread, "demo", input=said("delegate"), stream_mode=modes, stream_subgraphs=True)
    parts = [part async for part in stream]
    (call,) = [call for message in parts[-1].data["messages"] for call in message.get("tool_calls", ())]
    assert (call["name"], call["args"]["subagent_type"]) == ("task", "researcher")
    assert {part.event.partition("|")[2] for part in parts} == {"", f"tools:{call['id']}"}


async def test_a_session_that_was_begun_natively_is_a_thread(sdk: LangGraphClient, served: str) -> None:
    async with httpx2.AsyncClient(base_url=served) as native:
        session = (await native.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        await native.post(f"/sessions/{session}/messages", json={"text": "weather"})
    runs = await sdk.runs.list(session)
    await sdk.runs.join(session, runs[0]["run_id"])
    values: Any = (await sdk.threads.get_state(session))["values"]
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]
    after: Any = await sdk.runs.wait(session, "demo", input=said("table"))
    assert len(after["messages"]) > 4


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"assistant_id": 7}', 422),
        (b'{"assistant_id": "demo"}', 422),
        (b'{"assistant_id": "demo", "input": "hi"}', 422),
        (b'{"assistant_id": "demo", "input": {"messages": [{"type": "ai", "content": "hi"}]}}', 422),
        (b'{"assistant_id": "demo", "input": {"messages": ["hi"]}, "stream_mode": "all"}', 422),
        (b'{"assistant_id": "demo", "input": {"messages": ["hi"]}, "multitask_strategy": "later"}', 422),
        (b'{"assistant_id": "demo", "input": {"messages": ["hi"]}, "interrupt_before": "*"}', 422),
        (b'{"assistant_id": "demo", "command": {"resume": "yes"}}', 409),
        (b'{"assistant_id": "nowhere", "input": {"messages": ["hi"]}}', 422),
    ],
)
async def test_a_bad_request_is_an_error_with_a_detail_and_stores_nothing(
    sdk: LangGraphClient, http: httpx2.AsyncClient, body: bytes, status: int
) -> None:
    thread = await thread_of(sdk)
    refused = await http.post(f"/threads/{thread}/runs/stream", content=body)
    assert refused.status_code == status
    assert refused.json()["detail"]
    assert (await sdk.threads.get(thread))["values"] is None


async def test_a_history_of_ten_mebibytes_is_taken_for_its_last_message(sdk: LangGraphClient) -> None:
    thread = await thread_of(sdk)
    earlier = [{"type": "human", "content": "x" * 60_000, "id": f"m-{n}"} for n in range(170)]
    given: dict[str, Any] = {
        "messages": [*earlier, {"type": "human", "content": "weather", "id": "m-last"}],
        "other": 1,
    }
    values: Any = await sdk.runs.wait(thread, "demo", input=given)
    assert [message["type"] for message in values["messages"]] == ["human", "ai", "tool", "ai"]


async def test_what_is_not_served_says_what_to_use_in_its_place(http: httpx2.AsyncClient) -> None:
    for method, path in (("POST", "/threads/prune"), ("POST", "/assistants"), ("POST", "/runs/batch")):
        answer = await http.request(method, path, json={})
        assert answer.status_code == 501
        assert answer.json()["detail"]
    assert (await http.get("/ok")).json() == {"ok": True}
    assert (await http.get("/info")).json()["flags"]["assistants"] is True
