"""The operator's file beside an agent system: the commands find it, requests over HTTP do not."""

from pathlib import Path

import httpx2
import pytest

from stellwerk.agents.graphs.operator_file import operator_beside
from stellwerk.errors import SettingsError
from stellwerk.settings import Settings
from tests.commands import Command
from tests.conftest import own_server
from tests.crash.process import server_process

SYSTEM = """
version: 1
system: {name: shop}
agents:
- {id: a, tools: {allow: [greet]}, model: {script: [{steps: [{call: greet}, {say: "{result}"}]}]}}
"""
TOOLS = '''
from stellwerk.agents.tools.spec import tool

@tool
def greet() -> str:
    """Greet."""
    return "Good day, this is the shop."

tools = [greet]
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "system.yaml").write_text(SYSTEM, "utf-8")
    (shop / "tools.py").write_text(TOOLS, "utf-8")
    (shop / "operator.yaml").write_text("tools: ['tools.py:tools']\n", "utf-8")
    return shop


SAID = "stellwerk: using shop/operator.yaml, which lies beside it\n"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["run", "shop/system.yaml", "hi"], "Good day, this is the shop."),
        (["check", "shop/system.yaml"], "ready to register"),
        (["tools", "shop/system.yaml", "greet"], "greet  Greet."),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_commands_find_it_and_name_it(arguments: list[str], expected: str, folder: Path, command: Command) -> None:
    done = command(*arguments)
    assert (done.returncode, expected in done.stdout) == (0, True), done
    assert done.stderr.startswith(SAID)


def test_quiet_is_quiet(folder: Path, command: Command) -> None:
    done = command("run", "--quiet", "shop/system.yaml", "hi")
    assert (done.stdout, done.stderr) == ("Good day, this is the shop.\n", "")


def test_a_named_one_goes_first(folder: Path, command: Command) -> None:
    Path("other.yaml").write_text("tools: []\n", "utf-8")
    done = command("check", "--config", "other.yaml", "shop/system.yaml")
    assert "1 tool not registered here" in done.stdout
    assert done.stderr == ""


def test_a_system_from_standard_input_brings_none(folder: Path, command: Command) -> None:
    Path("operator.yaml").write_text("tools: ['shop/tools.py:tools']\n", "utf-8")
    done = command("check", "-", stdin=SYSTEM)
    assert "1 tool not registered here" in done.stdout
    assert done.stderr == ""


def test_the_server_finds_it_unless_the_environment_names_another(folder: Path, tmp_path: Path) -> None:
    errors, other = tmp_path / "errors", tmp_path / "other.yaml"
    other.write_text("tools: ['shop/tools.py:tools']\n", "utf-8")
    with server_process(tmp_path / "one", errors=errors, serves=["shop/system.yaml"]) as server:
        assert "greet" in httpx2.get(f"{server.address}/tools", timeout=60).text
    assert SAID in errors.read_text("utf-8")
    errors.write_text("", "utf-8")
    with server_process(tmp_path / "two", errors=errors, serves=["shop/system.yaml"], config=other):
        assert SAID not in errors.read_text("utf-8")


async def test_a_system_that_comes_over_http_brings_none(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "operator.yaml").write_text("tools: ['shop/tools.py:tools']\n", "utf-8")
    async with own_server(Settings(data=tmp_path)) as client:
        answer = await client.post("/agent-systems", content=SYSTEM, headers={"Content-Type": "application/x-yaml"})
    assert (answer.status_code, "'greet' is not registered" in answer.text) == (422, True)


def test_two_of_them_are_one_too_many(folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "system.yaml").write_text(SYSTEM, "utf-8")
    assert operator_beside(["shop/system.yaml", "other/system.yaml"]) == Path("shop/operator.yaml")
    (other / "operator.yaml").write_text("tools: []\n", "utf-8")
    with pytest.raises(SettingsError, match="more than one operator.yaml: shop/operator.yaml, other/operator.yaml"):
        operator_beside(["shop/system.yaml", "other/system.yaml"])


@pytest.mark.parametrize(
    "target", ["demo", "shop/tools.py:tools", "shop/nowhere.yaml", "shop/langgraph.json", "x" * 999]
)
def test_what_is_no_system_in_a_file_has_none(target: str, folder: Path) -> None:
    (folder / "langgraph.json").write_text('{"graphs": {}}', "utf-8")
    assert operator_beside([target]) is None
