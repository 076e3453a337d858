"""/agent-systems over real HTTP."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.reading import sse, whole_round
from tests.api.tenants import shared_server
from tests.conftest import own_server, running_server

DESK = """\
version: 1
system:
  name: desk
  description: Answers questions.
agents:
  - id: boss
    system_prompt: You lead.
    tools:
      allow: [get_weather, helper]
    model:
      provider: scripted
      script:
        - steps:
            - say: Good morning.
  - id: helper
    role: sub-agent
    description: Helps.
    max_steps: 3
    tools:
      allow: [count_words]
"""
SMALL = "{version: 1, system: {name: small}, agents: [{id: one}]}"
YAML = {"Content-Type": "application/x-yaml"}


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


@pytest.fixture(autouse=True)
async def _nothing_is_left(client: httpx2.AsyncClient) -> AsyncIterator[None]:
    """The next test counts versions from 1: those that no session refers to go with their system."""
    yield
    for session in (await client.get("/sessions")).json()["sessions"]:
        assert (await client.delete(f"/sessions/{session['id']}")).status_code == 204
    await register(client)
    for system in (await client.get("/agent-systems")).json()["agent_systems"]:
        if system["id"] not in ("demo", "office"):
            assert (await client.delete(f"/agent-systems/{system['id']}")).status_code == 204


async def register(client: httpx2.AsyncClient, text: str = DESK, **params: str) -> httpx2.Response:
    return await client.post("/agent-systems", content=text, headers=YAML, params=params)


async def begin(client: httpx2.AsyncClient, system: str = "desk") -> str:
    return str((await client.post("/sessions", json={"agent_system_id": system})).json()["id"])


@pytest.mark.requirement("004.systems.register-yaml", "003.agents.registry")
@pytest.mark.parametrize("kind", ["application/yaml", "application/x-yaml; charset=utf-8", "text/yaml"])
async def test_a_system_is_registered_from_yaml_and_can_be_talked_to(client: httpx2.AsyncClient, kind: str) -> None:
    answer = await client.post("/agent-systems", content=DESK, headers={"Content-Type": kind})
    assert (answer.status_code, answer.headers["location"]) == (201, "/agent-systems/desk")
    assert answer.json() == {"id": "desk", "version": 1, "warnings": []}
    events = await whole_round(client, await begin(client), "hello")
    assert events[-1]["payload"]["result"] == "Good morning."


@pytest.mark.requirement("004.systems.register-json")
async def test_the_same_can_be_said_in_json(client: httpx2.AsyncClient) -> None:
    system = {"version": 1, "system": {"name": "small"}, "agents": [{"id": "one", "tools": {"allow": ["get_weather"]}}]}
    answer = await client.post("/agent-systems", json=system)
    assert (answer.status_code, answer.json()["id"]) == (201, "small")
    assert (await client.get("/agent-systems/small")).json()["agents"][0]["tools"] == ["get_weather"]


@pytest.mark.requirement("004.systems.update")
async def test_another_text_is_a_new_version_and_the_same_text_is_none(client: httpx2.AsyncClient) -> None:
    await register(client)
    sid = await begin(client)
    assert (await register(client)).json()["version"] == 1
    changed = await register(client, DESK.replace("Good morning.", "Good evening."))
    assert (changed.status_code, changed.json()["version"]) == (201, 2)
    events = await whole_round(client, sid, "hello")
    assert events[0]["payload"]["system_version"] == 2
    assert events[-1]["payload"]["result"] == "Good evening."
    assert (await client.get("/agent-systems/desk")).json()["versions"] == [1, 2]
    assert (await client.get("/agent-systems/desk", params={"version": 1})).json()["version"] == 1
    assert (await client.get("/agent-systems/desk/text", params={"version": 1})).text == DESK
    missing = await client.get("/agent-systems/desk", params={"version": 9})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_version")
    assert missing.json()["detail"] == "there is no version '9'; of 'desk' there are: 1, 2"


@pytest.mark.requirement("004.systems.resolved")
async def test_the_resolved_config_names_agents_tools_and_models(client: httpx2.AsyncClient) -> None:
    await register(client)
    found = (await client.get("/agent-systems/desk")).json()
    assert (found["orchestrator"], found["tools"]) == ("boss", ["count_words", "get_weather"])
    assert found["models"] == ["scripted:scripted"]
    boss = next(agent for agent in found["agents"] if agent["id"] == "boss")
    helper = next(agent for agent in found["agents"] if agent["id"] == "helper")
    assert (boss["role"], boss["tools"], boss["agents"]) == ("orchestrator", ["get_weather"], [{"id": "helper"}])
    assert (helper["role"], helper["config"]["max_steps"]) == ("sub-agent", 3)
    assert found["problems"] == []


async def test_a_dry_run_returns_the_resolved_system_and_stores_nothing(client: httpx2.AsyncClient) -> None:
    answer = await register(client, dry_run="true")
    assert answer.status_code == 200
    resolved = answer.json()
    assert (resolved["id"], resolved["version"], resolved["tools"]) == ("desk", None, ["count_words", "get_weather"])
    assert (await client.get("/agent-systems/desk")).status_code == 404


@pytest.mark.parametrize("params", [{}, {"dry_run": "true"}])
async def test_all_problems_are_returned_with_their_places_and_nothing_is_stored(
    client: httpx2.AsyncClient, params: dict[str, str]
) -> None:
    broken = DESK.replace("get_weather", "get_wether").replace("max_steps: 3", "tool_timeouts: {sing: 1}")
    answer = await register(client, broken, **params)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert problem["code"] == "invalid_system"
    found = {one["field"]: one for one in problem["problems"]}
    assert found["agents[0].tools.allow[0]"]["line"] == 9
    assert "get_weather" in found["agents[0].tools.allow[0]"]["message"]
    assert found["agents[1].tool_timeouts.sing"]["column"] > 1
    assert {one["file"] for one in problem["problems"]} == {"body"}
    assert (await client.get("/agent-systems/desk")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({}, b"version: 1", 415, "unsupported_media_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"version: 1", 415, "unsupported_media_type"),
        (YAML, b"", 422, "invalid_system"),
        (YAML, b"\xff\xfe", 422, "invalid_system"),
        (YAML, b"a: &a [*a]", 422, "invalid_system"),
        (YAML, b"[" * 50_000, 422, "invalid_system"),
        (YAML, b"#" * 256 * 1024 + b"#", 413, "too_large"),
        ({"Content-Type": "application/json"}, b'{"version": 1,', 422, "invalid_system"),
    ],
)
async def test_what_is_no_system_is_refused(
    client: httpx2.AsyncClient, headers: dict[str, str], content: bytes, status: int, code: str
) -> None:
    answer = await client.post("/agent-systems", content=content, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_systems_are_listed_by_name_in_pages(client: httpx2.AsyncClient) -> None:
    for name in ("zoo", "desk", "alpha"):
        await register(client, DESK.replace("name: desk", f"name: {name}"))
    first = (await client.get("/agent-systems", params={"limit": 3})).json()
    assert [system["id"] for system in first["agent_systems"]] == ["alpha", "demo", "desk"]
    alpha, demo, _ = [system["description"] for system in first["agent_systems"]]
    assert alpha == "Answers questions." and "Say weather, table, file" in demo
    rest = (await client.get("/agent-systems", params={"limit": 3, "after": first["next"]})).json()
    assert ([system["id"] for system in rest["agent_systems"]], rest["next"]) == (["office", "zoo"], None)


async def test_a_system_that_was_taken_away_refuses_new_sessions_and_new_rounds(client: httpx2.AsyncClient) -> None:
    await register(client)
    sid = await begin(client)
    await whole_round(client, sid, "hello")
    assert (await client.delete("/agent-systems/desk")).status_code == 204
    for path in ("/agent-systems/desk", "/agent-systems/desk?version=1"):
        assert (await client.get(path)).status_code == 404
    assert (await client.post("/sessions", json={"agent_system_id": "desk"})).status_code == 404
    refused = await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
    assert (refused.status_code, refused.json()["code"]) == (409, "system_gone")
    assert len(await sse(client, f"/sessions/{sid}/stream", until="run_end")) > 3
    assert (await client.delete("/agent-systems/desk")).status_code == 404


async def test_a_round_that_is_under_way_goes_on_with_its_version(client: httpx2.AsyncClient) -> None:
    await register(client, DESK.replace("provider: scripted\n", "provider: scripted\n      pace: 0.05\n"))
    sid = await begin(client)
    accepted = (await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})).json()
    assert (await client.delete("/agent-systems/desk")).status_code == 204
    events = await sse(client, f"/sessions/{sid}/stream", after=str(accepted["after"]), until="run_end")
    assert events[-1]["payload"]["status"] == "completed"


async def test_a_system_comes_back_when_it_is_registered_again(client: httpx2.AsyncClient) -> None:
    await register(client)
    sid = await begin(client)
    await client.delete("/agent-systems/desk")
    assert (await register(client)).json()["version"] == 1
    assert (await whole_round(client, sid, "hello"))[-1]["payload"]["status"] == "completed"
    await client.delete("/agent-systems/desk")
    assert (await register(client, DESK + "# changed\n")).json()["version"] == 2


async def test_numbers_of_versions_without_references_are_reused(client: httpx2.AsyncClient) -> None:
    await register(client)
    await client.delete("/agent-systems/desk")
    assert (await register(client, DESK.replace("morning", "evening"))).json()["version"] == 1
    events = await whole_round(client, await begin(client), "hello")
    assert events[-1]["payload"]["result"] == "Good evening."


async def test_what_the_server_was_started_with_cannot_be_taken_away(tmp_path: Path) -> None:
    own = tmp_path / "desk.yaml"
    own.write_text(DESK, "utf-8")
    server = running_server(Settings(data=tmp_path / "data"), own={"desk": str(own)})
    async with server as address, httpx2.AsyncClient(base_url=address, timeout=60) as client:
        for name in ("demo", "desk"):
            refused = await client.delete(f"/agent-systems/{name}")
            assert (refused.status_code, refused.json()["code"]) == (409, "system_given")


async def test_a_system_that_can_no_longer_be_built_says_so_and_its_sessions_get_409(tmp_path: Path) -> None:
    tool = tmp_path / "mine.py"
    tool.write_text(
        'import stellwerk\n\n@stellwerk.tool\ndef mine(a: str) -> str:\n    "Mine."\n    return a\n', "utf-8"
    )
    config = tmp_path / "operator.yaml"
    config.write_text(f"tools: ['{tool}:mine']\n", "utf-8")
    settings = Settings(data=tmp_path / "data", config=config)
    async with own_server(settings) as client:
        assert (await register(client, DESK.replace("get_weather", "mine"))).status_code == 201
        sid = await begin(client)
    async with own_server(Settings(data=tmp_path / "data")) as client:
        refused = await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
        assert (refused.status_code, refused.json()["code"]) == (409, "system_changed")
        found = (await client.get("/agent-systems/desk")).json()
        assert "mine" in found["problems"][0]["message"]
        assert (await client.get(f"/sessions/{sid}")).json()["round"] == 0


async def test_a_tenant_that_the_environment_does_not_serve_gets_no_advice_to_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = SMALL.replace("id: one", "id: one, model: {provider: openai, model: gpt-4.1}")
    async with shared_server(tmp_path / "data") as shared:
        for client, otherwise in (
            (shared.acme, ""),
            (shared.operator, ", or start the server with OPENAI_API_KEY set"),
        ):
            (warning,) = (await register(client, text)).json()["warnings"]
            assert warning["message"] == f"there is no key for 'openai'; store the secret openai_api_key{otherwise}"


async def test_a_missing_key_is_a_warning_at_first_and_a_refusal_at_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = SMALL.replace("id: one", "id: one, model: {provider: openai, model: gpt-4.1}")
    async with own_server(Settings(data=tmp_path)) as client:
        answer = await register(client, text)
        assert answer.status_code == 201, answer.text
        assert "openai_api_key" in answer.json()["warnings"][0]["message"]
        refused = await client.post(f"/sessions/{await begin(client, 'small')}/messages", json={"text": "hello"})
        assert (refused.status_code, refused.json()["code"]) == (409, "missing_secret")
        before = (await client.get("/sessions")).json()
        asked = {"messages": [{"role": "user", "content": "hello"}], "agent_system_id": "small"}
        assert (await client.post("/stream-test", json=asked)).status_code == 409
        assert (await client.get("/sessions")).json() == before, "it left its session behind"


async def test_no_key_of_the_operator_comes_out_of_a_resolved_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-1234567")
    async with own_server(Settings(data=tmp_path)) as client:
        await register(client, DESK.replace("You lead.", "Use sk-canary-1234567 for all."))
        text = (await client.get("/agent-systems/desk")).text
        assert "[redacted]" in text
        assert "canary" not in text + (await client.get("/agent-systems/desk/text")).text
        assert "canary" not in (await register(client, dry_run="true")).text


async def test_every_route_has_an_example_and_says_how_it_fails(client: httpx2.AsyncClient) -> None:
    paths: dict[str, dict[str, Any]] = (await client.get("/openapi.json")).json()["paths"]
    ours = [path for path in paths if path.startswith(("/agent-systems", "/tools", "/files", "/sessions/{sid}/"))]
    for path in ours:
        for method, said in paths[path].items():
            assert said["summary"], path
            if "{" in path:
                assert "404" in said["responses"], (method, path)
    listed = paths["/agent-systems"]["get"]["responses"]["200"]["content"]["application/json"]
    assert listed["example"]["agent_systems"]
    assert "application/x-yaml" in json.dumps(paths["/agent-systems"]["post"]["requestBody"])


async def test_an_unknown_system_on_a_server_without_any_is_answered_with_how_to_register_one(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path, demo=False)) as client:
        answer = await client.post("/sessions", json={"agent_system_id": "demo"})
    assert answer.status_code == 404
    assert (
        answer.json()["detail"]
        == "there is no agent system 'demo'; none is registered; POST /agent-systems registers one"
    )
