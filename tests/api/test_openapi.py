"""The published OpenAPI is whole: a newcomer finds an example of everything, and every example is true."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.api.documented import NDJSON, SSE, Described, check, complaints, examples, misfits, operations
from tests.api.reading import whole_round
from tests.conftest import own_server, without_pauses

WORDS = ("weather", "table", "file", "ask", "delegate", "plan", "fail")

PARTS = Parts(demo_systems=without_pauses)


@pytest.fixture(scope="module")
def parts() -> Parts:
    return PARTS


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


def test_every_route_and_status_is_described_with_examples_that_fit(published: Described) -> None:
    assert len(list(operations(published))) > 25
    assert complaints(published) == []


def the_route(published: Described, method: str, path: str) -> Described:
    return next(found for *place, found in operations(published) if place == [method, path])


def a_message(published: Described) -> Described:
    return the_route(published, "POST", "/sessions/{sid}/messages")


def the_stream(published: Described) -> Described:
    content: Described = the_route(published, "GET", "/sessions/{sid}/stream")["responses"]["200"]["content"]
    return content


BROKEN: dict[str, Callable[[Described], Any]] = {
    "a summary": lambda doc: a_message(doc).pop("summary"),
    "a group": lambda doc: doc["tags"].pop(1),
    "the description of a parameter": lambda doc: a_message(doc)["parameters"][0].pop("description"),
    "a request's schema": lambda doc: a_message(doc)["requestBody"]["content"]["application/json"].pop("schema"),
    "a request's example": lambda doc: a_message(doc)["requestBody"]["content"]["application/json"].pop("examples"),
    "an answer": lambda doc: a_message(doc)["responses"]["202"].pop("content"),
    "an answer's schema": lambda doc: a_message(doc)["responses"]["202"]["content"]["application/json"].pop("schema"),
    "an error's examples": lambda doc: a_message(doc)["responses"]["409"]["content"].popitem()[1].pop("examples"),
    "an error's content": lambda doc: a_message(doc)["responses"]["429"].pop("content"),
    "a field": lambda doc: a_message(doc)["responses"]["202"]["content"]["application/json"]["example"].pop("round"),
    "a line's schema": lambda doc: the_stream(doc)[NDJSON].pop("itemSchema"),
    "the schema of an event": lambda doc: the_stream(doc)[SSE].pop("itemSchema"),
    "a type of envelope": lambda doc: doc["components"]["schemas"]["Envelope"]["anyOf"].pop(0),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_taken_out_of_it_is_missed(published: Described, broken: Callable[[Described], Any]) -> None:
    document = deepcopy(published)
    broken(document)
    assert complaints(document)


@pytest.mark.parametrize("code, said", [("unknown_session", "the code"), (None, "is not documented")])
async def test_an_answer_that_was_not_promised_is_noticed(
    address: str, published: Described, code: str | None, said: str
) -> None:
    document = deepcopy(published)
    promised = the_route(document, "GET", "/sessions/{sid}")["responses"]
    if code is None:
        del promised["404"]
    else:
        del promised["404"]["content"]["application/problem+json"]["examples"][code]
    async with httpx2.AsyncClient(base_url=address, timeout=20) as plain:
        answer = await plain.get("/sessions/nobody")
    with pytest.raises(AssertionError, match=said):
        await check(document, answer)


def requests(published: Described) -> Iterator[tuple[str, str, str, int, Any]]:
    """Every example of a request body: where it goes, as what, and what the document says of it."""
    for method, path, described in operations(published):
        promised = max(int(status) for status in described["responses"] if status < "3")
        for kind, media in described.get("requestBody", {"content": {}})["content"].items():
            yield from ((method, path, kind, promised, example) for example in examples(media).values())


async def test_every_example_of_a_request_is_taken(tmp_path: Path, published: Described) -> None:
    # The first key closes a server to requests without one, so this test has its own server.
    async with own_server(Settings(data=tmp_path / "data"), parts=PARTS) as client:
        await take_every_example(client, list(requests(published)))


async def take_every_example(client: httpx2.AsyncClient, sent: list[tuple[str, str, str, int, Any]]) -> None:
    assert len(sent) >= 12
    for method, path, kind, promised, example in sent:
        place = path.replace("{sid}", await a_session_for(client, path)) if "{sid}" in path else path
        place = place.replace("/tenants/{name}", "/tenants/acme").replace("{name}", "a_name")
        if "{cron_id}" in place:
            place = place.replace("{cron_id}", (await client.post("/crons", json=example)).json()["id"])
        assert "{" not in place
        if path == "/default-webhook":
            await client.put("/secrets/webhook_secret", json={"value": "hook-secret-4711"})
        if path == "/stream-tickets":
            example = {"session_id": await a_session_for(client, path)}
        answer = await client.request(method, place, **as_sent(kind, example))
        assert answer.status_code == promised, (path, example, answer.text)
        if path == "/keys":
            client.headers.setdefault("Authorization", f"Bearer {answer.json()['token']}")


async def a_session_for(client: httpx2.AsyncClient, path: str) -> str:
    """One that can take what is sent there: it asks, or it has something to fork."""
    sid = str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])
    before = {"answers": "ask", "fork": "table", "regenerate": "table"}.get(path.rpartition("/")[2])
    if before is not None:
        await whole_round(client, sid, before)
    return sid


def as_sent(kind: str, example: Any) -> dict[str, Any]:
    if kind == "application/json":
        return {"json": example}
    if kind == "multipart/form-data":
        return {"files": {name: ("a.csv", text.encode()) for name, text in example.items()}}
    return {"content": example.encode(), "headers": {"Content-Type": kind}}


@pytest.mark.parametrize("word", WORDS)
async def test_events_and_streams_of_the_demo_are_as_described(
    client: httpx2.AsyncClient, published: Described, sid: str, word: str
) -> None:
    """Pages, both forms of the stream, and the dialects."""
    await whole_round(client, sid, word)
    page = the_route(published, "GET", "/sessions/{sid}/events")["responses"]["200"]["content"]["application/json"]
    read = (await client.get(f"/sessions/{sid}/events", params={"profile": "debug"})).json()
    assert read["events"]
    assert misfits(published, "application/json", page, read) == []
    content = the_stream(published)
    for kind, wish in ((SSE, {}), (NDJSON, {}), (NDJSON, {"dialect": "chunks"}), (NDJSON, {"dialect": "events"})):
        wanted = {"until": "run_end", **wish}
        answer = await client.get(f"/sessions/{sid}/stream", params=wanted, headers={"Accept": kind})
        assert misfits(published, kind, content[kind], answer.text) == []
