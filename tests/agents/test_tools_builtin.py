"""The ready-made tools, called by a model in a real graph."""

import ast
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage

from stellwerk.agents.tools.builtin import calculate, time_in, wait_a_while, write_report
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.agents.tools.registry import discover
from stellwerk.envelope.introspection import Blob
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


def test_the_time_is_given_for_a_zone() -> None:
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


_ROOM = 32 * 1024
"""Bytes that an expression may take at once, in addition to its syntax tree; no number in it comes close."""


def memory_beyond_parsing(expression: str) -> int:
    """The size of the largest numbers at work, as counted in bytes: it bounds how long any one step takes."""
    tracemalloc.start()
    try:
        ast.parse(expression, mode="eval")
        parsing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        try:
            calculate(expression)
        except ValueError:
            pass
        return tracemalloc.get_traced_memory()[1] - parsing
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "expression",
    [
        *("round(7, -12000000)", "round(7, -400000)", "round(-9 ** 300, -400000)", "round(1.5, -12000000)"),
        *("round(1.5, 12000000)", "round(1, 12000000)", "round(7, -(2 ** 62))", "round(7, 2 ** 999)"),
        *("max(1, round(7, 1 - 9 ** 6))", "round(round(7, -1), -(10 ** 6))", "round(2 ** 999, -(10 ** 6))"),
        *("7 ** 10 ** 6", "(2 ** 900) ** 900", "0 ** 10 ** 9", "1 ** 10 ** 9", "(-1) ** 10 ** 9", "2.5 ** 10 ** 9"),
        *("2 ** -(10 ** 7)", "(2 ** 999) ** -999", "2 ** 1e300", "1e300 ** 1e300", "0.5 ** -(10 ** 9)"),
        *("*".join(["9 ** 300"] * 50), "*".join(["9" * 100] * 4), "9 ** 300 * 9 ** 300 * 9 ** 300"),
        *("9 ** 300 // 1e-300", "9 ** 300 / 1e-300", "9 ** 300 % 7 ** 300", "1 // 9 ** 300", "1e308 + 9 ** 300"),
        *("sqrt(9 ** 300)", "abs(-(9 ** 300))", "min(9 ** 300, 1e300)", "max(9 ** 300, -(9 ** 300))"),
        *("1 << 10 ** 9", "pow(7, 10 ** 9)", "factorial(10 ** 6)", "comb(10 ** 6, 10 ** 5)", "'7' * 10 ** 9"),
        *("[7] * 10 ** 9", "f'{7:1000000000}'", "int('7' * 10 ** 6)", "0x" + "f" * 400),
    ],
)
def test_no_expression_makes_numbers_that_take_long(expression: str) -> None:
    assert memory_beyond_parsing(expression) < _ROOM


_LITERALS = st.integers(0, 10**9).map(str) | st.floats(0, 1e300).map(repr) | st.sampled_from(("pi", "9" * 300, "e"))


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sign = st.sampled_from(("+", "-", "*", "/", "//", "%", "**"))
    name = st.sampled_from(("abs", "min", "max", "round", "sqrt"))
    return (
        st.tuples(inner, sign, inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(name, st.lists(inner, max_size=3)).map(lambda call: f"{call[0]}({', '.join(call[1])})")
        | inner.map(lambda operand: f"-{operand}")
    )


@given(st.recursive(_LITERALS, _larger, max_leaves=8))
def test_whatever_is_put_together_numbers_stay_small(expression: str) -> None:
    assert memory_beyond_parsing(expression) < _ROOM


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("round(2.567, 2)", 2.57),
        ("round(1234, -2)", 1200),
        ("round(2.5)", 2),
        ("round(7, -300)", 0),
        ("round(7, 300)", 7),
    ],
)
def test_numbers_are_rounded_to_up_to_300_digits(expression: str, number: float) -> None:
    assert calculate(expression) == number


@pytest.mark.parametrize("expression", ["round(7, -301)", "round(7.5, 301)", "round(7, -12000000)"])
def test_rounding_to_more_digits_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="round takes from -300 to 300 digits"):
        calculate(expression)
