"""Whatever the framework hands over, and wherever: it passes one coercion, and nothing but the adapter tells of it."""

import ast
import asyncio
from pathlib import Path

import pytest

import stellwerk
from stellwerk.envelope.model import Log, State, decode, encode
from stellwerk.stream import facts as f
from stellwerk.stream.adapter import StreamAdapter

STRANGE = {"lock": asyncio.Lock(), "nan": float("nan"), "bytes": b"\xff"}
TOOL = f.ToolStarted(1.0, "t", None, "search", "c1", "tools:1", {}, "boss", "tools")
GIVEN: dict[str, list[f.Fact]] = {
    "arguments of a model": [f.ModelStarted(1.0, "m", None, "gpt", "boss", "model", params=STRANGE)],
    "a stored prompt": [f.ModelStarted(1.0, "m", None, "gpt", "boss", "model", prompt=[STRANGE])],
    "arguments of a tool": [f.ToolStarted(1.0, "t", None, "search", "c1", "tools:1", STRANGE, "boss", "tools")],
    "a result": [TOOL, f.ToolFinished(2.0, "t", STRANGE)],
    "an answer for a tool": [TOOL, f.ToolAnswered(2.0, "", "c1", STRANGE, failed=True)],
    "a piece of output": [TOOL, f.ToolOutputDelta(2.0, "t", STRANGE)],
    "a word on the stream": [f.CustomEvent(1.0, "", STRANGE)],
    "a change of state": [f.NodeUpdated(1.0, "node", "", STRANGE)],
    "a state with a name": [f.NodeUpdated(1.0, "node", "", {"plan": STRANGE})],
    "a question": [f.Interrupted(1.0, "ask", STRANGE, STRANGE, "")],
    "an output": [f.OutputGiven(1.0, STRANGE)],
}


@pytest.mark.requirement("002.coercion.every-payload")
@pytest.mark.parametrize("name", GIVEN)
def test_every_payload_is_plain_json_when_it_leaves_the_adapter(name: str) -> None:
    adapter = StreamAdapter(trace_id="trace", run_id="run", agent="boss")
    told = [envelope for fact in GIVEN[name] for envelope in adapter.feed(fact)]
    told += adapter.finish()
    lines = [encode(envelope) for envelope in told]
    assert any(b"$unserializable" in line for line in lines)
    assert not any(b"NaN" in line for line in lines)


@pytest.mark.parametrize("number", [True, -1, 2.0, 10**30, "1", None])
def test_a_value_that_is_not_a_number_does_not_break_the_log(number: object) -> None:
    adapter = StreamAdapter(trace_id="trace", run_id="run", agent="boss")
    line = {"stellwerk": "log", "message": "hello", "progress": number}
    facts: list[f.Fact] = [
        f.CustomEvent(1.0, "", line),
        f.CustomEvent(1.0, "", {"progress": number}),
        f.NodeUpdated(1.0, "node", "", {"plan": {"version": number}}),
    ]
    told = [decode(encode(envelope)) for fact in facts for envelope in adapter.feed(fact)]
    assert [e.payload.progress for e in told if isinstance(e, Log)] == [None, None]
    assert [e.payload.version for e in told if isinstance(e, State)] == [1]


TOLD_BY_THE_FRAMEWORK = {
    *("LlmStart", "LlmToken", "LlmEnd", "ToolStart", "ToolUpdate", "ToolEnd", "Update", "State"),
    *("SubgraphCheckpoint", "SubgraphResume", "AskUser"),
}


@pytest.mark.requirement("002.adapter.one-module", "002.adapter.everything-passes-through")
def test_only_the_stream_makes_envelopes_of_what_the_framework_says() -> None:
    package = Path(stellwerk.__file__).parent
    found = [path.relative_to(package) for path in package.rglob("*.py") if _makes_envelopes(path)]
    assert {path.parts[0] for path in found} == {"stream"}


def _makes_envelopes(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = {func.id for func in called if isinstance(func, ast.Name)}
    by_module = {func.attr for func in called if isinstance(func, ast.Attribute) and ast.unparse(func.value) == "m"}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "stellwerk.envelope.model"
        for alias in node.names
    }
    return bool((by_module | made & imported - own) & TOLD_BY_THE_FRAMEWORK)
