"""Secrets over HTTP: stored and used, per tenant and per agent system, and never returned."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.api.tenants import Shared, shared_server
from tests.commands import Command
from tests.openai_server import OpenAiServer, Reply, serving_openai

YAML = {"Content-Type": "application/yaml"}
CONFIG = """\
providers:
  house: {{kind: openai, base_url: "{address}"}}
"""


@pytest.fixture
async def house() -> AsyncIterator[OpenAiServer]:
    async with serving_openai() as server:
        yield server


@pytest.fixture
async def shared(tmp_path: Path, house: OpenAiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shared]:
    monkeypatch.setenv("HOUSE_API_KEY", "sk-Operator-0")  # the server's environment serves its own tenant alone
    config = tmp_path / "operator.yaml"
    config.write_text(CONFIG.format(address=house.address))
    async with shared_server(tmp_path / "data", config=config) as made:
        yield made


def system(name: str) -> str:
    return f"{{version: 1, system: {{name: {name}}}, agents: [{{id: one, model: {{provider: house, model: big}}}}]}}"


async def ask(client: httpx2.AsyncClient, name: str) -> str:
    """How the run of one message ended, or why there is none."""
    sid = (await client.post("/sessions", json={"agent_system_id": name})).json()["id"]
    sent = await client.post(f"/sessions/{sid}/messages", json={"text": "hello"})
    if sent.status_code != 202:
        return str(sent.json()["code"])
    await client.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
    return str((await client.get(f"/sessions/{sid}/state")).json()["status"])


@pytest.mark.requirement("004.models.keys-per-system")
@pytest.mark.requirement("004.security.tenant-secrets")
async def test_an_agent_system_speaks_with_its_own_key_or_its_tenants_and_with_the_newest_at_once(
    shared: Shared, house: OpenAiServer
) -> None:
    house.replies = [Reply(say="hi")] * 9

    async def spoken(client: httpx2.AsyncClient, name: str, key: str) -> str:
        house.key = key
        return await ask(client, name)

    for client in (shared.acme, shared.other, shared.operator):
        for name in ("desk", "shop"):
            await client.post("/agent-systems", content=system(name), headers=YAML)
    assert await ask(shared.acme, "desk") == "missing_secret"
    await shared.acme.put("/secrets/house_api_key", json={"value": "sk-Tenant-1"})
    await shared.acme.put("/secrets/house_api_key", json={"value": "sk-System-2", "agent_system_id": "shop"})
    assert await spoken(shared.acme, "desk", "sk-Tenant-1") == "completed"
    assert await spoken(shared.acme, "shop", "sk-System-2") == "completed"
    assert await ask(shared.other, "desk") == "missing_secret"
    assert await spoken(shared.operator, "desk", "sk-Operator-0") == "completed"
    await shared.acme.put("/secrets/house_api_key", json={"value": "sk-Tenant-3"})
    assert await spoken(shared.acme, "desk", "sk-Tenant-3") == "completed"
    await shared.acme.delete("/secrets/house_api_key", params={"agent_system_id": "shop"})
    assert await spoken(shared.acme, "shop", "sk-Tenant-3") == "completed"
    await shared.acme.delete("/secrets/house_api_key")
    assert await ask(shared.acme, "shop") == "missing_secret"


async def test_names_are_listed_and_values_are_not_and_each_tenant_sees_its_own(shared: Shared) -> None:
    stored = await shared.acme.put("/secrets/git_token", json={"value": "Canary-4711"})
    assert (stored.status_code, stored.content) == (204, b"")
    mine, theirs = (await shared.acme.get("/secrets")), (await shared.other.get("/secrets"))
    assert [each["name"] for each in mine.json()["secrets"]] == ["git_token"]
    assert "Canary" not in mine.text
    assert theirs.json() == {"secrets": []}
    foreign, unknown = [await shared.other.delete(f"/secrets/{name}") for name in ("git_token", "got_token")]
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.text.replace("git_token", "got_token") == unknown.text
    await shared.other.put("/secrets/git_token", json={"value": "Another-0815"})
    assert (await shared.other.delete("/secrets/git_token")).status_code == 204
    assert (await shared.acme.get("/secrets")).json() == mine.json()
    audit = (await shared.acme.get("/audit")).json()["entries"][-1]
    assert (audit["what"], audit["on"]) == ("PUT /secrets/{name}", {"name": "git_token"})
    async with shared.client("acme", role="member") as member:
        assert (await member.get("/secrets")).status_code == 403
    assert (await shared.acme.post("/secrets/rotation")).status_code == 403


async def test_what_is_refused_is_not_repeated(shared: Shared) -> None:
    for name, body in (
        ("Not-A-Name", {"value": "Canary-4711"}),
        ("token", {"value": "Canary"}),
        ("token", {"value": ["Canary-4711"]}),
        ("token", {"value": "Canary-4711" * 5000}),
        ("token", {"value": "Canary-4711", "agent_system_id": "../x"}),
        ("token", {"value": "Canary-4711", "more": 1}),
    ):
        refused = await shared.acme.put(f"/secrets/{name}", json=body)
        assert refused.status_code == 422, (name, refused.text)
        assert "Canary" not in refused.text
    broken = await shared.acme.put(
        "/secrets/token", content=b'{"value": "Canary-4711"', headers={"Content-Type": "application/json"}
    )
    assert broken.status_code == 400
    assert "Canary" not in broken.text


def test_from_the_command_line_a_value_is_read_from_a_pipe(shared_address: str, command: Command) -> None:
    at = ("--url", shared_address)
    done = command("secrets", "set", "git_token", "--system", "desk", *at, stdin="Canary-4711\n")
    assert (done.returncode, done.stderr) == (0, "stored git_token for desk; the next run uses it\n")
    listed = command("secrets", "list", *at)
    assert "git_token" in listed.stdout
    assert "desk" in listed.stdout
    assert "Canary" not in listed.stdout
    assert "1 secrets are sealed" in command("secrets", "rotate", *at).stderr
    assert command("secrets", "delete", "git_token", "--system", "desk", *at).returncode == 0
    assert command("secrets", "delete", "git_token", *at).returncode == 2
    assert "git_token" not in command("secrets", "list", "--json", *at).stdout
