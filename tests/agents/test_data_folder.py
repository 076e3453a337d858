"""The data folder as tools see it: that of the server they are called in, wherever the environment points."""

from pathlib import Path

import httpx2
import pytest

import stellwerk
from stellwerk.agents.runtime.context import RunContext, running_in
from stellwerk.settings import Settings
from tests.api.reading import round_with
from tests.conftest import running_server

TOOLS = """\
from stellwerk import data_folder, tool

@tool
def here() -> str:
    "Say where."
    return str(data_folder())

@tool(runs_in="process")
def below() -> str:
    "Say where, from a process."
    return str(data_folder())

tools = [here, below]
"""
SYSTEM = """\
version: 1
system: {name: places}
agents:
  - id: teller
    tools: {allow: [here, below]}
    model:
      provider: scripted
      script: [{steps: [{call: here}, {call: below}, {say: done}]}]
"""


def test_without_a_server_it_is_the_one_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STELLWERK_DATA", raising=False)
    assert stellwerk.data_folder() == tmp_path / "data/files"
    monkeypatch.setenv("STELLWERK_DATA", "elsewhere")
    assert stellwerk.data_folder() == tmp_path / "elsewhere/files"
    with running_in(RunContext(data=Path("mine"))):
        assert stellwerk.data_folder() == tmp_path / "mine/files"


async def test_a_tool_finds_the_data_folder_of_its_server_in_a_thread_and_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STELLWERK_DATA", str(tmp_path / "another"))
    for name, text in (("places.py", TOOLS), ("places.yaml", SYSTEM), ("operator.yaml", "tools: [places.py:tools]\n")):
        (tmp_path / name).write_text(text)
    settings = Settings(data=tmp_path / "own", config=tmp_path / "operator.yaml")
    async with running_server(settings, own={"places": str(tmp_path / "places.yaml")}) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            told = await round_with(client, "places", "where?")
    results = [one["payload"]["result"] for one in told if one["type"] == "tool_end"]
    assert results == [{"kind": "text", "text": str(tmp_path / "own/files")}] * 2
    assert not (tmp_path / "another").exists()
