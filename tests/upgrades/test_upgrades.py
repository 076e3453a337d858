"""Whoever takes a newer version finds his sessions as he left them: each log to the byte, and every one can go on."""

import json
import tarfile
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.conftest import own_server
from tests.upgrades.record import HERE, lines

RECORDED = sorted(path.name.removesuffix(".tar.xz") for path in HERE.glob("*.tar.xz"))


@pytest.mark.requirement("trust.I23")
@pytest.mark.parametrize("version", RECORDED)
async def test_logs_of_an_earlier_version_are_told_to_the_byte_and_go_on(version: str, tmp_path: Path) -> None:
    with tarfile.open(HERE / f"{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    said = {path.stem: path.read_text() for path in (tmp_path / "said").iterdir()}

    async with own_server(Settings(data=tmp_path / "data")) as client:
        assert {session: await lines(client, session) for session in said} == said
        listed = (await client.get("/sessions")).json()["sessions"]
        ends = {session: json.loads(text)["events"][-1]["ts"] for session, text in said.items()}
        assert [(one["id"], one["last_activity_at"]) for one in listed] == sorted(
            ends.items(), key=lambda end: end[1], reverse=True
        )
        assert [await _go_on(client, session) for session in said] == ["completed"] * len(said)


async def _go_on(client: httpx2.AsyncClient, session: str) -> str:
    """What became of one more message; in one of the sessions it is the answer to a question that was open."""
    sent = (await client.post(f"/sessions/{session}/messages", json={"text": "blue"})).raise_for_status().json()
    until = {"until": "run_end", "after": sent["position"]}
    told = await client.get(f"/sessions/{session}/stream", params=until, headers={"Accept": "application/x-ndjson"})
    return str(json.loads(told.text.splitlines()[-1])["payload"]["status"])


def test_the_two_versions_before_this_one_are_kept() -> None:
    assert len(RECORDED) >= 2
