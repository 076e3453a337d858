"""Isolation: on every route, ids of another tenant are answered like ids that do not exist."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.api.tenants import Shared, shared_server

UNKNOWN = {
    "sid": "0000000000000000000000",
    "workflow_id": "0000000000000000000000",
    "file_id": "0" * 64,
    "message_id": "msg_0000000000000000000000",
    "system_id": "unheard-of",
    "key_id": "000000000000",
    "cron_id": "0000000000000000000000",
    "delivery_id": "0000000000000000000000",
}
"""Ids that do not exist, in the form of real ones."""
OPEN = {"name"}
"""Parameters that name what is everybody's, a tool, or what each tenant names for itself, a secret."""


@dataclass
class Belongings:
    """What acme has: a value for each parameter that a path can have."""

    ids: dict[str, str] = field(default_factory=dict)
    document: str = ""
    ask: str = ""


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    async with shared_server(tmp_path / "data") as made:
        yield made


SYSTEM = "{version: 1, system: {name: secretive}, agents: [{id: one, mission: m}]}"


async def furnish(shared: Shared) -> Belongings:
    acme = shared.acme
    made = await acme.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201, made.text
    file = (await acme.post("/files", files={"file": ("a.txt", b"acme's own")})).json()
    started = await acme.post(
        "/api/workflows/start", params={"agentSystemId": "demo"}, json={"prompt": "ask", "listFileId": [file["fileId"]]}
    )
    sid = started.json()["id"]
    await acme.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
    state = (await acme.get(f"/sessions/{sid}/state")).json()
    assert state["awaiting_user_input"], state
    message = (await acme.get(f"/api/workflows/{sid}/messages")).json()[0]["id"]
    key = (await shared.key("acme"))["id"]
    ids = {"sid": sid, "workflow_id": sid, "file_id": file["id"], "message_id": message, **await jobs(acme)}
    return Belongings({**ids, "system_id": "secretive", "key_id": key}, file["id"], state["questions"][0]["ask_id"])


