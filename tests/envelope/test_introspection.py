"""Objects of strangers: what is declared is taken, what is not stays closed, and nothing can raise."""

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.tools import ToolRuntime
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from pydantic import HttpUrl, SecretStr

from stellwerk.envelope import model, payloads
from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.results import Json
from stellwerk.envelope.to_json import to_result
from tests.envelope.odd_values import Client, anything, closed, depth_of, nested


class Point(msgspec.Struct, tag_field="shape", tag="point"):
    x: int
    token: SecretStr
    secret: str = "sk-secret"


BLOCK = {"type": "text", "text": "a"}
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CALL = {"name": "search", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}
ANSWER = ToolMessage([BLOCK], tool_call_id="c1", artifact=Client())


@pytest.mark.requirement("002.coercion.mappings", "002.coercion.models")
@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, [2.5, None]), [1, [2.5, None]]),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (frozenset({2, 10}), [10, 2]),
        (deque([1, 2]), [1, 2]),
        ([{"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()], [["a"], [1], [["a", 1]]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ([Decimal("1.10"), Decimal("nan")], ["1.10", None]),
        ([NOON, date(2026, 1, 2), time(3, 4)], ["2026-11-15T12:00:00+00:00", "2026-01-02", "03:04:00"]),
        (timedelta(minutes=1), 60.0),
        (PurePosixPath("a/b"), "a/b"),
        (HttpUrl("https://example.org/x"), "https://example.org/x"),
        (memoryview(b"GIF89a"), make_blob(b"GIF89a", mime="image/gif", filename="x").reference()),
        (Point(x=1, token=SecretStr("sk-secret")), {"shape": "point", "x": 1, "token": "*" * 10, "secret": "*" * 10}),
        (AIMessage("", id="m1", tool_calls=[CALL]), {"type": "ai", "content": "", "id": "m1", "tool_calls": [CALL]}),
        (ANSWER, {"type": "tool", "content": [BLOCK], "tool_call_id": "c1", "status": "success"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_known_data_is_written_in_one_way(value: Any, plain: Any) -> None:
    assert to_result({"x": value})[0] == Json(data={"x": plain})


def refuse(*_: Any, **__: Any) -> Any:
    raise asyncio.CancelledError("from an object of somebody else")


TRAPS = "__str__ __repr__ __iter__ __len__ __bool__ __eq__ __hash__ __getattribute__ items keys".split()
METATRAPS = "__hash__ __eq__ __instancecheck__ __subclasscheck__ __getattribute__".split()


def trap(*bases: type, kind: type = type, **more: Any) -> Any:
    return kind.__new__(kind, "Trap", bases, dict.fromkeys(TRAPS, refuse) | more)


class NeverEqual:
    def __hash__(self) -> int:
        return hash("model_dump")

    __eq__ = refuse


META: Any = type("Meta", (type,), {**dict.fromkeys(METATRAPS, refuse), "__name__": property(refuse)})
NO_SEARCH: Any = type("Odd", (), {NeverEqual(): 1})  # type: ignore[dict-item]
RUNTIME: Any = ToolRuntime(state={}, context=Client(), config={}, stream_writer=print, tool_call_id="", store=None)


class Endless:
    def model_dump(self) -> "Endless":
        return Endless()


class Zone(tzinfo):
    utcoffset = tzname = dst = refuse


class Unreadable(Mapping[str, int]):
    __getitem__ = __iter__ = __len__ = items = refuse


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


HOSTILE: dict[str, tuple[Any, Any]] = {
    "everything raises": (object.__new__(trap()), closed("Trap")),
    "its class is a lie": (object.__new__(trap(__class__=property(refuse))), closed("Trap")),
    "its metaclass raises": (object.__new__(trap(kind=META)), closed("Trap")),
    "its class cannot be searched": (NO_SEARCH(), closed("Odd")),
    "model_dump raises": (type("Odd", (), {"model_dump": refuse})(), closed("Odd")),
    "model_dump never ends": (Endless(), closed("Endless")),
    "mapping": (Unreadable(), closed("Unreadable")),
    "dict": (dict.__new__(trap(dict)), {}),
    "list": (list.__new__(trap(list)), []),
    "set": (set.__new__(trap(set)), []),
    "str": (str.__new__(trap(str), "a\0"), "a\ufffd"),
    "int": (int.__new__(trap(int), 2**60), str(2**60)),
    "exception": (trap(ValueError)("x"), {"error": "Trap", "message": ""}),
    "time zone": (datetime(2026, 1, 1, tzinfo=Zone()), closed("datetime")),
    "released view": (released(), closed("memoryview")),
    "a class": (Client, closed("type")),
    "a model at work": (FakeListChatModel(responses=[]), closed("FakeListChatModel")),
    "a runtime with its context": (RUNTIME, closed("ToolRuntime")),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.requirement("002.coercion.cannot-raise", "002.coercion.plain-objects")
def test_an_object_that_cannot_be_read_harms_nothing_around_it(name: str) -> None:
    value, plain = HOSTILE[name]
    assert to_result([1, value, {"x": value}])[0] == Json(data=[1, plain, {"x": plain}])
    assert to_result(value)[0] is not None


def readable_by_all(digits: str) -> int:
    assert abs(int(digits)) < 2**53
    return int(digits)


@pytest.mark.requirement("trust.I19")
@given(anything, st.integers(0, 100))
@pytest.mark.requirement("000.result.always-json")
def test_an_event_with_anything_as_result_is_one_line_of_json_that_every_client_reads(value: Any, depth: int) -> None:
    result, notes, _ = to_result(nested(depth, value))
    ended = payloads.ToolEnded(
        tool_name="t", tool_call_id="c", status="ok", result=result, sanitized=list(notes) or None
    )
    event = model.ToolEnd(ts=0.0, parent_id=None, call_id="c", seq=1, payload=ended)
    line = model.encode(event)
    assert len(line.decode().splitlines()) == 1
    assert model.decode(line) == event
    assert depth_of(json.loads(line, parse_int=readable_by_all, parse_constant=pytest.fail)) <= 64
