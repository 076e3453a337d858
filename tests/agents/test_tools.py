"""Tools as they are written: what is read from a plain function, and which functions are refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from langgraph.prebuilt import ToolRuntime
from pydantic import BaseModel, Field

from stellwerk.agents.tools.registry import tool
from stellwerk.envelope.results import Table
from stellwerk.errors import InvalidTool


class Address(BaseModel):
    town: str


def test_name_description_and_schema_are_those_of_the_function() -> None:
    @tool
    def send(
        to: Annotated[str, "Who gets it."],
        address: Address,
        how: Literal["air", "rail"] = "rail",
        weight: Annotated[float, Field(gt=0)] = 1.5,
    ) -> Table:
        """Send a parcel.

        It is insured.

        Args:
            address: Where to,
                without the street.
            how (str): The way it goes.
        """
        raise NotImplementedError

    assert (send.name, send.description, send.output) == ("send", "Send a parcel.\n\nIt is insured.", "table")
    assert send.input_schema == {
        "type": "object",
        "required": ["to", "address"],
        "additionalProperties": False,
        "properties": {
            "to": {"type": "string", "description": "Who gets it."},
            "address": {"$ref": "#/$defs/Address", "description": "Where to, without the street."},
            "how": {"type": "string", "enum": ["air", "rail"], "default": "rail", "description": "The way it goes."},
            "weight": {"type": "number", "exclusiveMinimum": 0, "default": 1.5},
        },
        "$defs": {
            "Address": {
                **{"type": "object", "title": "Address", "required": ["town"]},
                **{"properties": {"town": {"type": "string"}}},
            }
        },
    }
    assert (send.runs_in, send.timeout, send.idempotent, send.effects, send.aliases) == (
        "thread",
        60,
        False,
        "read",
        (),
    )


def test_a_tool_can_still_be_called_like_the_function() -> None:
    @tool(aliases=["sum_up"], timeout=5, idempotent=True, effects="write")
    def add(left: int, right: int = 1) -> int:
        """Add two numbers."""
        return left + right

    assert (add(2), add(2, right=3)) == (3, 5)
    assert (add.aliases, add.timeout, add.idempotent, add.effects) == (("sum_up",), 5, True, "write")


async def test_an_async_function_runs_in_the_loop() -> None:
    @tool
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    assert (greet.runs_in, greet.output, await greet("Ada")) == ("loop", "text", "Hello Ada")


def test_parameters_may_be_called_like_methods_of_a_model() -> None:
    @tool
    def export(json: str, schema: str, copy: bool, model_id: int = 1) -> str:
        """Use names that pydantic has, too."""
        return json

    checked = export.arguments.model_validate({"json": "{}", "schema": "s", "copy": True})
    assert checked.__dict__ == {"json": "{}", "schema": "s", "copy": True, "model_id": 1}


def test_the_runtime_is_no_parameter_for_the_model() -> None:
    @tool
    async def work(steps: int, runtime: ToolRuntime[Any, Any]) -> str:
        """Work."""
        return ""

    assert list(work.input_schema["properties"]) == ["steps"]
    assert work.takes_runtime


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4))
def test_the_published_schema_and_the_check_agree(value: object) -> None:
    @tool
    def take(text: str, numbers: list[int], maybe: bool | None = None, kind: Literal["a", "b"] = "a") -> str:
        """Take some."""
        return text

    validator = Draft202012Validator(take.input_schema)
    valid = {"text": "x", "numbers": [1]}
    assert validator.is_valid(valid)
    for wrong in ({**valid, "other": value}, {"text": "x"}, {**valid, "kind": "c"}, {**valid, "text": ["x"]}):
        assert not validator.is_valid(wrong)
        with pytest.raises(ValueError):
            take.arguments.model_validate(wrong)
    if validator.is_valid({**valid, "maybe": value}):
        take.arguments.model_validate({**valid, "maybe": value})


class Opaque:
    pass


@dataclass
class Callable_:
    def __call__(self, x: int) -> int:
        return x


def without_docstring(x: int) -> int:
    return x


def takes_anything(*args: int) -> int:
    """Take."""
    return 1


def takes_keywords(**options: int) -> int:
    """Take."""
    return 1


def without_annotation(x) -> int:  # type: ignore[no-untyped-def]
    """Take."""
    return 1


def by_position(x: int, /) -> int:
    """Take."""
    return x


def of_unknown_type(x: Opaque) -> int:
    """Take."""
    return 1


def of_no_json(x: Callable[[int], int]) -> int:
    """Take."""
    return 1


def unresolved(x: "Nowhere") -> int:  # type: ignore[name-defined]  # noqa: F821
    """Take."""
    return 1


def named_like_langchain(config: str) -> int:
    """Take."""
    return 1


def other_runtime(runtime: str) -> int:
    """Take."""
    return 1


def hidden_parameter(_x: int) -> int:
    """Take."""
    return 1


def _private(x: int) -> int:
    """Take."""
    return x


def yields(x: int) -> Any:
    """Take."""
    yield x


def plain(x: int) -> int:
    """Take."""
    return x


async def asynchronous(x: int) -> int:
    """Take."""
    return x


def with_runtime(runtime: ToolRuntime[Any, Any]) -> int:
    """Take."""
    return 1


@pytest.mark.parametrize(
    ("function", "options", "remedy"),
    [
        (Callable_(), {}, "is no plain function; decorate a def"),
        (len, {}, "'len' is no plain function"),
        (lambda x: x, {}, "cannot be called '<lambda>'"),
        (_private, {}, "cannot be called '_private'"),
        (without_docstring, {}, "has no docstring; say in a sentence what it does"),
        (takes_anything, {}, "takes *args: int; a model must know every parameter"),
        (takes_keywords, {}, "takes **options: int; a model must know every parameter"),
        (without_annotation, {}, "the parameter 'x' without a type; annotate it, as in x: str"),
        (by_position, {}, "takes 'x' by position only"),
        (of_unknown_type, {}, "has a parameter that a model cannot fill in: Unable to generate pydantic-core schema"),
        (of_no_json, {}, "has a parameter that JSON cannot carry"),
        (unresolved, {}, "cannot be read (name 'Nowhere' is not defined); import its type at the top"),
        (named_like_langchain, {}, "'config', a name that LangChain uses itself; take another"),
        (other_runtime, {}, "runtime: ToolRuntime[Any, Any] goes together"),
        (hidden_parameter, {}, "has a parameter that a model cannot fill in"),
        (yields, {}, "yields; return the whole result"),
        (plain, {"aliases": ["two words"]}, "cannot be called 'two words'"),
        (plain, {"aliases": ["plain"]}, "its own name as an alias"),
        (plain, {"aliases": ["a", "a"]}, "has the same alias twice"),
        (plain, {"timeout": 0}, "has a timeout of 0; give seconds, more than 0"),
        (plain, {"timeout": float("inf")}, "has a timeout of inf"),
        (plain, {"effects": "none"}, "has effects 'none'; known are: read, write, external"),
        (plain, {"runs_in": "cloud"}, "is to run in 'cloud'; known are: loop, thread, process"),
        (plain, {"runs_in": "loop"}, "would block everything else in the loop; make it an async def"),
        (plain, {"retries": 3}, "has unknown options: retries; known are: aliases"),
        (asynchronous, {"runs_in": "process"}, "is async and is to run in a process"),
        (asynchronous, {"runs_in": "thread"}, "is async and is to run in a thread"),
        (with_runtime, {"runs_in": "process"}, "where there is no runtime"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_a_remedy(
    function: Any, options: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(InvalidTool) as refused:
        tool(**options)(function)
    assert remedy in refused.value.message


def test_a_function_inside_of_another_cannot_run_in_a_process() -> None:
    def inner(x: int) -> int:
        """Take."""
        return x

    with pytest.raises(InvalidTool, match="define it at the top of a module"):
        tool(runs_in="process")(inner)
