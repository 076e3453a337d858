"""An assistant is an agent system of a graph with config, context and input of its own; a session has some, too."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.client.client import Client
from stellwerk.settings import Settings
from tests.api.reading import Event, sse
from tests.conftest import running_server
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.runs.talking import begin, events, rest_of_run

HERE = Path(__file__).parent
GRAPHS = ("desk", "enrichment", "settings")
FACTORIES = ("styled", "managed", "strict", "once", "asking", "locked")
SECRET = "Canary-Token-4711"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("wanting", "assistants"):
        shutil.copytree(HERE / name, tmp_path, dirs_exist_ok=True)
    return tmp_path


def places(folder: Path) -> dict[str, str]:
    graphs = {name: f"{folder / 'graphs.py'}:{name}" for name in GRAPHS}
    return graphs | {name: f"{folder / 'factories.py'}:{name}" for name in FACTORIES}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_server(Settings(data=folder / "data"), own=places(folder)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with served(folder) as made:
        yield made


def assistant(name: str, graph: str, metadata: dict[str, Any] | None = None, **agent: Any) -> dict[str, Any]:
    system = {"name": name} | ({"metadata": metadata} if metadata else {})
    return {"version": 1, "system": system, "agents": [{"id": graph, "kind": "graph", "graph": graph, **agent}]}


POLITE: dict[str, Any] = {"config": {"configurable": {"style": "polite"}}, "context": {"language": "German"}}


async def register(client: httpx2.AsyncClient, name: str, graph: str, **agent: Any) -> Event:
    registered = await client.post("/agent-systems", json=assistant(name, graph, **agent))
    assert registered.status_code == 201, registered.text
    return dict(registered.json())


async def begin_with(client: httpx2.AsyncClient, system: str, **body: Any) -> str:
    begun = await client.post("/sessions", json={"agent_system_id": system, **body})
    assert begun.status_code == 201, begun.text
    return str(begun.json()["id"])


async def round_of(client: httpx2.AsyncClient, sid: str, **body: Any) -> list[Event]:
    sent = await client.post(f"/sessions/{sid}/messages", json=body)
    assert sent.status_code == 202, sent.text
    after = str(sent.json()["after"])
    return await sse(client, f"/sessions/{sid}/stream", after=after, until="run_end", profile="debug")


async def answered(client: httpx2.AsyncClient, sid: str, **body: Any) -> str:
    end = (await round_of(client, sid, **body))[-1]["payload"]
    return str(end.get("result") or end.get("reason"))


def notes(folder: Path, *kinds: str) -> list[str]:
    """What factories of these kinds have noted."""
    file = folder / "notes"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line for line in lines if line.startswith(kinds)]


async def test_an_assistant_is_made_listed_and_changed_over_http(client: httpx2.AsyncClient) -> None:
    body = {"metadata": {"team": "support", "public": True}, **POLITE}
    assert (await register(client, "polite-desk", "desk", **body))["version"] == 1
    sid = await begin(client, "polite-desk")
    assert await answered(client, sid, text="hi") == "hi: polite German nobody"
    assert await answered(client, sid, text="hi", context={"language": "French"}) == "hi: polite French nobody"
    rude = {"configurable": {"style": "rude"}}
    assert await answered(client, sid, text="hi", config=rude) == "hi: rude German nobody"
    listed = (await client.get("/agent-systems")).json()["agent_systems"]
    (shown,) = [each for each in listed if each["id"] == "polite-desk"]
    assert (shown["graph"], shown["metadata"]) == ("desk", body["metadata"])
    assert {each["id"] for each in listed if each.get("graph") == "desk"} == {"desk", "polite-desk"}
    found = (await client.get("/agent-systems/polite-desk")).json()
    (agent,) = found["agents"]
    assert {name: agent[name] for name in POLITE} == POLITE
    assert found["metadata"] == body["metadata"]
    changed = {**POLITE, "context": {"language": "Danish"}}
    assert (await register(client, "polite-desk", "desk", **changed))["version"] == 2
    assert await answered(client, sid, text="hi") == "hi: polite Danish nobody"
    assert (await client.get("/agent-systems/polite-desk?version=1")).json()["agents"][0]["context"] == POLITE[
        "context"
    ]
    (said,) = [e["payload"] for e in await round_of(client, sid, text="hi") if e["type"] == "message"][:1]
    assert "context" not in said, "the message has its own values only; the version of the system has the others"


@pytest.mark.parametrize(
    ("agent", "field", "says"),
    [
        ({"context": {"language": 5}}, "agents[0].context.language", "valid string"),
        ({"context": {"speech": "x"}}, "agents[0].context.speech", "has no such key; it has: language"),
        ({"context": {"user_id": "bob"}}, "agents[0].context.user_id", "send user_id with POST /sessions"),
        ({"config": {"configurable": {"thread_id": "x"}}}, "agents[0].config.configurable.thread_id", "belongs to the"),
        ({"config": {"callbacks": []}}, "agents[0].config.callbacks", "known are: configurable"),
        ({"config": {"recursion_limit": 0}}, "agents[0].config.recursion_limit", "greater than or equal to 1"),
        ({"input": {"topic": "x"}}, "agents[0].input.topic", "has no such key; it has: messages"),
    ],
)
async def test_an_assistant_that_does_not_fit_its_graph_is_refused_with_the_line(
    agent: dict[str, Any], field: str, says: str, client: httpx2.AsyncClient
) -> None:
    text = json.dumps(assistant("odd", "desk", **agent), indent=1)
    headers = {"Content-Type": "application/json"}
    refused = await client.post("/agent-systems", content=text, headers=headers)
    assert refused.status_code == 422, refused.text
    (problem,) = refused.json()["problems"]
    assert problem["field"] == field
    assert says in problem["message"]
    *_, last = field.split(".")
    assert f'"{last}"' in text.splitlines()[problem["line"] - 1]
    assert (await client.get("/agent-systems/odd")).status_code == 404


async def test_a_session_has_values_of_its_own_and_a_message_overrides_them(client: httpx2.AsyncClient) -> None:
    await register(client, "polite-desk", "desk", **POLITE)
    begun = await client.post(
        "/sessions", json={"agent_system_id": "polite-desk", "user_id": "ann", "context": {"language": "French"}}
    )
    sid = begun.json()["id"]
    assert begun.json()["context"] == {"language": "French"}
    assert "config" not in begun.json()
    assert await answered(client, sid, text="hi") == "hi: polite French ann"
    assert await answered(client, sid, text="hi", context={"language": "Welsh"}) == "hi: polite Welsh ann"
    changed = await client.patch(f"/sessions/{sid}", json={"config": {"configurable": {"style": "rude"}}})
    assert changed.status_code == 200, changed.text
    assert changed.json()["context"] == {"language": "French"}, "what is not sent stays"
    assert (await client.get(f"/sessions/{sid}")).json() == changed.json()
    assert await answered(client, sid, text="hi") == "hi: rude French ann"
    await client.patch(f"/sessions/{sid}", json={"context": None})
    assert await answered(client, sid, text="hi") == "hi: rude German ann"
    (listed,) = (await client.get("/sessions")).json()["sessions"]
    assert "config" not in listed


async def test_a_second_answer_a_fork_and_a_restart_keep_the_values_of_the_session(folder: Path) -> None:
    async with served(folder) as client:
        sid = await begin_with(client, "desk", **POLITE)
        assert await answered(client, sid, text="hi") == "hi: polite German nobody"
    async with served(folder) as client:
        await client.patch(f"/sessions/{sid}", json={"context": {"language": "French"}})
        again = (await client.post(f"/sessions/{sid}/regenerate")).json()
        end = (await rest_of_run(client, sid, again["after"]))[-1]["payload"]
        assert end["result"] == "hi: polite German nobody", "the values of the message"
        fork = (await client.post(f"/sessions/{sid}/fork", json={})).json()
        assert fork["context"] == {"language": "French"}
        assert await answered(client, fork["id"], text="hi") == "hi: polite French nobody"
        await client.patch(f"/sessions/{fork['id']}", json={"context": {"language": "Welsh"}})
        assert await answered(client, sid, text="hi") == "hi: polite French nobody"


async def test_a_message_without_values_of_its_own_still_answers_a_question(client: httpx2.AsyncClient) -> None:
    sid = await begin_with(client, "desk", **POLITE)
    await round_of(client, sid, text="ask")
    assert await answered(client, sid, text="the lamp") == "answered the lamp: polite German nobody"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"context": {"language": 5}}, "context.language"),
        ({"context": {"speech": "x"}}, "context.speech"),
        ({"context": {"user_id": "bob"}}, "context.user_id"),
        ({"config": {"configurable": {"langgraph_auth_user": {}}}}, "config.configurable.langgraph_auth_user"),
        ({"config": {"callbacks": []}}, "config.callbacks"),
        ({"context": {"language": "x" * 40_000}}, "context"),
        ({"input": {}}, "input"),
    ],
)
async def test_values_that_do_not_fit_the_graph_make_and_change_no_session(
    body: dict[str, Any], field: str, client: httpx2.AsyncClient
) -> None:
    sid = await begin_with(client, "desk", **POLITE)
    before = (await client.get(f"/sessions/{sid}")).json()
    refused = [
        await client.post("/sessions", json={"agent_system_id": "desk", **body}),
        await client.patch(f"/sessions/{sid}", json=body),
    ]
    assert [(each.status_code, each.json()["field"]) for each in refused] == [(422, field)] * 2
    assert (await client.get(f"/sessions/{sid}")).json() == before
    assert len((await client.get("/sessions")).json()["sessions"]) == 1


async def test_an_assistant_refers_to_secrets_that_are_never_stored_or_shown(folder: Path) -> None:
    refers = {"context": {"language": "German", "token": "Bearer ${secret:desk_token}"}}
    async with served(folder) as client:
        registered = await register(client, "keeper", "desk", **refers)
        assert ["the secret 'desk_token' is not stored" in each["message"] for each in registered["warnings"]] == [True]
        sid = await begin(client, "keeper")
        refused = await client.post(f"/sessions/{sid}/messages", json={"text": "hi"})
        assert (refused.status_code, refused.json()["code"]) == (409, "missing_secret")
        await client.put("/secrets/desk_token", json={"value": SECRET})
        assert await answered(client, sid, text="hi") == "hi: None German nobody"
        shown = await client.get("/agent-systems/keeper")
        assert shown.json()["agents"][0]["context"] == refers["context"]
        exported = json.dumps(await events(client, sid)) + (await client.get("/agent-systems/keeper/text")).text
        assert SECRET not in exported + shown.text
    assert (folder / "tokens").read_text() == f"Bearer {SECRET} None\n", "the graph has it"
    stored = b"".join(file.read_bytes() for file in (folder / "data").rglob("*") if file.is_file())
    assert SECRET.encode() not in stored


async def test_a_secret_has_to_fit_the_schema_and_its_reference_has_not(client: httpx2.AsyncClient) -> None:
    await client.put("/secrets/lock_key", json={"value": "sk-0123456789"})
    await register(client, "keeper", "locked", context={"key": "${secret:lock_key}"})
    sid = await begin(client, "keeper")
    assert await answered(client, sid, text="hi") == "a key of 13 characters"
    await client.put("/secrets/lock_key", json={"value": "pk-0123456789"})
    told = await round_of(client, sid, text="hi")
    assert told[-1]["payload"]["status"] == "failed"
    assert "pk-0123456789" not in json.dumps(await events(client, sid))


async def test_a_member_uses_the_secret_of_an_assistant_and_names_none(client: httpx2.AsyncClient) -> None:
    await client.put("/secrets/desk_token", json={"value": SECRET})
    await register(client, "keeper", "desk", context={"language": "German", "token": "${secret:desk_token}"})
    admin = (await client.post("/keys", json={"name": "first", "role": "admin"})).json()["token"]
    headers = {"Authorization": f"Bearer {admin}"}
    member = (await client.post("/keys", json={"name": "ann", "role": "member"}, headers=headers)).json()["token"]
    client.headers["Authorization"] = f"Bearer {member}"
    sid = await begin(client, "keeper")
    assert await answered(client, sid, text="hi") == "hi: None German nobody"
    named = {"context": {"token": "${secret:desk_token}"}}
    for refused in (
        await client.post("/sessions", json={"agent_system_id": "keeper", **named}),
        await client.patch(f"/sessions/{sid}", json=named),
    ):
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_default_of_the_input_is_given_where_neither_message_nor_state_has_the_key(
    client: httpx2.AsyncClient,
) -> None:
    await register(client, "planets", "enrichment", input={"topic": "sun", "extraction_schema": {"mass": "kg"}})
    sid = await begin(client, "planets")
    assert "moon: mass; 0" in await answered(client, sid, text="moon")
    given = {"extraction_schema": {"age": "years"}}
    assert "mars: age; 1" in await answered(client, sid, text="mars", input=given)
    assert "venus: age; 2" in await answered(client, sid, text="venus"), "the state has it from the message before"
    assert "sun: mass; 0" in await answered(client, await begin(client, "planets"), input={})


async def test_a_factory_is_called_for_each_run_with_the_config_of_the_run(
    folder: Path, client: httpx2.AsyncClient
) -> None:
    await register(client, "polite", "styled", config=POLITE["config"])
    sid = await begin_with(client, "polite", user_id="ann")
    assert await answered(client, sid, text="hi") == "polite ann: hi"
    rude = {"configurable": {"style": "rude"}}
    assert await answered(client, sid, text="hi", config=rude) == "rude ann: hi"
    again = (await client.post(f"/sessions/{sid}/regenerate")).json()
    assert (await rest_of_run(client, sid, again["after"]))[-1]["payload"]["result"] == "rude ann: hi"
    assert await answered(client, await begin(client, "styled"), text="hi") == "None None: hi"
    for_runs = [line for line in notes(folder, "styled") if line.endswith("True")]
    assert for_runs == [f"styled {style} True" for style in ("polite", "rude", "rude", "None")]
    assert "styled polite False" in notes(folder, "styled"), "it was also called to read its schemas"
    (agent,) = (await client.get("/agent-systems/styled")).json()["agents"]
    assert set(agent["input_schema"]["properties"]) == {"messages"}


async def test_what_a_factory_opens_for_a_run_is_closed_with_it(folder: Path, client: httpx2.AsyncClient) -> None:
    sid = await begin_with(client, "managed", user_id="ann", context={"tone": "warm"})
    assert await answered(client, sid, text="hi") == "warm for ann: hi"
    assert notes(folder, "open", "closed") == ["open warm", "closed"]
    assert "ValueError" in await answered(client, sid, text="boom")
    assert notes(folder, "open", "closed") == ["open warm", "closed"] * 2
    assert await answered(client, await begin(client, "managed"), text="hi") == "plain for nobody: hi"
    (agent,) = (await client.get("/agent-systems/managed")).json()["agents"]
    assert set(agent["context_schema"]["properties"]) == {"tone"}


async def test_a_factory_without_parameters_is_called_once(folder: Path, client: httpx2.AsyncClient) -> None:
    await register(client, "other", "once")
    for system in ("once", "other", "once"):
        assert await answered(client, await begin(client, system), text="hi") == "once: hi"
    assert notes(folder, "once") == ["once"]


async def test_a_factory_that_fails_for_a_run_ends_that_run_alone(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "styled")
    told = await round_of(client, sid, text="hi", config={"configurable": {"style": "bad"}})
    assert told[-1]["payload"]["status"] == "failed"
    assert "LookupError" in told[-1]["payload"]["reason"]
    assert await answered(client, sid, text="hi") == "None None: hi"


async def test_a_factory_that_needs_a_config_is_usable_as_an_assistant(client: httpx2.AsyncClient) -> None:
    listed = {each["id"]: each for each in (await client.get("/agent-systems")).json()["agent_systems"]}
    assert "KeyError: 'style'" in listed["strict"]["unusable"]
    assert "an agent system with `config` can give it one" in listed["strict"]["unusable"]
    await register(client, "polite", "strict", config=POLITE["config"])
    assert await answered(client, await begin(client, "polite"), text="hi") == "polite: hi"


async def test_a_run_of_an_assistant_that_was_killed_goes_on_with_its_values(folder: Path) -> None:
    (folder / "gate").unlink(missing_ok=True)
    (folder / "polite.yaml").write_text(json.dumps(assistant("polite", "styled", config=POLITE["config"])))
    (folder / "operator.yaml").write_text(json.dumps({"graphs": {"styled": "factories.py:styled"}}))
    serves = [str(folder / "polite.yaml")]
    with server_process(folder / "data", errors=folder / "errors", serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin_with(client, "polite", user_id="ann")
            quiet = await begin_with(client, "polite", config={"configurable": {"style": "quiet"}})
            assert (await client.post(f"/sessions/{sid}/messages", json={"text": "wait"})).status_code == 202
            await eventually((folder / "reached").exists, within=60, what="the node was not reached")
            server.kill()
    (folder / "gate").touch()
    with server_process(folder / "data", errors=folder / "errors", serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert (await rest_of_run(client, sid))[-1]["payload"]["result"] == "polite ann: wait"
            assert await answered(client, quiet, text="hi") == "quiet None: hi"


async def test_the_user_of_the_session_is_wherever_langgraphs_server_has_it(client: httpx2.AsyncClient) -> None:
    sid = await begin_with(client, "asking", user_id="ann")
    assert await answered(client, sid, text="who?") == " ".join(["ann"] * 7 + ["asking"])
    nobody = await begin(client, "asking")
    assert await answered(client, nobody, text="who?") == "None None None None None nobody None asking"
    for part in ({"context": {"langgraph_auth_user_id": "bob"}}, {"config": {"configurable": {"user_id": "bob"}}}):
        refused = await client.post(f"/sessions/{sid}/messages", json={"text": "who?", **part})
        assert (refused.status_code, "the user of the session" in refused.json()["detail"]) == (422, True)


async def test_the_client_begins_and_changes_a_session_with_values(folder: Path) -> None:
    async with running_server(Settings(data=folder / "data"), own=places(folder)) as address:
        async with Client(address) as client:
            begun = await client.begin("desk", **POLITE)
            assert (begun.config, begun.context) == (POLITE["config"], POLITE["context"])
            changed = await client.change(begun.id, context={"language": "French"}, config=None)
            assert (changed.config, changed.context) == (None, {"language": "French"})
            assert (await client.session(begun.id)).context == {"language": "French"}
