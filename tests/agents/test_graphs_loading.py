"""How the operator's code is found: by file, by module, by entry point; and what a factory may ask for."""

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.memory import InMemoryStore

from stellwerk.agents.graphs.import_reference import load_reference
from stellwerk.agents.graphs.registry import ENTRY_POINTS, GraphEntry, Graphs, GraphSettings, discover, open_graph
from stellwerk.errors import BrokenReference, NotFound

EXAMPLE = Path(__file__).parents[2] / "examples/own-graph"

GRAPH = """
from langgraph.graph import MessagesState, StateGraph

def say(state: MessagesState) -> dict:
    return {"messages": []}

builder = StateGraph(MessagesState)
builder.add_node("say", say)
builder.set_entry_point("say")
graph = builder.compile()
"""


@pytest.fixture(autouse=True)
def what_was_imported_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - before:
        if "pytest" in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text), "utf-8")
    return path


async def opened(source: Any) -> Any:
    async with AsyncExitStack() as resources:
        return await open_graph(GraphEntry("g", source, "g.py:source"), resources, store=InMemoryStore())


def test_an_object_is_loaded_from_a_file() -> None:
    graph = load_reference(f"{EXAMPLE / 'desk.py'}:graph")
    assert isinstance(graph, Pregel)
    assert load_reference(f"{EXAMPLE / 'desk.py'}:graph") is graph, "the file is imported once"


def test_an_object_is_loaded_from_a_module() -> None:
    assert load_reference("langgraph.graph:StateGraph") is StateGraph


def test_a_path_counts_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "agent.py", "value = 1")
    monkeypatch.chdir(tmp_path)
    assert load_reference("./agent.py:value") == load_reference("agent.py:value") == 1


@pytest.mark.parametrize("line", ["from near import VALUE", "from .near import VALUE"])
def test_what_lies_next_to_a_file_can_be_imported(tmp_path: Path, line: str) -> None:
    write(tmp_path / "near.py", "VALUE = 'near'")
    write(tmp_path / "agent.py", line)
    path = list(sys.path)
    assert load_reference(f"{tmp_path / 'agent.py'}:VALUE") == "near"
    assert sys.path == path, "the folder is on the path only while the file is imported"


def test_a_file_inside_a_package_is_imported_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path / "helpdesk_one/__init__.py", "")
    write(tmp_path / "helpdesk_one/parts/__init__.py", "PART = 'part'")
    write(tmp_path / "helpdesk_one/agent.py", "from helpdesk_one.parts import PART\nfrom .parts import PART as again")
    assert load_reference(f"{tmp_path / 'helpdesk_one/agent.py'}:again") == "part"
    assert sys.modules["helpdesk_one.agent"].__name__ == "helpdesk_one.agent"


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder / "near.py", f"WHO = {folder!r}")
        write(tmp_path / folder / "agent.py", "from .near import WHO")
    assert [load_reference(f"{tmp_path / folder / 'agent.py'}:WHO") for folder in ("a", "b")] == ["a", "b"]


