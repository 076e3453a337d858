"""Tools as they are registered: where they come from, what they are called, what is published of them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from langchain_core.tools import StructuredTool

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.tools.builtin import BUILTIN_TOOLS
from stellwerk.agents.tools.registry import (
    ENTRY_POINT_GROUP,
    Tools,
    ToolSpec,
    as_text,
    describe,
    discover,
    select,
    tool,
)
from stellwerk.errors import BrokenReference, InvalidTool, UnknownTool
from stellwerk.workflows.documents.tools import read_document

ROOT = Path(__file__).parents[2]
SHOP = f"{ROOT}/examples/tools/shop.py"


def plain(x: int) -> int:
    """Be a function, and no tool."""
    return x


@tool(aliases=["lamp_price", "quote"])
def price_of_lamp(pieces: int) -> int:
    """Say what lamps cost."""
    return 5 * pieces


@pytest.mark.requirement("004.tools.aliases")
def test_a_tool_is_found_by_its_name_and_by_each_alias() -> None:
    tools = Tools([price_of_lamp])
    assert {name: tools.find(name) for name in tools.names()} == dict.fromkeys(
        ["lamp_price", "price_of_lamp", "quote"], price_of_lamp
    )
    assert set(tools.names().values()) == {"price_of_lamp"}
    assert tools.specs() == [price_of_lamp]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [("price_of_lamps", "did you mean 'price_of_lamp'?"), ("launch_rocket", "`stellwerk tools` lists those that are")],
)
def test_an_unknown_tool_is_refused_with_a_hint(asked: str, hint: str) -> None:
    with pytest.raises(UnknownTool) as refused:
        Tools([price_of_lamp]).find(asked)
    assert refused.value.message == f"the tool '{asked}' is not registered; {hint}"


def test_two_tools_that_claim_one_name_are_refused_naming_both() -> None:
    @tool
    def quote(text: str) -> str:
        """Quote a text."""
        return text

    with pytest.raises(InvalidTool) as refused:
        Tools([price_of_lamp, quote])
    assert re.fullmatch(
        rf"the tool 'quote' of {__file__}, line \d+ wants to be called 'quote', "
        rf"like the tool 'price_of_lamp' of {__file__}, line \d+; rename one of them",
        refused.value.message,
    )


def test_what_is_no_tool_yet_is_refused_with_what_makes_it_one() -> None:
    for given in (plain, StructuredTool.from_function(plain)):
        with pytest.raises(InvalidTool, match="'plain' is none yet; decorate its function with stellwerk.tool"):
            AgentFactory(tools=[given])  # type: ignore[list-item]


def test_one_tool_that_is_found_twice_is_one_tool() -> None:
    assert Tools([price_of_lamp, price_of_lamp]).specs() == [price_of_lamp]


@pytest.mark.requirement("004.tools.pool")
def test_the_pool_is_there_without_any_configuration() -> None:
    names = [spec.name for spec in discover().specs()]
    assert {"get_weather", "current_time", "calculate", "make_table", "write_report", "count_words"} <= set(names)
    assert names == sorted(names)


def test_the_operator_names_tools_by_file_or_module() -> None:
    tools = discover([f"{SHOP}:tools", f"{__name__}:price_of_lamp"])
    assert {"list_stock", "stock", "inventory", "get_quote", "count_primes", "price_of_lamp"} <= tools.names().keys()
    assert tools.names()["stock"] == "list_stock"


@pytest.mark.parametrize(
    ("reference", "remedy"),
    [
        (f"{SHOP}:tolls", "did you mean 'tools'?"),
        (f"{SHOP}:Quote", "name a function decorated with @stellwerk.tool"),
        (f"{__name__}:plain", "name a function decorated with @stellwerk.tool"),
        ("no_such_package.tools:all", "No module named 'no_such_package'"),
    ],
)
def test_a_reference_to_no_tool_is_refused(reference: str, remedy: str) -> None:
    with pytest.raises(BrokenReference) as refused:
        discover([reference])
    assert reference in refused.value.message
    assert remedy in refused.value.message


def test_all_broken_references_are_reported_at_once() -> None:
    with pytest.raises(BrokenReference) as refused:
        discover([f"{SHOP}:tolls", f"{SHOP}:tools", f"{__name__}:plain"])
    first, second = refused.value.message.splitlines()
    assert first == f"{SHOP}:tolls: there is no 'tolls' in it; did you mean 'tools'?"
    assert second.startswith(f"{__name__}:plain: there is no tool in it")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a package that brings tools: real metadata and a real module on the path."""

    def install(entry: str, source: str) -> None:
        (tmp_path / "acme_tools.py").write_text(source)
        about = tmp_path / "acme-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nours = {entry}\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "acme_tools", raising=False)

    return install


