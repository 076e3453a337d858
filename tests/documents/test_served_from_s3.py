"""A server whose documents are in an object store, which may be away."""

import json
from pathlib import Path

import httpx2
import pytest

from stellwerk.app import Parts
from stellwerk.errors import SettingsError
from stellwerk.ops.backup import backup, restore
from stellwerk.settings import Settings
from stellwerk.timings import Timings
from tests.commands import Command
from tests.conftest import own_server
from tests.documents.object_store import BUCKET, ObjectStore, line_to

PATIENCE = 1
"""Seconds that a run waits here; thirty are usual."""


async def run(client: httpx2.AsyncClient, text: str) -> list[dict[str, object]]:
    """The envelopes of a run in a new session."""
    sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
    await client.post(f"/sessions/{sid}/messages", json={"text": text})
    stream = await client.get(f"/sessions/{sid}/stream?until=run_end", headers={"Accept": "application/x-ndjson"})
    return [json.loads(line) for line in stream.text.splitlines()]


def ended(envelopes: list[dict[str, object]]) -> object:
    last = envelopes[-1]["payload"]
    assert isinstance(last, dict)
    return last["status"]


async def test_uploads_and_files_of_agents_are_in_the_bucket_also_for_a_restored_server(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    object_store.show(monkeypatch)
    place = f"s3://{BUCKET}/{tmp_path.name}"
    data = tmp_path / "data"
    async with own_server(Settings(data=data, documents=place)) as client:
        sent = await client.post("/files", files={"file": ("a.txt", "Größe".encode())})
        assert sent.status_code == 201, sent.text
        envelopes = await run(client, "file")
        assert ended(envelopes) == "completed"
        made = [line["payload"] for line in envelopes if line["type"] == "document"]
        copied = backup(data, tmp_path / "backup", place)
    assert copied is None
    assert not [path for path in data.rglob("*") if path.parent.parent == data / "documents"]
    assert restore(tmp_path / "backup", tmp_path / "again") is None
    async with own_server(Settings(data=tmp_path / "again", documents=place)) as client:
        found = await client.get(f"/files/{sent.json()['id']}")
        assert (found.text, found.headers["content-type"]) == ("Größe", "text/plain; charset=utf-8")
        for document in made:
            assert isinstance(document, dict)
            assert len((await client.get(f"/files/{document['document_id']}")).content) == document["size"]
    with pytest.raises(SettingsError, match="documents are missing in .*name the place with --documents"):
        backup(data, tmp_path / "another")


async def test_while_the_object_store_is_away_runs_without_documents_go_on_and_others_fail_in_time(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(timings=Timings(storage_patience=PATIENCE))
    async with line_to(object_store.address) as line:
        object_store.show(monkeypatch, address=line.address)
        settings = Settings(data=tmp_path / "data", documents=f"s3://{BUCKET}/{tmp_path.name}")
        async with own_server(settings, parts=parts) as client:
            kept = (await client.post("/files", files={"file": ("a.txt", b"here")})).json()["id"]
            await line.cut()
            refused = await client.post("/files", files={"file": ("b.txt", b"not here")})
            assert (refused.status_code, refused.json()["code"]) == (503, "storage_gone")
            assert BUCKET in refused.json()["detail"]
            assert ended(await run(client, "weather")) == "completed"
            assert ended(await run(client, "file")) == "failed"
            await line.mend()
            assert ended(await run(client, "file")) == "completed"
            assert (await client.get(f"/files/{kept}")).text == "here"