def test_two_packages_of_one_name_are_an_error(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(tmp_path / folder / "helpdesk_two/__init__.py", "")
        write(tmp_path / folder / "helpdesk_two/agent.py", "VALUE = 1")
    load_reference(f"{tmp_path / 'a/helpdesk_two/agent.py'}:VALUE")
    with pytest.raises(BrokenReference, match="helpdesk_two.agent is loaded already, from .*rename one"):
        load_reference(f"{tmp_path / 'b/helpdesk_two/agent.py'}:VALUE")


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("agent.py", "write it as path/to/file.py:name or package.module:name"),
        ("agent:", "write it as"),
        ("not a module:graph", "write it as"),
        ("agnt.py:graph", "there is no file .*agnt.py; did you mean 'agent.py'?"),
        ("agent.py:graf", "there is no 'graf' in it; did you mean 'graph'?"),
        ("agent.py:x", "there is no 'x' in it; there are: builder, graph$"),
        ("other.py:graph", "there is no file .*other.py; there are: agent.py, agent.v2.py, broken.py"),
        ("nowhere/agent.py:graph", "there is no file .*; nor is there a folder .*nowhere$"),
        ("bare/agent.py:graph", "there is no file .*; there is no .py file in that folder$"),
        ("hollow.py:graph", "there is no 'graph' in it; it has no names at all$"),
        ("agent.v2.py:graph", "cannot have a dot in its name; rename the file"),
        ("broken.py:graph", r"importing it failed: ZeroDivisionError: division by zero \(.*broken.py, line 2\)"),
        ("syntax.py:graph", r"importing it failed: SyntaxError: '\(' was never closed .*syntax.py, line 1"),
        ("tool.py:sell", r"importing it failed: the tool 'sell' has no docstring; .* \(.*/tool.py, line 3\)"),
        ("lacking.py:graph", "No module named 'no_such_package'; install it into this environment"),
        ("no_such_package.x:graph", "No module named 'no_such_package'; install it"),
        (
            "old.py:graph",
            r"No module named 'langchain_core.pydantic_v1'; langchain_core 1.0 removed it; import the same names from "
            r"pydantic \(.*/old.py, line 2\)",
        ),
        ("parted.py:graph", "No module named 'langgraph.no_such_part'; langgraph is installed without it; another "),
        (
            "wrong.py:graph",
            r"importing it failed: .*Error: .* \(.*/wrong.py, line 4; raised in .*/langgraph/.*\.py, line \d+\)",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, says: str
) -> None:
    write(tmp_path / "agent.py", "builder = 1\ngraph = 2")
    write(tmp_path / "agent.v2.py", "graph = 2")
    write(tmp_path / "broken.py", "graph = 1\ngraph / 0")
    write(tmp_path / "syntax.py", "graph = (")
    write(tmp_path / "lacking.py", "import no_such_package")
    write(tmp_path / "hollow.py", "")
    write(tmp_path / "old.py", "graph = 1\nfrom langchain_core.pydantic_v1 import BaseModel")
    write(tmp_path / "parted.py", "from langgraph.no_such_part import x")
    write(tmp_path / "wrong.py", "from langgraph.graph import StateGraph\n\n\nStateGraph(dict).compile()")
    write(tmp_path / "tool.py", "from stellwerk import tool\n\n@tool\ndef sell(article: str) -> str: return article")
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokenReference, match=f"(?s)^{reference}: .*{says}"):
        load_reference(reference)


FACTORIES = {
    "a function": "def make(): return graph",
    "a builder": "make = builder",
    "an async function": "async def make(): return graph",
    "with a config": """
        from langchain_core.runnables import RunnableConfig
        def make(config: RunnableConfig): return graph if config["configurable"] == {} else None
        """,
    "with a config of another name": """
        from langchain_core.runnables import RunnableConfig
        def make(settings: "RunnableConfig"): return graph
        """,
    "with config and runtime": """
        from langchain_core.runnables import RunnableConfig
        from langgraph_sdk.runtime import ServerRuntime
        async def make(config: RunnableConfig, runtime: ServerRuntime):
            return graph if runtime.execution_runtime and runtime.store is not None else None
        """,
    "with defaults": "def make(depth=3, *rest, **options): return graph",
    "a partial": """
        import functools
        def made(depth): return graph
        make = functools.partial(made, depth=3)
        """,
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES.keys())
async def test_a_graph_may_come_from_a_factory(tmp_path: Path, factory: str) -> None:
    write(tmp_path / "agent.py", GRAPH + dedent(factory))
    assert isinstance(await opened(load_reference(f"{tmp_path / 'agent.py'}:make")), Pregel | StateGraph)


OPENS = """
import contextlib
told = []
@contextlib.contextmanager
def make():
    told.append("open")
    yield graph
    told.append("closed")
"""


