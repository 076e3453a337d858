"""The built-in tools: without keys or network, one for each kind of result, and ``ask_user``.

The demo and first trials use them, and they are examples of how to write a tool.
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

from langgraph.config import get_stream_writer
from langgraph.prebuilt import ToolRuntime
from langgraph.types import interrupt
from pydantic import Field

from stellwerk.agents.tools.spec import tool
from stellwerk.envelope.results import Column, Table, Text
from stellwerk.ids import SystemClock

_TOWNS = (
    ("Berlin", "Germany", 3_878_000),
    ("Vienna", "Austria", 2_028_000),
    ("Zurich", "Switzerland", 448_000),
    ("Lyon", "France", 520_000),
    ("Utrecht", "Netherlands", 374_000),
)
_MAX_EXPRESSION = 500
_MAX_BITS = 1000
_MAX_DIGITS = 300
_PROGRESS_INTERVAL = 0.5
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.UAdd: operator.pos, ast.USub: operator.neg},
}


def _round(*arguments: Any) -> Any:
    """Limited, because rounding 7 to a million digits first computes a number of that length."""
    if any(abs(digits) > _MAX_DIGITS for digits in arguments[1:]):
        raise ValueError(f"round takes from -{_MAX_DIGITS} to {_MAX_DIGITS} digits")
    return round(*arguments)


_FUNCTIONS: dict[str, Any] = {"abs": abs, "min": min, "max": max, "round": _round, "sqrt": math.sqrt}
"""Each gets operands of at most ``_MAX_BITS`` and runs in linear time."""
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
    if len(expression) > _MAX_EXPRESSION:
        raise ValueError(f"an expression has at most {_MAX_EXPRESSION} characters; work it out in parts")
    try:
        number: float = _evaluate(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("that is no arithmetic expression") from error
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"it cannot be worked out: {error}") from error
    return number


def _evaluate(node: ast.AST) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _check_size(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_evaluate(left), _evaluate(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _check_size(_OPERATORS[type(sign)](_evaluate(left), _evaluate(right)))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluate(operand))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _check_size(_FUNCTIONS[name](*map(_evaluate, arguments)))
    raise ValueError(f"{ast.unparse(node)[:80]!r} is no arithmetic")


def _power(base: float, exponent: float) -> Any:
    size = abs(exponent) * max(1.0, math.log2(abs(base) + 1)) if math.isfinite(base) else 0.0
    if size > _MAX_BITS:
        raise ValueError("that power is too large to be worked out")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("that root has no real value")
    return _check_size(result)


def _check_size(number: Any) -> Any:
    if isinstance(number, int) and number.bit_length() > _MAX_BITS:
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
    write, loop = get_stream_writer(), asyncio.get_running_loop()
    started = loop.time()
    while (waited := loop.time() - started) < seconds:
        write({"progress": int(100 * waited / seconds), "text": f"{waited:.1f} of {seconds:g} s"})
        await asyncio.sleep(min(_PROGRESS_INTERVAL, seconds - waited))
    return Text(text=f"Waited for {seconds:g} s.")


@tool(effects="read", idempotent=True)
async def ask_user(
    question: Annotated[str, "What you want to know, in a sentence."],
    runtime: ToolRuntime[Any, Any],
    options: Annotated[list[str] | None, "Answers to choose from, if there are only these."] = None,
    default: Annotated[str | None, "What to assume without an answer."] = None,
) -> Any:
    """Ask the user, and get the answer. Ask only what you cannot find out yourself."""
    asked = {"question": question, "options": options, "default": default, "tool_call_id": runtime.tool_call_id}
    return interrupt({name: value for name, value in asked.items() if value is not None})


BUILTIN_TOOLS = (get_weather, current_time, calculate, make_table, write_report, count_words, wait_a_while)
