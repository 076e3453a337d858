"""A message may carry input, config and context: checked by the graph's schemas, stored, and used by its runs."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from stellwerk.client.client import Client
from stellwerk.settings import Settings
from tests.api.reading import Event, sse
from tests.conftest import running_server, server_beside
from tests.crash.process import server_process
from tests.crash.waiting import eventually
from tests.runs.talking import answer, begin, events, rest_of_run

WANTING = Path(__file__).parent / "wanting"
GRAPHS = ("mail", "pair", "enrichment", "order", "desk", "settings", "endless")
FUNCTIONS = ("typed", "modelled", "plain", "free", "number")
SECRET = "Canary-Token-4711"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(WANTING, tmp_path, dirs_exist_ok=True)
    return tmp_path


def places(folder: Path) -> dict[str, str]:
    graphs = {name: f"{folder / 'graphs.py'}:{name}" for name in GRAPHS}
    return graphs | {name: f"{folder / 'functions.py'}:{name}" for name in FUNCTIONS}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with running_server(Settings(data=folder / "data"), own=places(folder)) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            yield client


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the tests that leave nothing behind."""
    folder = tmp_path_factory.mktemp("wanting")
    shutil.copytree(WANTING, folder, dirs_exist_ok=True)
    with server_beside(Settings(data=folder / "data"), own=places(folder)) as address:
        yield address