@pytest.mark.parametrize(
    "text", [OPENS, OPENS.replace("contextmanager", "asynccontextmanager").replace("def", "async def")]
)
async def test_what_a_factory_opens_stays_open_until_the_server_ends(tmp_path: Path, text: str) -> None:
    write(tmp_path / "agent.py", GRAPH + text)
    source, told = (load_reference(f"{tmp_path / 'agent.py'}:{name}") for name in ("make", "told"))
    async with AsyncExitStack() as resources:
        await open_graph(GraphEntry("g", source, "agent.py:make"), resources, store=InMemoryStore())
        assert told == ["open"]
    assert told == ["open", "closed"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (7, "is of type int; a compiled graph, a StateGraph or a function making one is needed"),
        (lambda: "text", "is of type str; a compiled graph"),
        (lambda user: user, "asks for 'user', which we cannot give; a factory takes nothing, or config"),
        (lambda: 1 / 0, r"making the graph failed: ZeroDivisionError: division by zero \(.*test_graphs_loading.py"),
    ],
)
async def test_a_factory_that_makes_no_graph_says_what_to_do(source: Any, says: str) -> None:
    with pytest.raises(BrokenReference, match=f"g.py:source: {says}"):
        await opened(source)


def test_installed_packages_bring_graphs_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "helpdesk_three.py", GRAPH)
    write(tmp_path / "helpdesk_three-1.0.dist-info/METADATA", "Name: helpdesk-three\nVersion: 1.0\n")
    write(
        tmp_path / "helpdesk_three-1.0.dist-info/entry_points.txt",
        f"[{ENTRY_POINTS}]\nthird = helpdesk_three:graph\n",
    )
    monkeypatch.syspath_prepend(tmp_path)
    graphs = discover({"desk": f"{EXAMPLE / 'desk.py'}:graph"}, GraphSettings(inputs={"third": "messages"}))
    assert graphs.names() == ["desk", "third"]
    assert graphs.find("third").input_key == "messages"


def test_an_unknown_graph_is_an_error_that_lists_the_known_ones() -> None:
    graphs = discover({"desk": f"{EXAMPLE / 'desk.py'}:graph"})
    with pytest.raises(NotFound, match="no graph 'dsek'; did you mean 'desk'?"):
        graphs.find("dsek")
    with pytest.raises(NotFound, match="no graph 'other'; known are: desk"):
        graphs.find("other")
    with pytest.raises(NotFound, match="no graph 'other'; the operator has registered none"):
        Graphs().find("other")
    with pytest.raises(NotFound, match="no graph 'other'"):
        discover({}, GraphSettings(inputs={"other": "question"}))


async def test_a_graph_that_cannot_be_imported_is_kept_with_its_problem(tmp_path: Path) -> None:
    write(tmp_path / "broken.py", "1 / 0")
    graphs = discover(
        {
            "a": f"{tmp_path}/broken.py:graph",
            "b": f"{EXAMPLE}/desk.py:graph",
            "c": "no_such_package:graph",
            "d": "./agent.ts:graph",
        }
    )
    assert graphs.names() == ["a", "b", "c", "d"]
    first, second, third = (error.message for error in graphs.broken())
    assert first.startswith(f"{tmp_path}/broken.py:graph: importing it failed: ZeroDivisionError")
    assert second.startswith("no_such_package:graph: importing it failed: ModuleNotFoundError")
    assert third == "./agent.ts:graph: is JavaScript; only graphs in Python can run here"
    async with AsyncExitStack() as stack:
        with pytest.raises(BrokenReference, match="ZeroDivisionError"):
            await open_graph(graphs.find("a"), stack, store=InMemoryStore())


def test_two_graphs_cannot_have_one_name() -> None:
    with pytest.raises(BrokenReference, match="b.py:g: the name 'desk' is taken by a.py:g; choose another one"):
        Graphs([GraphEntry("desk", 1, "a.py:g"), GraphEntry("desk", 2, "b.py:g")])
