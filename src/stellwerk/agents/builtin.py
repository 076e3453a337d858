"""The pool of ready-made tools: small, real, without keys and without a network, one for each kind of result.

They serve the demo and first trials, and show by example how a tool is written.
"""

import ast
import asyncio
import math
import operator
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from stellwerk.agents.tool_spec import tool
from stellwerk.envelope.results import Column, Table, Text
from stellwerk.ids import SystemClock

_TOWNS = (
    *(("Berlin", "Germany", 3_878_000), ("Vienna", "Austria", 2_028_000), ("Zurich", "Switzerland", 448_000)),
    *(("Lyon", "France", 520_000), ("Utrecht", "Netherlands", 374_000)),
)
_LONGEST_SUM = 500
_MOST_BITS = 1000
_MOST_DIGITS = 300
"""Digits to round to: a number of ``_MOST_BITS`` has about as many."""
_TICK = 0.5
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.UAdd: operator.pos, ast.USub: operator.neg},
}


def _rounded(*arguments: Any) -> Any:
    """To round 7 to a million digits, Python would first work out a number of that many."""
    if any(abs(digits) > _MOST_DIGITS for digits in arguments[1:]):
        raise ValueError(f"round takes from -{_MOST_DIGITS} to {_MOST_DIGITS} digits")
    return round(*arguments)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{"abs": abs, "min": min, "max": max, "round": _rounded, "sqrt": math.sqrt},
}
"""Each gets operands of at most ``_MOST_BITS``, and takes no longer than they are long."""
_CONSTANTS = {"pi": math.pi, "e": math.e}


@tool(idempotent=True)
def get_weather(city: Annotated[str, "The city to ask about."]) -> Table:
    """Tell the weather in a city."""
    columns = (Column(name="city"), Column(name="sky"), Column(name="degrees", type="number"))
    return Table(columns=columns, rows=((city, "sunny", 21),))


@tool(idempotent=True)
def current_time(zone: Annotated[str, "A name such as Europe/Berlin."] = "UTC") -> Text:
    """Tell the date and the time of day."""
    return Text(text=time_in(zone, SystemClock().now()))


def time_in(zone: str, now: float) -> str:
    try:
        place = UTC if zone == "UTC" else ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {zone[:80]!r}; write it like Europe/Berlin or UTC") from error
    return datetime.fromtimestamp(int(now), place).isoformat()


@tool(idempotent=True)
def calculate(expression: Annotated[str, "Such as (3 + 4) * 2.5 or sqrt(2)."]) -> float:
    """Work out an arithmetic expression: + - * / // % **, abs, min, max, round, sqrt, pi, e."""
    if len(expression) > _LONGEST_SUM:
        raise ValueError(f"an expression has at most {_LONGEST_SUM} characters; work it out in parts")
    try:
        number: float = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("that is no arithmetic expression") from error
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"it cannot be worked out: {error}") from error
    return number


def _value(node: ast.AST) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _bounded(_OPERATORS[type(sign)](_value(left), _value(right)))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_value(operand))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*map(_value, arguments)))
    raise ValueError(f"{ast.unparse(node)[:80]!r} is no arithmetic")


def _power(base: float, exponent: float) -> Any:
    size = abs(exponent) * max(1.0, math.log2(abs(base) + 1)) if math.isfinite(base) else 0.0
    if size > _MOST_BITS:
        raise ValueError("that power is too large to be worked out")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("that root has no real value")
    return _bounded(result)


def _bounded(number: Any) -> Any:
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise ValueError("a number in it is too large to be worked with")
    if not math.isfinite(number):
        raise ValueError("it has no finite value")
    return number


@tool(idempotent=True)
def make_table(rows: Annotated[int, Field(ge=1, le=len(_TOWNS), description="How many towns.")] = len(_TOWNS)) -> Table:
    """List a few towns with their country and inhabitants, as sample data."""
    columns = (Column(name="town"), Column(name="country"), Column(name="inhabitants", type="number"))
    return Table(columns=columns, rows=_TOWNS[:rows], total=len(_TOWNS))


@tool(idempotent=True, output="file_ref")
def write_report(
    title: Annotated[str, Field(min_length=1, max_length=200, description="The heading; also names the file.")],
    text: Annotated[str, Field(max_length=100_000, description="The body, in Markdown.")],
) -> dict[str, str]:
    """Write a short report as a Markdown file that the user can download."""
    name = "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:60] or "report"
    body = b64encode(f"# {' '.join(title.split())}\n\n{text.strip()}\n".encode()).decode()
    return {"kind": "file_ref", "filename": f"{name}.md", "mime": "text/markdown", "bytes_b64": body}


@tool(idempotent=True)
def count_words(text: Annotated[str, "The text to count in."]) -> dict[str, int]:
    """Count the words, lines and characters of a text."""
    return {"words": len(text.split()), "lines": len(text.splitlines()), "characters": len(text)}


@tool(idempotent=True, timeout=120)
async def wait_a_while(seconds: Annotated[float, Field(gt=0, le=60, description="How long.")]) -> Text:
    """Wait for some seconds and tell the progress meanwhile."""
    # Here, because LangGraph takes a second to import and nothing else in this module needs it.
    from langgraph.config import get_stream_writer

    tell, loop = get_stream_writer(), asyncio.get_running_loop()
    begin = loop.time()
    while (waited := loop.time() - begin) < seconds:
        tell({"progress": int(100 * waited / seconds), "text": f"{waited:.1f} of {seconds:g} s"})
        await asyncio.sleep(min(_TICK, seconds - waited))
    return Text(text=f"Waited for {seconds:g} s.")


BUILTIN_TOOLS = (
    *(get_weather, current_time, calculate, make_table, write_report, count_words, wait_a_while),
)  # fmt: skip
