"""An isolated graph does what it does in the server's process: the logs tell the same."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.agents.test_graphs_as_written import ASKED
from tests.golden.comparison import story
from tests.isolated.serving import begin, envelopes, events, server, target

DESK = f"desk={Path(__file__).parents[2]}/examples/own-graph/desk.py:graph"


async def both(tmp_path: Path, *targets: str, do: Any) -> tuple[Any, Any]:
    found = []
    for isolate in (False, True):
        async with server(tmp_path / str(isolate), *targets, isolate=isolate) as client:
            found.append(await do(client))
    return found[0], found[1]


async def shipped(client: httpx2.AsyncClient) -> Any:
    session = await begin(client, "shipping", "Please ship my lamp.")
    asked = await events(client, session)
    values = (await client.get(f"/sessions/{session}/state/values")).json()
    ask_id = asked[-2]["payload"]["ask_id"]
    await client.post(f"/sessions/{session}/answers", json={"ask_id": ask_id, "text": "yes"})
    whole = await events(client, session, ends=2)
    final = (await client.get(f"/sessions/{session}/state/values")).json()
    return story(envelopes(whole)), values["values"], values["next"], final["values"]


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_ids(each) for key, each in value.items() if key != "id"}
    return [without_ids(each) for each in value] if isinstance(value, list | tuple) else value


async def test_a_graph_with_tools_graphs_inside_threads_objects_and_questions_has_the_same_log_and_state(
    tmp_path: Path,
) -> None:
    here, isolated = await both(tmp_path, target("shipping"), do=shipped)
    assert here[0]["questions"], "the graph has to ask"
    assert here[0]["calls"], "and to call"
    assert without_ids(isolated) == without_ids(here)


async def test_the_example_graph_has_the_same_log(tmp_path: Path) -> None:
    async def do(client: httpx2.AsyncClient) -> Any:
        return story(envelopes(await events(client, await begin(client, "desk", "I need a lamp"))))

    here, isolated = await both(tmp_path, DESK, do=do)
    assert isolated == here


async def test_a_tool_message_may_have_an_object_as_its_content(tmp_path: Path) -> None:
    (tmp_path / "strange.py").write_text(ASKED, "utf-8")

    async def do(client: httpx2.AsyncClient) -> Any:
        session = await begin(client, "strange", "hello")
        end = (await events(client, session))[-1]["payload"]
        values = (await client.get(f"/sessions/{session}/state/values")).json()["values"]
        return end["status"], [message["content"] for message in values["messages"]]

    here, isolated = await both(tmp_path, f"strange={tmp_path}/strange.py:graph", do=do)
    assert here == ("completed", ["hello", "", "content='When?'", "Asked."])
    assert isolated == here


async def test_schemas_and_nodes_are_published_like_those_of_a_graph_in_process(tmp_path: Path) -> None:
    async def do(client: httpx2.AsyncClient) -> Any:
        (agent,) = (await client.get("/agent-systems/shipping")).json()["agents"]
        return agent

    here, isolated = await both(tmp_path, target("shipping"), do=do)
    assert here["nodes"]
    assert isolated == here


async def test_the_state_is_changed_forked_and_regenerated_alike(tmp_path: Path) -> None:
    async def do(client: httpx2.AsyncClient) -> Any:
        session = await begin(client, "desk", "I need a lamp")
        await events(client, session)
        changed = await client.post(f"/sessions/{session}/state", json={"values": {"total": 5}, "as_node": "pricing"})
        refused = await client.post(f"/sessions/{session}/state", json={"values": {"nothing": 5}})
        values = (await client.get(f"/sessions/{session}/state/values")).json()
        history = (await client.get(f"/sessions/{session}/state/history")).json()["checkpoints"]
        forked = (await client.post(f"/sessions/{session}/fork", json={})).json()
        copied = (await client.get(f"/sessions/{forked['id']}/state/values")).json()
        again = await client.post(f"/sessions/{session}/regenerate")
        whole = await events(client, session, ends=2)
        return (
            (changed.status_code, changed.json()["next"], refused.status_code, refused.json()["detail"]),
            (without_ids(values["values"]), values["next"], [each["node"] for each in history]),
            (without_ids(copied["values"]), again.status_code, story(envelopes(whole))),
        )

    here, isolated = await both(tmp_path, DESK, do=do)
    assert here[0][0] == 200
    assert isolated == here


@pytest.mark.parametrize("sent", [{"input": {"total": "many"}}, {"input": {"other": 1}}, {"text": "x", "context": {}}])
async def test_a_message_that_does_not_fit_the_graph_is_refused_alike(sent: dict[str, Any], tmp_path: Path) -> None:
    async def do(client: httpx2.AsyncClient) -> Any:
        session = (await client.post("/sessions", json={"agent_system_id": "desk"})).json()["id"]
        refused = await client.post(f"/sessions/{session}/messages", json=sent)
        return refused.status_code, refused.json()["detail"]

    here, isolated = await both(tmp_path, DESK, do=do)
    assert here[0] == 422
    assert isolated == here
