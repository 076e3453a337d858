"""A data folder that is moved to PostgreSQL: every session reads the same there, and goes on."""

import json
import shutil
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from stellwerk.database.folder import MASTER_KEY
from stellwerk.errors import SettingsError
from stellwerk.ops.move import Moved, move
from stellwerk.settings import Settings
from tests.conftest import own_server
from tests.database.conftest import Postgresql

NDJSON = {"Accept": "application/x-ndjson"}
ITEM = {"namespace": ["memories"], "key": "food", "value": {"likes": "pizza", "of": "ann"}}
PLACE = {"namespace": "memories", "key": "food"}


async def said(client: httpx2.AsyncClient, text: str) -> str:
    sid = str((await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"])
    sent = (await client.post(f"/sessions/{sid}/messages", json={"text": text})).json()
    await client.get(f"/sessions/{sid}/stream?until=run_end&after={sent['after']}", headers=NDJSON)
    return sid


async def story(client: httpx2.AsyncClient, sid: str) -> list[str]:
    page = await client.get(f"/sessions/{sid}/stream?until=run_end&profile=debug", headers=NDJSON)
    return [line.replace('"origin":"live"', '"origin":"replay"') for line in page.text.splitlines()]


async def moved(data: Path, url: str, documents: Path) -> Moved:
    return await move(data, url, str(documents), lambda line: None)


async def test_a_moved_server_tells_every_session_as_before_and_goes_on_with_it(
    postgresql: Postgresql, tmp_path: Path
) -> None:
    url, data, documents = postgresql.new(), tmp_path / "data", tmp_path / "documents"
    node = tmp_path / "node"
    node.mkdir()
    async with own_server(Settings(data=data)) as client:
        sids = [await said(client, text) for text in ("file", "plan", "ask")]
        before = {sid: await story(client, sid) for sid in sids}
        file = (await client.post("/files", files={"file": ("a.txt", b"kept")})).json()
        assert (await client.put("/store/items", json=ITEM)).status_code == 204
        assert (await client.put("/secrets/openai_api_key", json={"value": "sk-Canary-4711-x"})).status_code == 204
        with pytest.raises(SettingsError, match="another Stellwerk uses the data folder"):
            await moved(data, url, documents)
    done = await moved(data, url, documents)
    assert (done.sessions, done.documents, done.items) == (3, 2, 1)
    with pytest.raises(SettingsError, match="the database has been used"):
        await moved(data, url, documents)
    shutil.copy(data / MASTER_KEY, node / MASTER_KEY)
    async with own_server(Settings(data=node, database=SecretStr(url), documents=str(documents))) as client:
        assert {sid: await story(client, sid) for sid in sids} == before
        assert (await client.get(f"/files/{file['id']}")).content == b"kept"
        assert (await client.get("/store/items", params=PLACE)).json()["value"] == ITEM["value"]
        answer = await client.post(f"/sessions/{sids[2]}/answers", json={"text": "red"})
        assert answer.status_code == 202, answer.text
        after = answer.json()["after"]
        rest = await client.get(f"/sessions/{sids[2]}/stream?until=run_end&after={after}", headers=NDJSON)
        assert json.loads(rest.text.splitlines()[-1])["payload"]["status"] == "completed"


async def test_a_damaged_document_stops_the_move_and_nothing_has_moved(postgresql: Postgresql, tmp_path: Path) -> None:
    url, data, documents = postgresql.new(), tmp_path / "data", tmp_path / "documents"
    async with own_server(Settings(data=data)) as client:
        file = (await client.post("/files", files={"file": ("a.txt", b"kept")})).json()
    (path,) = data.glob(f"documents/*/{file['id']}")
    path.write_bytes(b"changed")
    with pytest.raises(SettingsError, match="is damaged; restore it from a backup"):
        await moved(data, url, documents)
    path.write_bytes(b"kept")
    assert (await moved(data, url, documents)).documents == 1