@pytest.fixture
async def client(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as made:
        yield made


async def post(client: httpx2.AsyncClient, sid: str, **body: Any) -> httpx2.Response:
    return await client.post(f"/sessions/{sid}/messages", json=body)


async def round_of(client: httpx2.AsyncClient, sid: str, **body: Any) -> list[Event]:
    sent = await post(client, sid, **body)
    assert sent.status_code == 202, sent.text
    after = str(sent.json()["after"])
    return await sse(client, f"/sessions/{sid}/stream", after=after, until="run_end", profile="debug")


async def answered(client: httpx2.AsyncClient, sid: str, **body: Any) -> str:
    end = (await round_of(client, sid, **body))[-1]["payload"]
    return str(end.get("result") or end.get("reason"))


async def refusal(client: httpx2.AsyncClient, sid: str, **body: Any) -> tuple[int, str, str]:
    """The refusal of a message, which has left nothing behind."""
    before = (await client.get(f"/sessions/{sid}")).json()
    refused = (await post(client, sid, **body)).json()
    assert (await client.get(f"/sessions/{sid}")).json() == before
    return refused["status"], refused.get("field") or refused["code"], refused["detail"]


MAIL = {"author": "Ann", "subject": "Lamp"}


@pytest.mark.parametrize(
    ("system", "body", "result"),
    [
        ("mail", {"input": {"email_input": MAIL}}, "Ann wrote (0)"),
        ("mail", {"input": {"email_input": MAIL, "priority": 2}}, "Ann wrote (2)"),
        ("pair", {"input": {"left": "a", "right": "b"}}, "ab"),
        ("enrichment", {"input": {"topic": "moon", "extraction_schema": {"a": 1}}}, "moon: a; 0"),
        ("enrichment", {"text": "moon", "input": {"extraction_schema": {"a": 1, "b": 2}}}, "moon: a, b; 0"),
        ("order", {"input": {"item": "lamp", "count": 2}}, "2 x lamp"),
        ("order", {"text": "lamp", "input": {"count": 2}}, "2 x lamp"),
        ("settings", {"text": "hi"}, "English None"),
        ("settings", {"text": "hi", "context": {"language": "German"}}, "German None"),
        ("settings", {"text": "hi", "config": {"configurable": {"language": "German"}}}, "German None"),
        ("settings", {"text": "hi", "config": {"configurable": {"language": None}}}, "English None"),
        ("settings", {"text": "hi", "config": {"tags": ["b", "a"], "metadata": {"team": 7}}}, "English a b 7"),
        ("settings", {"input": {"messages": [{"role": "user", "content": "hi"}]}}, "English None"),
        ("typed", {"text": "hi"}, "hi 0"),
        ("typed", {"text": "hi", "input": {"depth": 3}}, "hi 3"),
        ("modelled", {"text": "hi"}, "hi 1"),
        ("modelled", {"text": "hi", "input": {"depth": 3}}, "hi 3"),
        ("plain", {"input": {"question": "hi", "depth": 3}}, "hi 3"),
        ("free", {"text": "hi"}, "messages"),
        ("free", {"input": {"a": 1, "b": 2}}, "a, b"),
        ("number", {"input": 4}, "5"),
    ],
)
async def test_input_reaches_a_graph_of_any_shape(
    system: str, body: dict[str, Any], result: str, client: httpx2.AsyncClient
) -> None:
    told = await round_of(client, await begin(client, system), **body)
    end = told[-1]["payload"]
    found = end.get("result") or end.get("reason")
    assert result in str(found), found
    (said,) = [e["payload"] for e in told if e["type"] == "message" and e["payload"]["role"] == "user"]
    assert {name: said[name] for name in ("input", "config", "context") if name in said} == {
        name: body[name] for name in ("input", "config", "context") if name in body
    }


@pytest.mark.parametrize(
    ("system", "body", "field", "says"),
    [
        ("mail", {"text": "hi"}, "text", "mail has no place for a text; send `input` instead, with: email_input (dict"),
        ("pair", {"text": "hi"}, "text", "with: left (str), right (str)"),
        ("number", {"text": "hi"}, "text", "a value of type int"),
        ("number", {"input": "four"}, "input", "valid integer"),
        ("mail", {"input": {"mail": {}}}, "input.mail", "mail has no such key; it has: email_input, priority"),
        ("mail", {"input": {"email_input": "Ann"}}, "input.email_input", "an object"),
        ("mail", {"input": {"email_input": MAIL, "priority": "2"}}, "input.priority", "valid integer"),
        ("mail", {"input": []}, "input", "this must be an object with: email_input"),
        ("enrichment", {"text": "moon"}, "input.extraction_schema", "enrichment needs this; send it in `input`"),
        ("order", {"input": {"item": "lamp", "count": 0}}, "input.count", "greater than or equal to 1"),
        ("order", {"text": "x", "input": {"item": "lamp"}}, "text", "'item', which input has as well"),
        ("desk", {"text": "hi"}, "context.language", "desk needs this; send it with the message"),
        ("desk", {"text": "hi", "context": {"language": 5}}, "context.language", "valid string"),
        ("desk", {"text": "hi", "context": {"speech": ""}}, "context.speech", "has: language, token, user_id"),
        ("desk", {"text": "hi", "context": {"language": "x", "user_id": "bob"}}, "context.user_id", "POST /sessions"),
        ("endless", {"text": "hi", "context": {"a": 1}}, "context", "endless has no context_schema"),
        (
            "settings",
            {"text": "hi", "config": {"configurable": {"language": 5}}},
            "config.configurable.language",
            "str",
        ),
        ("settings", {"text": "hi", "config": {"recursion_limit": 0}}, "config.recursion_limit", "1 or more"),
        ("settings", {"text": "hi", "config": {"callbacks": []}}, "config.callbacks", "not known"),
        ("settings", {"text": "hi", "config": {"tags": ["nostream"]}}, "config.tags", "hides calls"),
        ("settings", {"input": {"messages": [{"role": "nobody", "content": 1}]}}, "input.messages", "nobody"),
        ("demo", {"input": {"messages": []}}, "input", "is an agent"),
        ("settings", {"config": {}}, "text", "unless files or input go with it"),
        ("mail", {"input": {"email_input": {"text": "x" * 200_000}}}, "input", "128 KiB; send a file"),
    ],
)
async def test_what_does_not_fit_is_refused_with_its_path_and_changes_nothing(
    system: str, body: dict[str, Any], field: str, says: str, client: httpx2.AsyncClient
) -> None:
    status, where, why = await refusal(client, await begin(client, system), **body)
    assert (status, where) == (422, field), why
    assert says in why


@pytest.mark.parametrize(
    "key", ["thread_id", "checkpoint_id", "checkpoint_ns", "run_id", "user_id", "stellwerk_epoch", "__pregel_send"]
)
async def test_keys_of_the_server_are_refused_in_configurable(key: str, client: httpx2.AsyncClient) -> None:
    refused = await refusal(client, await begin(client, "settings"), text="hi", config={"configurable": {key: "x"}})
    assert refused[:2] == (422, f"config.configurable.{key}")


async def test_a_key_that_the_state_has_need_not_be_sent_again(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "enrichment")
    assert "moon: a; 0" in await answered(client, sid, text="moon", input={"extraction_schema": {"a": 1}})
    assert "sun: a; 1" in await answered(client, sid, text="sun")


async def test_the_recursion_limit_of_a_message_ends_its_run(client: httpx2.AsyncClient) -> None:
    end = (await round_of(client, await begin(client, "endless"), text="hi", config={"recursion_limit": 4}))[-1]
    assert end["payload"]["status"] == "failed"
    assert "GraphRecursionError" in end["payload"]["reason"]


async def test_the_same_key_with_another_input_is_another_request(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "mail")
    bodies = [{"input": {"email_input": MAIL, "priority": n}} for n in (1, 1, 2)]
    sent = [await client.post(f"/sessions/{sid}/messages", json=b, headers={"Idempotency-Key": "k"}) for b in bodies]
    assert [each.status_code for each in sent] == [202, 202, 409]
    assert sent[0].json() == sent[1].json()
    await rest_of_run(client, sid)


POLITE: dict[str, Any] = {"config": {"configurable": {"style": "polite"}}, "context": {"language": "German"}}


async def test_a_second_answer_and_an_answered_question_have_the_values_of_their_message(folder: Path) -> None:
    async with served(folder) as client:
        begun = await client.post("/sessions", json={"agent_system_id": "desk", "user_id": "ann"})
        sid = begun.json()["id"]
        told = await round_of(client, sid, text="ask", **POLITE)
        (asked,) = [e["payload"] for e in told if e["type"] == "ask_user"]
        status, code, _ = await refusal(client, sid, text="the lamp", **POLITE)
        assert (status, code) == (409, "question_open"), "a message with a config is no answer"
    async with served(folder) as client:
        given = await answer(client, sid, ask_id=asked["ask_id"], text="the lamp")
        end = (await rest_of_run(client, sid, given["after"]))[-1]["payload"]
        assert end["result"] == "answered the lamp: polite German ann"
        assert await answered(client, sid, text="hi", **POLITE) == "hi: polite German ann"
        again = (await client.post(f"/sessions/{sid}/regenerate")).json()
        assert (await rest_of_run(client, sid, again["after"]))[-1]["payload"]["result"] == "hi: polite German ann"
        fork = (await client.post(f"/sessions/{sid}/fork", json={})).json()
        copied = [e["payload"] for e in await events(client, fork["id"]) if e["type"] == "message"]
        assert [each["context"] for each in copied if each["role"] == "user"] == [{"language": "German"}] * 2


async def test_an_enqueued_message_and_a_run_that_was_killed_have_their_values(folder: Path) -> None:
    (folder / "gate").unlink(missing_ok=True)
    serves = [f"desk={folder / 'graphs.py'}:desk"]
    polite, rude = POLITE, {"config": {"configurable": {"style": "rude"}}, "context": {"language": "French"}}
    with server_process(folder / "data", errors=folder / "errors", serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "desk")
            assert (await post(client, sid, text="wait", **polite)).status_code == 202
            enqueued = await post(client, sid, text="next", if_busy="enqueue", **rude)
            assert enqueued.json()["status"] == "enqueued"
            await eventually((folder / "reached").exists, within=60, what="the node was not reached")
            server.kill()
    (folder / "gate").touch()
    with server_process(folder / "data", errors=folder / "errors", serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            first = (await rest_of_run(client, sid))[-1]
            second = (await rest_of_run(client, sid, first["position"]))[-1]
    assert first["payload"]["result"] == "wait: polite German nobody"
    assert second["payload"]["result"] == "next: rude French nobody"


async def test_a_withdrawn_message_comes_back_with_all_that_was_sent(folder: Path) -> None:
    async with served(folder) as client:
        sid = await begin(client, "desk")
        await post(client, sid, text="wait", **POLITE)
        await post(client, sid, text="next", if_busy="enqueue", **POLITE)
        await eventually((folder / "reached").exists, within=60, what="the node was not reached")
        (withdrawn,) = (await client.post(f"/sessions/{sid}/stop")).json()["withdrawn"]
        (folder / "gate").touch()
    assert (withdrawn["text"], withdrawn["config"], withdrawn["context"]) == ("next", *POLITE.values())
    assert "input" not in withdrawn


async def test_a_secret_is_referred_to_and_never_stored_or_shown(folder: Path) -> None:
    async with served(folder) as client:
        assert (await client.put("/secrets/desk_token", json={"value": SECRET})).status_code == 204
        sid = await begin(client, "desk")
        refers = {
            "config": {"configurable": {"style": "polite", "password": "${secret:desk_token}"}},
            "context": {"language": "German", "token": "Bearer ${secret:desk_token}"},
        }
        told = await round_of(client, sid, text="hi", **refers)
        assert told[-1]["payload"]["status"] == "completed"
        (said,) = [e["payload"] for e in told if e["type"] == "message" and e["payload"]["role"] == "user"]
        assert (said["config"], said["context"]) == (refers["config"], refers["context"])
        unknown = {"language": "German", "token": "${secret:no_such}"}
        status, code, why = await refusal(client, sid, text="hi", context=unknown)
        assert (status, code) == (409, "missing_secret")
        assert "'no_such', which is not stored" in why
    assert (folder / "tokens").read_text() == f"Bearer {SECRET} {SECRET}\n", "the graph has it"
    stored = b"".join(file.read_bytes() for file in (folder / "data").rglob("*") if file.is_file())
    assert SECRET.encode() not in stored


async def test_a_secret_that_was_deleted_before_the_run_ends_it_with_a_clear_reason(folder: Path) -> None:
    async with served(folder) as client:
        await client.put("/secrets/desk_token", json={"value": SECRET})
        sid = await begin(client, "desk")
        token = {"language": "German", "token": "${secret:desk_token}"}
        assert (await round_of(client, sid, text="hi", context=token))[-1]["payload"]["status"] == "completed"
        await client.delete("/secrets/desk_token")
        again = (await client.post(f"/sessions/{sid}/regenerate")).json()
        end = (await rest_of_run(client, sid, again["after"]))[-1]["payload"]
    assert (end["status"], end["code"]) == ("failed", "missing_secret")
    assert "'desk_token', which is not stored" in end["reason"]


async def test_only_who_may_register_systems_may_refer_to_secrets(folder: Path) -> None:
    async with served(folder) as client:
        first = (await client.post("/keys", json={"name": "first", "role": "admin"})).json()["token"]
        admin = {"Authorization": f"Bearer {first}"}
        await client.put("/secrets/desk_token", json={"value": SECRET}, headers=admin)
        made = await client.post("/keys", json={"name": "ann", "role": "member"}, headers=admin)
        client.headers["Authorization"] = f"Bearer {made.json()['token']}"
        sid = await begin(client, "desk")
        context = {"language": "German", "token": "${secret:desk_token}"}
        status, code, why = await refusal(client, sid, text="hi", context=context)
        assert (status, code) == (403, "forbidden")
        assert "a reference to a secret needs the scope 'register'" in why
        assert await answered(client, sid, text="hi", context={"language": "German"}) == "hi: None German nobody"


async def test_an_agent_system_publishes_what_its_graph_wants(client: httpx2.AsyncClient) -> None:
    async def graph(name: str) -> dict[str, Any]:
        (agent,) = (await client.get(f"/agent-systems/{name}")).json()["agents"]
        return dict(agent)

    mail, desk, number = [await graph(name) for name in ("mail", "desk", "number")]
    assert set(mail["input_schema"]["properties"]) == {"email_input", "priority"}
    assert mail["input_schema"]["properties"]["priority"] == {"type": "integer"}
    assert set(mail["output_schema"]["properties"]) == {"answer"}
    assert mail["nodes"] == ["triage"]
    assert "context_schema" not in mail
    assert desk["context_schema"]["required"] == ["language"]
    assert desk["config_schema"]["properties"]["configurable"] == desk["context_schema"]
    assert desk["nodes"] == ["prepare", "reply"]
    assert (number["input_schema"], number["nodes"]) == ({"type": "integer"}, ["number"])
    enrichment = await graph("enrichment")
    assert enrichment["input_schema"]["required"] == ["topic", "extraction_schema"]


async def test_an_agent_system_publishes_where_a_text_goes_and_what_its_graph_keeps(
    client: httpx2.AsyncClient,
) -> None:
    async def graph(name: str) -> dict[str, Any]:
        (agent,) = (await client.get(f"/agent-systems/{name}")).json()["agents"]
        return dict(agent)

    mail, desk, enrichment, number = [await graph(name) for name in ("mail", "desk", "enrichment", "number")]
    assert (mail["takes_text"], "text_key" in mail) == (False, False)
    assert (desk["takes_text"], desk["text_key"]) == (True, "messages")
    assert (enrichment["takes_text"], enrichment["text_key"]) == (True, "topic")
    assert (number["takes_text"], "state_schema" in number) == (False, False)
    assert set(mail["state_schema"]["properties"]) == {"email_input", "priority", "answer"}
    assert set(enrichment["state_schema"]["properties"]) == {"topic", "extraction_schema", "seen", "info"}
    assert (mail["reducers"], enrichment["reducers"], desk["reducers"]) == ([], ["seen"], ["messages"])


async def test_the_client_and_the_websocket_send_them_too(folder: Path) -> None:
    async with running_server(Settings(data=folder / "data"), own=places(folder)) as address:
        async with Client(address) as client:
            sid = (await client.begin("mail")).id
            sent = await client.send(sid, input={"email_input": MAIL})
            told = [event async for event in client.follow(sid, after=sent.after, until="run_end")]
            assert "Ann wrote" in told[-1].data["payload"]["result"]
        url = f"{address.replace('http', 'ws', 1)}/sessions/{sid}/ws?after={told[-1].position}"
        async with connect(url) as socket:
            await socket.send(json.dumps({"type": "message", "key": "bad", "input": {"mail": 1}}))
            refused = await reply_to(socket, "bad")
            assert (refused["problem"]["status"], refused["problem"]["field"]) == (422, "input.mail")
            await socket.send(json.dumps({"type": "message", "key": "good", "input": {"email_input": MAIL}}))
            assert (await reply_to(socket, "good"))["ok"]["status"] == "accepted"


async def reply_to(socket: ClientConnection, key: str) -> Event:
    async with asyncio.timeout(60):
        while (frame := json.loads(await socket.recv())).get("key") != key:
            pass
    return dict(frame)
