"""The canary scan: secrets that a run uses and gives away are found nowhere that the server writes or sends."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from stellwerk.ops.backup import backup
from tests.agents.mcp.vault import serving_vault
from tests.collector import serving_collector
from tests.crash.process import start
from tests.crash.waiting import eventually
from tests.openai_server import OpenAiServer, Reply, serving_openai

KEY, TOKEN = "sk-Canary/4711+a=b&c", "Vault-Canary-0815"
TOOLS = """\
import logging
from langgraph.config import get_store
from base64 import b64encode
from urllib.parse import quote
from stellwerk import tool

@tool
def echo(text: str) -> dict:
    '''Return its input in every form.'''
    logging.getLogger("echo").warning("called with %s", text)
    return {"plain": text, text: 1, "url": "https://example.org/?key=" + quote(text, safe=""),
            "auth": "Basic " + b64encode(("user:" + text).encode()).decode()}

@tool
def burst(text: str) -> str:
    '''Fail with its input.'''
    raise RuntimeError("401 for " + text)

@tool
def fill(text: str) -> str:
    '''Give back more than an event holds, cut off in the middle of the secret where a preview ends.'''
    return "x" * 990 + text * 30_000

@tool
def write(text: str) -> dict:
    '''Return a file that contains its input and is named after it.'''
    return {"kind": "file_ref", "filename": text + ".txt", "bytes_b64": b64encode(text.encode()).decode()}

@tool
def remember(text: str) -> str:
    '''Store its input beyond the session.'''
    get_store().put(("notes", text), text, {"text": text, text: [quote(text, safe="")]})
    return str(get_store().get(("notes", text), text).value)
"""
SYSTEM = """\
version: 1
system: {name: leaky, store_prompts: true, storage: {checklist_dir: checklists}}
agents:
  - id: one
    model: {provider: own, model: big}
    tools: {allow: [echo, burst, fill, write, remember, vault_whoami, plan_tasks]}
"""


def operator(folder: Path, openai: str, vault: str) -> Path:
    (folder / "leaks.py").write_text(TOOLS)
    config = folder / "operator.yaml"
    config.write_text(
        f"providers: {{own: {{kind: openai, base_url: '{openai}'}}}}\n"
        f"mcp_servers: {{vault: {{url: '{vault}', headers: {{Authorization: 'Bearer ${{secret:vault_token}}'}}}}}}\n"
        "tools: ['leaks.py:echo', 'leaks.py:burst', 'leaks.py:fill', 'leaks.py:write', 'leaks.py:remember']\n"
    )
    return config


def forms(secret: str) -> Iterator[bytes]:
    yield secret[:9].encode()  # also if it was cut off
    yield quote(secret, safe="").encode()
    yield b64encode(secret.encode()).rstrip(b"=")[:-1]
    yield b64encode(b"user:" + secret.encode())[8:-4]


def found_in(places: dict[str, bytes]) -> list[str]:
    return [
        place for place, data in places.items() for secret in (KEY, TOKEN) for form in forms(secret) if form in data
    ]


def files_below(folder: Path, named: str = "**/*") -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob(named) if path.is_file()}


async def responses(client: httpx2.AsyncClient, sid: str) -> dict[str, bytes]:
    """All responses about the session, and about secrets."""
    paths = [f"/sessions/{sid}/{part}" for part in ("state", "events?profile=debug", "artifacts", "")]
    dialects = ("", "&dialect=chunks", "&dialect=events")
    paths += [f"/sessions/{sid}/stream?until=run_end&profile=debug{name}" for name in dialects]
    paths += ["/secrets", "/audit", "/usage", "/metrics", "/agent-systems/leaky", "/tools"]
    paths += [f"/api/workflows/{sid}/messages", f"/sessions/{sid}/artifacts/todolist.md"]
    answers = {path: await client.get(path.rstrip("/")) for path in paths}
    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code != 200} == {}
    return {path: answer.content for path, answer in answers.items()}


def script(openai: OpenAiServer) -> None:
    openai.key = KEY
    used = ("echo", "burst", "fill", "write", "remember")
    calls = [(name, {"text": KEY}) for name in used]
    openai.replies = [
        Reply(calls=(*calls, ("vault_whoami", {}), ("plan_tasks", {"tasks": [{"title": f"use {KEY}"}]}))),
        Reply(say=f"your key is {KEY} and your token {TOKEN} or {quote(KEY, safe='')}"),
    ]


async def leak(client: httpx2.AsyncClient) -> str:
    """A run that uses both secrets and gives them away; the id of its session."""
    for name, value in (("own_api_key", KEY), ("vault_token", TOKEN)):
        assert (await client.put(f"/secrets/{name}", json={"value": value})).status_code == 204
    made = await client.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201, made.text
    sid = str((await client.post("/sessions", json={"agent_system_id": "leaky"})).json()["id"])
    sent = await client.post(f"/sessions/{sid}/messages", json={"text": f"is {KEY} my key?"})
    assert sent.status_code == 202, sent.text
    ended = await client.get(f"/sessions/{sid}/stream", params={"until": "run_end"})
    assert ended.text.count("[redacted]") > 8, ended.text
    assert '"status":"completed"' in ended.text, ended.text
    return sid


@pytest.mark.only_sqlite
@pytest.mark.requirement("004.security.tenant-secrets")
async def test_a_secret_that_is_used_and_given_away_in_every_form_is_found_nowhere(tmp_path: Path) -> None:
    data, errors, copy = tmp_path / "data", tmp_path / "errors", tmp_path / "copy"
    async with serving_openai() as openai, serving_vault() as (vault, seen), serving_collector() as collector:
        script(openai)
        # Executed, not forked: what is in its environment is looked at, too.
        config, traced = operator(tmp_path, openai.address, vault), ["env", *collector.environment()]
        server = await asyncio.to_thread(start, data, errors=errors, config=config, inside=traced)
        try:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                places = await responses(client, sid := await leak(client))
            await eventually(lambda: (data / f"checklists/todolist_{sid}.md").exists(), within=60, what="no file")
            running = files_below(data)
            places |= running | files_below(Path(f"/proc/{server.pid}"), "environ")
            assert await asyncio.to_thread(backup, data, copy) == 2
        finally:
            await asyncio.to_thread(server.stop)
    assert openai.received[0].authorization == f"Bearer {KEY}"
    assert seen == [f"Bearer {TOKEN}"]
    written, traces, copied = files_below(tmp_path, "errors"), collector.received, files_below(copy)
    assert b"called with [redacted]" in written["errors"]
    assert {"stellwerk.db", "stellwerk.db-wal", "store.db"} <= running.keys()
    assert len([place for place in copied if place.startswith("documents/")]) == 2
    assert traces.keys() == {"/runs/multipart", "/v1/traces"}, traces.keys()
    for trace in traces.values():
        names = (b"[redacted]", b"tenant", b"local", b"session_id", sid.encode(), b"run_id", b"leaky", b"agent")
        assert [name for name in names if name not in trace] == []
    assert found_in({**places, **written, **traces, **copied}) == []
    assert found_in(files_below(data)) == []
