"""The state of a graph over HTTP: read, listed by checkpoint, and changed; each change is a fact in the log."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk import Client
from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from stellwerk.testing.order import order_problems
from tests.api.reading import whole_round
from tests.conftest import server_beside
from tests.crash.process import server_process
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, seen, send, stop

GRAPHS = Path(__file__).parent / "state_graphs.py"
NAMES = ("notes", "dynamic", "reviewed", "asking", "large", "chat", "functional", "endless")
TARGETS = [f"{name}={GRAPHS}:{name}" for name in NAMES]
YAML = """
version: 1
system: {name: yaml-agent}
agents:
- {id: one, mission: m, model: {provider: scripted, script: [{steps: [{say: "Hello."}]}]}}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with server_beside(Settings(data=tmp_path_factory.mktemp("state") / "data"), own=systems_of(TARGETS)) as found:
        yield found


@pytest.fixture
async def client(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as made:
        yield made


async def values(client: httpx2.AsyncClient, sid: str, **query: str) -> dict[str, Any]:
    found = await client.get(f"/sessions/{sid}/state/values", params=query)
    assert found.status_code == 200, found.text
    return dict(found.json())


async def history(client: httpx2.AsyncClient, sid: str, **query: str | int) -> dict[str, Any]:
    found = await client.get(f"/sessions/{sid}/state/history", params=query)
    assert found.status_code == 200, found.text
    return dict(found.json())


async def change(client: httpx2.AsyncClient, sid: str, given: Any, **more: Any) -> dict[str, Any]:
    changed = await client.post(f"/sessions/{sid}/state", json={"values": given, **more})
    assert changed.status_code == 200, changed.text
    return dict(changed.json())


async def answered(client: httpx2.AsyncClient, sid: str, **given: Any) -> dict[str, Any]:
    """The end of the run that the answer starts."""
    accepted = await answer(client, sid, **given)
    return dict((await rest_of_run(client, sid, accepted["after"]))[-1]["payload"])


async def in_order(client: httpx2.AsyncClient, sid: str) -> None:
    assert order_problems(log_of(await events(client, sid))) == []


async def test_the_values_are_those_of_the_graph_with_its_reducers(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    empty = await values(client, sid)
    assert (empty["values"], empty["next"], empty["checkpoint_id"]) == ({}, [], None)
    await whole_round(client, sid, "one")
    await whole_round(client, sid, "two")
    now = await values(client, sid)
    assert now["values"] == {
        "input": "two",
        "notes": ["first one", "second in en", "first two", "second in en"],
    }
    assert (now["next"], now["tasks"], now["source"]) == ([], [], "loop")
    assert now["created_at"] > 1.7e9


async def test_tasks_show_the_interrupt_that_waits_for_an_answer(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "asking")
    await whole_round(client, sid, "one")
    now = await values(client, sid)
    assert now["next"] == ["ask"]
    [task] = now["tasks"]
    assert (task["name"], [each["value"] for each in task["interrupts"]]) == ("ask", ["Which one?"])
    asked = (await client.get(f"/sessions/{sid}/state")).json()["questions"]
    assert [each["ask_id"] for each in asked] == [each["id"] for each in task["interrupts"]]


async def test_bytes_and_long_texts_are_files_and_long_lists_stay_lists(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "large")
    await whole_round(client, sid, "go")
    shown = (await values(client, sid))["values"]
    assert shown["many"] == ["y" * 1000] * 400
    for key, content in (("attachment", b"\x89PNG\r\n\x1a\n\x00"), ("long", b"x" * 300_000)):
        file = await client.get(f"/files/{shown[key]['document_id']}")
        assert (file.status_code, file.content) == (200, content)


async def test_history_lists_the_checkpoints_and_each_has_its_values(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    page = await history(client, sid)
    assert page["next"] is None
    listed = page["checkpoints"]
    assert [each["source"] for each in listed] == ["loop", "loop", "loop", "input"]
    assert [each["node"] for each in listed[:2]] == ["second", "first"]
    assert [each["next"] for each in listed[:3]] == [[], ["second"], ["first"]]
    [run] = {each["run_id"] for each in listed}
    assert run == (await events(client, sid))[0]["run_id"]
    assert [each["parent_checkpoint_id"] for each in listed] == [each["checkpoint_id"] for each in listed[1:]] + [None]
    middle = await values(client, sid, checkpoint_id=listed[1]["checkpoint_id"])
    assert (middle["values"]["notes"], middle["next"]) == (["first one"], ["second"])
    paged: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        part = await history(client, sid, **query)
        paged += [each["checkpoint_id"] for each in part["checkpoints"]]
        if part["next"] is None:
            break
        query["before"] = part["next"]
    assert paged == [each["checkpoint_id"] for each in listed]


async def test_unknown_checkpoints_and_sessions_are_404(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    asked = [
        client.get(f"/sessions/{sid}/state/values", params={"checkpoint_id": "nowhere"}),
        client.get(f"/sessions/{sid}/state/history", params={"before": "nowhere"}),
        client.post(f"/sessions/{sid}/state", json={"values": {"input": "x"}, "checkpoint_id": "nowhere"}),
    ]
    for found in await asyncio.gather(*asked):
        assert (found.status_code, found.json()["code"]) == (404, "unknown_checkpoint"), found.text
        assert "state/history" in found.json()["detail"]
    for found in [
        await client.get("/sessions/nobody/state/values"),
        await client.get("/sessions/nobody/state/history"),
        await client.post("/sessions/nobody/state", json={"values": {}}),
    ]:
        assert (found.status_code, found.json()["code"]) == (404, "unknown_session")


@pytest.mark.filterwarnings("ignore:NodeInterrupt is deprecated")  # many graphs still raise it
async def test_a_dynamic_breakpoint_is_passed_after_its_cause_is_changed(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "dynamic")
    assert (await whole_round(client, sid, "hello world"))[-1]["payload"]["status"] == "awaiting_user"
    assert (await answered(client, sid, text="go on"))["status"] == "awaiting_user"
    changed = await change(client, sid, {"input": "hi"})
    assert changed["next"] == ["check"]
    assert (await answered(client, sid, text="go on"))["status"] == "completed"
    assert (await values(client, sid))["values"]["notes"] == ["first hello world", "checked hi", "second in en"]


async def test_a_human_acts_as_the_node_before_which_the_graph_pauses(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "reviewed")
    await whole_round(client, sid, "one")
    changed = await change(client, sid, {"language": "de"}, as_node="feedback")
    assert changed["next"] == ["second"]
    assert (await answered(client, sid, text="yes"))["status"] == "completed"
    assert (await values(client, sid))["values"]["notes"] == ["first one", "second in de"]
    await in_order(client, sid)


async def test_a_question_is_answered_with_the_changed_state(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "asking")
    await whole_round(client, sid, "one")
    await change(client, sid, {"language": "de"})
    assert (await answered(client, sid, text="this"))["status"] == "completed"
    assert (await values(client, sid))["values"]["notes"] == ["first one", "de: this", "second in de"]
    await in_order(client, sid)


async def test_a_message_a_fork_and_a_new_answer_see_the_change(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "chat")
    await change(client, sid, {"tone": "?"})
    assert (await whole_round(client, sid, "one"))[-1]["payload"]["result"] == "I heard one?"
    await change(client, sid, {"tone": "!"})
    fork = (await client.post(f"/sessions/{sid}/fork")).json()["id"]
    assert (await values(client, fork))["values"]["tone"] == "!"
    for each in (sid, fork):
        assert (await whole_round(client, each, "two"))[-1]["payload"]["result"] == "I heard one, two!"
        accepted = (await client.post(f"/sessions/{each}/regenerate")).json()
        told = await rest_of_run(client, each, accepted["after"])
        assert told[-1]["payload"]["result"] == "I heard one, two!"
        await in_order(client, each)


async def test_a_change_after_the_answer_is_seen_when_it_is_given_again(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "chat")
    await whole_round(client, sid, "one")
    assert (await whole_round(client, sid, "two"))[-1]["payload"]["result"] == "I heard one, two."
    await change(client, sid, {"tone": "!"})
    for _ in range(2):
        accepted = (await client.post(f"/sessions/{sid}/regenerate")).json()
        told = await rest_of_run(client, sid, accepted["after"])
        assert told[-1]["payload"]["result"] == "I heard one, two!"
    assert (await whole_round(client, sid, "three"))[-1]["payload"]["result"] == "I heard one, two, three!"
    await in_order(client, sid)


async def test_a_change_from_an_earlier_checkpoint_goes_back_there(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    before = (await values(client, sid))["checkpoint_id"]
    await whole_round(client, sid, "two")
    changed = await change(client, sid, {"notes": ["changed"]}, checkpoint_id=before)
    now = await values(client, sid)
    assert (now["checkpoint_id"], now["parent_checkpoint_id"]) == (changed["checkpoint_id"], before)
    assert now["values"]["notes"] == ["first one", "second in en", "changed"]
    await whole_round(client, sid, "three")
    assert (await values(client, sid))["values"]["notes"][2:] == ["changed", "first three", "second in en"]


async def test_messages_in_a_change_pass_the_graphs_own_reducer(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "chat")
    await whole_round(client, sid, "one")
    said = (await values(client, sid))["values"]["messages"]
    await change(client, sid, {"messages": [{"role": "user", "content": "none", "id": said[0]["id"]}]})
    assert [each["content"] for each in (await values(client, sid))["values"]["messages"]] == ["none", "I heard one."]
    assert (await whole_round(client, sid, "two"))[-1]["payload"]["result"] == "I heard none, two."


async def test_a_change_is_in_the_log_and_in_the_audit(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    changed = await change(client, sid, {"language": "de"})
    update, saved = (await events(client, sid))[-2:]
    assert update["payload"] == {"node": "second", "delta": {"language": "de"}, "by": "user"}
    assert (saved["type"], saved["payload"]["checkpoint_id"]) == ("subgraph_checkpoint", changed["checkpoint_id"])
    assert saved["position"] == changed["position"]
    audited = (await client.get("/audit", params={"limit": 500})).json()["entries"]
    [entry] = [each for each in audited if each["on"] == {"sid": sid} and each["what"].endswith("/state")]
    assert (entry["what"], entry["outcome"]) == ("POST /sessions/{sid}/state", 200)


async def test_a_change_of_the_todos_is_recorded_like_that_of_a_node(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    todos = [{"content": "rest", "status": "pending"}]
    await change(client, sid, {"todos": todos, "language": "de"}, as_node="second")
    update, state, saved = await events(client, sid)
    assert update["payload"]["delta"] == {"language": "de"}
    assert (state["type"], state["payload"]["name"], state["payload"]["snapshot"]) == ("state", "todos", todos)
    assert saved["type"] == "subgraph_checkpoint"
    await in_order(client, sid)


async def test_a_secret_is_neither_stored_nor_shown(client: httpx2.AsyncClient) -> None:
    secret = "correct-horse-battery-staple"
    assert (await client.put("/secrets/mine", json={"value": secret})).status_code == 204
    sid = await begin(client, "notes")
    changed = await client.post(f"/sessions/{sid}/state", json={"values": {"input": f"it is {secret}"}})
    assert changed.status_code == 200
    shown = await client.get(f"/sessions/{sid}/state/values")
    assert shown.json()["values"]["input"].startswith("it is ")
    told = str(await events(client, sid))
    assert (secret in shown.text, secret in told, "it is" in told) == (False, False, True)
    assert (await client.delete("/secrets/mine")).status_code == 204


async def test_the_python_client_reads_lists_and_changes_the_state(address: str, client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    async with Client(address) as python:
        changed = await python.update_state(sid, {"language": "de"}, as_node="first", key="once")
        assert changed.next == ("second",)
        now = await python.state(sid)
        assert (now.checkpoint_id, now.values["language"], now.next) == (changed.checkpoint_id, "de", ("second",))
        newest, before, *_ = await python.history(sid, limit=2)
        assert (newest.checkpoint_id, newest.source, newest.node) == (changed.checkpoint_id, "update", "first")
        assert "language" not in (await python.state(sid, checkpoint_id=before.checkpoint_id)).values


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"values": {"inpit": "x"}}, "values.inpit", "there are: "),
        ({"values": {"input": "x"}, "as_node": "third"}, "as_node", "there are: __start__, first, second"),
        ({"values": ["x"]}, "values", "send an object with keys of the state"),
        ({"values": {"notes": 7}}, "values", "the graph does not accept them: TypeError"),
        ({"values": {"input": "a\0b"}}, "values", "NUL"),
        ({"values": {"input": 2**60}}, "values", "2^53-1"),
        ({"as_node": "first"}, "values", "required"),
    ],
    ids=["key", "node", "list", "reducer", "nul", "int", "nothing"],
)
async def test_bad_input_is_refused_with_the_known_names_and_changes_nothing(
    body: Any, field: str, words: str, client: httpx2.AsyncClient
) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    before = await values(client, sid)
    told = await events(client, sid)
    refused = await client.post(f"/sessions/{sid}/state", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert words in refused.json()["detail"]
    assert await values(client, sid) == before
    assert await events(client, sid) == told


async def test_while_a_run_is_under_way_the_state_is_read_and_not_changed(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "endless")
    await send(client, sid, "one")
    await seen(client, sid, "subgraph_checkpoint", count=2)
    assert (await values(client, sid))["next"] == ["wait"]
    refused = await client.post(f"/sessions/{sid}/state", json={"values": {"language": "de"}})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_busy")
    await stop(client, sid)
    refused = await client.post(f"/sessions/{sid}/state", json={"values": {"language": "de"}})
    assert "as __start__ only keys of the graph's input can be changed: input; name a node" in refused.text
    await change(client, sid, {"language": "de"}, as_node="wait")
    assert (await values(client, sid))["values"]["language"] == "de"


async def test_the_same_request_with_the_same_key_changes_the_state_once(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    headers = {"Idempotency-Key": "k"}
    path = f"/sessions/{sid}/state"
    bodies = [{"values": {"notes": ["more"]}}] * 3
    made = await asyncio.gather(*(client.post(path, json=body, headers=headers) for body in bodies))
    assert [each.status_code for each in made] == [200] * 3, [each.text for each in made]
    assert len({each.text for each in made}) == 1
    assert (await values(client, sid))["values"]["notes"] == ["first one", "second in en", "more"]
    reused = await client.post(path, json={"values": {"notes": ["other"]}}, headers=headers)
    assert (reused.status_code, reused.json()["code"]) == (409, "key_reused")


async def test_changes_at_the_same_time_are_all_made(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "notes")
    await whole_round(client, sid, "one")
    await asyncio.gather(*(change(client, sid, {"notes": [str(number)]}) for number in range(9)))
    assert sorted((await values(client, sid))["values"]["notes"][2:]) == list(map(str, range(9)))
    await in_order(client, sid)


async def test_agents_of_yaml_systems_and_functional_graphs_have_a_state_too(client: httpx2.AsyncClient) -> None:
    made = await client.post("/agent-systems", content=YAML, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201, made.text
    sid = await begin(client, "yaml-agent")
    await whole_round(client, sid, "hi")
    said = (await values(client, sid))["values"]["messages"]
    assert [each["content"] for each in said] == ["hi", "Hello."]
    await change(client, sid, {"messages": [{"role": "user", "content": "by the way"}]})
    said = (await values(client, sid))["values"]["messages"]
    assert [each["content"] for each in said] == ["hi", "Hello.", "by the way"]
    assert (await whole_round(client, sid, "again"))[-1]["payload"]["status"] == "completed"
    assert len((await values(client, sid))["values"]["messages"]) == 5
    sid = await begin(client, "functional")
    await whole_round(client, sid, "hi")
    assert (await values(client, sid))["values"] == "heard 1"
    assert [each["node"] for each in (await history(client, sid))["checkpoints"]][0] == "functional"


async def test_a_change_survives_kill_9_right_after_its_200(tmp_path: Path) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors.txt"
    with server_process(data, errors=errors, serves=TARGETS) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "dynamic")
            await whole_round(client, sid, "hello world")
            changed = await change(client, sid, {"input": "hi"})
            server.process.send_signal(signal.SIGKILL)
    with server_process(data, errors=errors, serves=TARGETS) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            now = await values(client, sid)
            assert (now["checkpoint_id"], now["values"]["input"]) == (changed["checkpoint_id"], "hi")
            assert (await events(client, sid))[-1]["position"] == changed["position"]
            assert (await answered(client, sid, text="go on"))["status"] == "completed"
            assert (await values(client, sid))["values"]["notes"][1] == "checked hi"