SOURCE = '''
from stellwerk.agents.tools.registry import tool

@tool
def acme_search(words: str) -> str:
    """Search at Acme."""
    return words

many = [acme_search]
'''


@pytest.mark.parametrize("entry", ["acme_tools", "acme_tools:acme_search", "acme_tools:many"])
def test_an_installed_package_brings_its_tools(package: Callable[[str, str], None], entry: str) -> None:
    package(entry, SOURCE)
    assert discover().find("acme_search").description == "Search at Acme."


@pytest.mark.parametrize(
    ("entry", "source", "problem"),
    [
        ("acme_tools", "import no_such_thing", "No module named 'no_such_thing'"),
        ("acme_tools", "1 / 0", "ZeroDivisionError"),
        ("acme_tools:gone", "", "has no attribute 'gone'"),
        ("acme_tools", "", "there is no tool in it"),
        ("acme_tools:many", "many = [len]", "there is no tool in it"),
    ],
)
def test_a_package_whose_tools_cannot_be_loaded_is_named(
    package: Callable[[str, str], None], entry: str, source: str, problem: str
) -> None:
    package(entry, source)
    with pytest.raises(BrokenReference) as refused:
        discover()
    assert "the entry point 'ours' of the package 'acme'" in refused.value.message
    assert problem in refused.value.message


@pytest.mark.requirement("004.tools.schemas-as-declared")
def test_what_is_published_is_the_schema_of_the_tool_itself() -> None:
    (shown,) = describe([price_of_lamp])
    assert shown == {
        "name": "price_of_lamp",
        "description": "Say what lamps cost.",
        "input_schema": {
            "type": "object",
            "properties": {"pieces": {"type": "integer"}},
            "required": ["pieces"],
            "additionalProperties": False,
        },
        "output": "json",
        "aliases": ["lamp_price", "quote"],
        "timeout": 60.0,
        "idempotent": False,
        "effects": "read",
        "untrusted": False,
        "runs_in": "thread",
    }


def test_one_tool_is_chosen_by_its_name_or_alias_and_a_near_miss_is_answered() -> None:
    tools = describe([*BUILTIN_TOOLS, price_of_lamp])
    assert [tool["name"] for tool in select(tools, ["quote", "calculate"])] == ["calculate", "price_of_lamp"]
    assert select(tools, []) == tools
    with pytest.raises(UnknownTool, match="'get_wether' is not registered; did you mean 'get_weather'?"):
        select(tools, ["calculate", "get_wether"])


def test_a_terminal_shows_each_tool_in_a_few_lines() -> None:
    assert as_text(describe([price_of_lamp])) == (
        "price_of_lamp  Say what lamps cost.\n"
        "    pieces: integer, required\n"
        "    also called lamp_price, quote\n"
        "    timeout 60 s, effects: read, runs in: thread"
    )
    assert as_text(describe([read_document])).endswith("timeout 150 s, effects: read, untrusted, runs in: loop")


@pytest.mark.parametrize("spec", BUILTIN_TOOLS, ids=lambda spec: spec.name)
def test_every_schema_is_valid(spec: ToolSpec) -> None:
    Draft202012Validator.check_schema(spec.input_schema)


def test_the_page_on_tools_quotes_a_program_that_works_and_names_every_ready_made_tool() -> None:
    page, program = (ROOT / "docs/howto/tools.md").read_text("utf-8"), Path(SHOP).read_text("utf-8")
    quoted = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert quoted
    assert [block for block in quoted if block not in program] == []
    assert [spec.name for spec in BUILTIN_TOOLS if f"`{spec.name}`" not in page] == []
    for target in re.findall(r"\]\(([^)#:]+)\)", page):
        assert (ROOT / "docs/howto" / target).exists()
