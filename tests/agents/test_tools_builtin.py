"""The ready-made tools, called by a model in a real graph."""

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from stellwerk.agents.builtin import calculate, time_in, wait_a_while, write_report
from stellwerk.agents.tool_calls import langchain_tool
from stellwerk.agents.tools import discover
from stellwerk.envelope.shapes import Blob
from tests.agents.tool_runs import called, graph_calling, result_of


@pytest.mark.requirement("004.tools.pool")
@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        (
            "get_weather",
            {"city": "Ulm"},
            {
                "kind": "table",
                "columns": [{"name": "city"}, {"name": "sky"}, {"name": "degrees", "type": "number"}],
                "rows": [["Ulm", "sunny", 21]],
            },
        ),
        ("calculate", {"expression": "(3 + 4) * 2.5"}, {"kind": "json", "data": 17.5}),
        (
            "count_words",
            {"text": "one two\nthree"},
            {"kind": "json", "data": {"words": 3, "lines": 2, "characters": 13}},
        ),
    ],
)
async def test_a_ready_made_tool_gives_its_kind_of_result(name: str, args: dict[str, Any], result: object) -> None:
    assert result_of(await called(discover().find(name), args)) == result


async def test_the_sample_table_has_as_many_towns_as_were_asked_for() -> None:
    table = result_of(await called(discover().find("make_table"), {"rows": 2}))
    assert (len(table["rows"]), table["total"]) == (2, 5)


async def test_a_report_is_a_markdown_file() -> None:
    kept: list[Blob] = []

    async def keep(result: Any, blobs: Any) -> Any:
        kept.extend(blobs)
        return result

    args = {"title": "../../etc: The State of Things", "text": "All is well."}
    result = result_of(await called(write_report, args, keep=keep))
    assert (result["filename"], result["mime"]) == ("etc-the-state-of-things.md", "text/markdown")
    assert kept[0].data.decode() == "# ../../etc: The State of Things\n\nAll is well.\n"


def test_the_time_is_told_for_a_zone() -> None:
    assert time_in("UTC", 1_700_000_000.9) == "2023-11-14T22:13:20+00:00"
    assert time_in("Europe/Berlin", 1_700_000_000) == "2023-11-14T23:13:20+01:00"


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "", "a" * 300, "Europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="there is no time zone"):
        time_in(zone, 0)


async def test_waiting_tells_its_progress() -> None:
    graph = graph_calling([langchain_tool(wait_a_while)], "wait_a_while", {"seconds": 0.01})
    parts = [part async for part in graph.astream({"messages": [("user", "go")]}, stream_mode=["custom", "values"])]
    progress = [data["progress"] for mode, data in parts if mode == "custom"]
    assert progress[0] == 0
    assert progress == sorted(progress)
    (message,) = (m for m in parts[-1][1]["messages"] if isinstance(m, ToolMessage))
    assert message.content == "Waited for 0.01 s."


@given(st.recursive(st.integers(0, 99).map(str), lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
    lambda parts: f"({' '.join(parts)})"), max_leaves=8))  # fmt: skip
def test_arithmetic_is_right(expression: str) -> None:
    assert calculate(expression) == ast.literal_eval(str(eval(expression, {"__builtins__": {}})))


@pytest.mark.parametrize(
    "expression",
    [
        *("__import__('os').system('true')", "open('x')", "(1).__class__", "[1]", "'a' * 3", "True", "x", "lambda: 1"),
        *("9 ** 9 ** 9", "2 ** 100000", "10.0 ** 400", "1 / 0", "(-1) ** 0.5", "1e999", "abs(1, 2)", "sqrt(-1)", ""),
        *("(" * 400, "1" * 501, "9" * 400, "max(1)", "1 if 1 else 2", "min(*[1])", "round(1.5, ndigits=1)", "1 +"),
    ],
)
def test_what_is_no_arithmetic_or_too_much_of_it_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        calculate(expression)
