"""The thread protocol: the SDK's thread streams, over SSE and WebSocket."""

import json
from typing import Any

import httpx2
import pytest
from langgraph_sdk.client import LangGraphClient
from websockets.asyncio.client import connect

from stellwerk.ids import random_token


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"type": "human", "content": text}]}


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_a_thread_is_begun_by_its_stream_and_goes_on_with_a_second_run(
    sdk: LangGraphClient, transport: Any
) -> None:
    name = random_token(22)
    async with sdk.threads.stream(name, assistant_id="demo", transport=transport) as thread:
        await thread.run.start(input=said("weather"))
        messages = [message async for message in thread.messages]
        assert "sunny" in await messages[-1].text
        assert "sunny" in (await thread.output)["messages"][-1]["content"]
    async with sdk.threads.stream(name, assistant_id="demo", transport=transport) as thread:
        await thread.run.start(input=said("table"))
        assert "columns" in (await thread.output)["messages"][-1]["content"]


async def test_a_question_is_answered_by_a_command(sdk: LangGraphClient, http: httpx2.AsyncClient) -> None:
    name = random_token(22)
    asked: Any = await sdk.runs.wait(name, "demo", input=said("ask"), if_not_exists="create")
    (interrupt,) = asked["__interrupt__"]
    command = {"id": 1, "method": "input.respond"}
    params = {"namespace": [], "interrupt_id": interrupt["id"], "response": "blue"}
    answer = (await http.post(f"/threads/{name}/commands", json={**command, "params": params})).json()
    assert answer["type"] == "success"
    await sdk.runs.join(name, answer["result"]["run_id"])
    again = (await http.post(f"/threads/{name}/commands", json={**command, "params": params})).json()
    assert (again["type"], again["error"]) == ("error", "no_such_interrupt")


async def test_commands_that_are_not_supported_say_so(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/threads/any/commands", json={"id": 3, "method": "state.fork", "params": {}})
    assert answer.status_code == 200
    assert answer.json()["error"] == "not_supported"


async def test_a_connection_has_one_subscription_of_an_id_and_a_hundred_at_most(url: str) -> None:
    address = f"ws{url.removeprefix('http')}/threads/{random_token(22)}/stream/events"
    async with connect(address) as socket:

        async def subscribe(number: int) -> Any:
            command = {"id": number, "method": "subscription.subscribe", "params": {"channels": ["values"]}}
            await socket.send(json.dumps(command))
            return json.loads(await socket.recv())

        answers = [await subscribe(number) for number in [0, *range(101)]]
    refused = [answer["message"] for answer in answers if answer["type"] == "error"]
    assert ["subscription 's0'" in refused[0], "at most 100" in refused[1], len(refused)] == [True, True, 2]