async def jobs(acme: httpx2.AsyncClient) -> dict[str, str]:
    """A cron, and a report to a webhook that nobody answers."""
    body = {"schedule": "0 7 * * *", "agent_system_id": "demo", "message": {"text": "weather"}}
    cron = (await acme.post("/crons", json=body)).json()["id"]
    await acme.put("/secrets/webhook_secret", json={"value": "hook-secret-4711"})
    sid = (await acme.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    await acme.post(f"/sessions/{sid}/messages", json={"text": "weather", "webhook": "https://nowhere.invalid/"})
    await acme.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
    (delivery,) = (await acme.get("/webhook-deliveries")).json()["deliveries"]
    return {"cron_id": cron, "delivery_id": delivery["id"]}


def requests(published: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each route that has an id in its path: method, path, and an example of its body."""
    for path, methods in published["paths"].items():
        for method, operation in methods.items():
            if set(re.findall(r"{(\w+)}", path)) - OPEN:
                yield method.upper(), path, operation.get("requestBody", {}).get("content", {})


async def asked(
    client: httpx2.AsyncClient, method: str, path: str, content: Any, ids: dict[str, str]
) -> tuple[Any, ...]:
    """The answer without the ids that were asked for, which only repeat the question."""
    example = next(iter(content.get("application/json", {}).get("examples", {"": {}}).values())).get("value")
    answer = await client.request(
        method, path.format(**ids), json=example, params={"until": "run_end"} if path.endswith("stream") else None
    )
    said = answer.text
    for value in sorted(ids.values(), key=len, reverse=True):
        said = said.replace(value, "X")
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
    return answer.status_code, said, headers


async def test_a_foreign_id_is_answered_like_an_unknown_one_on_every_route(
    shared: Shared, published: dict[str, Any]
) -> None:
    mine = await furnish(shared)
    walked = list(requests(published))
    assert {name for _, path, _ in walked for name in re.findall(r"{(\w+)}", path)} - OPEN == set(mine.ids)
    before = (await shared.acme.get(f"/sessions/{mine.ids['sid']}/events")).text
    for method, path, content in walked:
        foreign = await asked(shared.other, method, path, content, mine.ids)
        unknown = await asked(shared.other, method, path, content, UNKNOWN)
        assert foreign == unknown, (method, path)
        assert foreign[0] in (400, 404, 422), (method, path, foreign)
    assert (await shared.acme.get(f"/sessions/{mine.ids['sid']}/events")).text == before
    for name, place in (("key_id", "/keys"), ("system_id", "/agent-systems"), ("file_id", f"/files/{mine.document}")):
        found = await shared.acme.get(place)
        assert found.status_code == 200, name
        assert name == "file_id" or mine.ids[name] in found.text


async def test_a_foreign_id_inside_a_body_or_a_query_is_answered_like_an_unknown_one(shared: Shared) -> None:
    mine = await furnish(shared)
    other, sid, document = shared.other, mine.ids["sid"], mine.document
    own = (await other.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]

    async def both(method: str, path: str, there: Any, nowhere: Any, **more: Any) -> None:
        answers = []
        for value in (there, nowhere):
            given = {name: eval_at(form, value) for name, form in more.items()}
            found = await other.request(method, path, **given)
            answers.append((found.status_code, found.text.replace(str(value), "X")))
        assert answers[0] == answers[1], (path, more)
        assert answers[0][0] >= 400, (path, answers[0])

    def eval_at(form: Any, value: Any) -> Any:
        if isinstance(form, dict):
            return {name: eval_at(inner, value) for name, inner in form.items()}
        return (
            [eval_at(inner, value) for inner in form] if isinstance(form, list) else value if form == "HERE" else form
        )

    unknown, nothing = UNKNOWN["sid"], UNKNOWN["file_id"]
    await both("POST", "/stream-tickets", sid, unknown, json={"session_id": "HERE"})
    await both("POST", f"/sessions/{own}/messages", document, nothing, json={"text": "x", "documents": ["HERE"]})
    await both("POST", f"/sessions/{own}/answers", mine.ask, "0" * len(mine.ask), json={"text": "x", "ask_id": "HERE"})
    await both("POST", "/sessions", "secretive", "unheard-of", json={"agent_system_id": "HERE"})
    await both(
        "POST",
        "/stream-test",
        "secretive",
        "unheard-of",
        json={"agent_system_id": "HERE", "messages": [{"role": "user", "content": "x"}]},
    )
    await both("POST", "/api/workflows/start", sid, unknown, params={"id": "HERE"}, json={"prompt": "x"})
    await both("POST", "/api/workflows/start", 1, 999, json={"prompt": "x", "listFileId": ["HERE"]})
    await both("POST", "/api/workflows/start", "secretive", "unheard-of", json={"prompt": "x", "agentSystemId": "HERE"})


async def test_lists_show_what_is_ones_own(shared: Shared) -> None:
    mine = await furnish(shared)
    for path in ("/crons", "/webhook-deliveries", "/delayed-runs"):
        foreign = (await shared.other.get(path)).text
        assert all(value not in foreign for value in mine.ids.values()), path
    for path in ("/sessions", "/api/workflows", "/agent-systems", "/keys", "/tenants", "/audit"):
        seen, foreign = (await shared.acme.get(path)).text, (await shared.other.get(path)).text
        for value in (mine.ids["sid"], mine.ids["system_id"], mine.ids["key_id"], "acme"):
            assert value not in foreign, path
        assert "acme" in seen or mine.ids["sid"] in seen or mine.ids["system_id"] in seen, path


async def test_a_websocket_of_a_foreign_session_is_refused_like_an_unknown_one(shared: Shared) -> None:
    mine = await furnish(shared)
    refused = []
    for sid in (mine.ids["sid"], UNKNOWN["sid"]):
        address = f"{shared.address.replace('http', 'ws')}/sessions/{sid}/ws"
        with pytest.raises(InvalidStatus) as denied:
            async with connect(address, additional_headers={"Authorization": shared.other.headers["authorization"]}):
                pass
        assert denied.value.response.body is not None
        refused.append((denied.value.response.status_code, denied.value.response.body.decode().replace(sid, "X")))
    assert refused[0] == refused[1]
    assert refused[0][0] == 404


async def test_systems_that_the_server_was_started_with_are_everybodys_and_nobodys_to_change(shared: Shared) -> None:
    assert "demo" in [system["id"] for system in (await shared.acme.get("/agent-systems")).json()["agent_systems"]]
    again = SYSTEM.replace("secretive", "demo")
    refused = await shared.acme.post("/agent-systems", content=again, headers={"Content-Type": "application/yaml"})
    assert (refused.status_code, refused.json()["code"]) == (409, "system_given")
    assert (await shared.acme.delete("/agent-systems/demo")).json()["code"] == "system_given"
    both = [
        await client.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
        for client in (shared.acme, shared.other)
    ]
    assert [made.json()["version"] for made in both] == [1, 1]
