"""Tool results: four shapes, a text for the model in each, and a way to them from whatever a tool returned."""

from base64 import b64encode, encodebytes
from datetime import date
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from stellwerk.envelope.introspection import make_blob
from stellwerk.envelope.results import Column, FileRef, Json, Table, Text, ToolResult, table
from stellwerk.envelope.to_json import MAX_BYTES, to_result

REPORT = FileRef(document_id="d1", filename="report.pdf", mime="application/pdf", size=12)


@pytest.mark.parametrize(
    ("result", "wire"),
    [
        (Table(columns=("a",), rows=((1,), (None,))), b'{"kind":"table","columns":["a"],"rows":[[1],[null]]}'),
        (
            Table(columns=(Column(name="a", type="int"),), rows=(), total=9),
            b'{"kind":"table","columns":[{"name":"a","type":"int"}],"rows":[],"total":9}',
        ),
        (Text(text="hi"), b'{"kind":"text","text":"hi"}'),
        (REPORT, b'{"kind":"file_ref","document_id":"d1","filename":"report.pdf","mime":"application/pdf","size":12}'),
        (Json(data=None), b'{"kind":"json","data":null}'),
    ],
)
@pytest.mark.requirement("000.result.union", "000.result.table")
def test_a_result_is_the_same_after_the_wire(result: ToolResult, wire: bytes) -> None:
    assert msgspec.json.encode(result) == wire
    assert msgspec.json.decode(wire, type=ToolResult) == result


def test_a_result_with_unknown_fields_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.json.decode(b'{"kind":"text","text":"","colour":1}', type=ToolResult)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            Table(columns=(Column(name="name"), "n"), rows=(("a|b\nc", 1), (None, 2.5), (True, [1, {"x": None}]))),
            '| name | n |\n|---|---|\n| a\\|b c | 1 |\n|  | 2.5 |\n| true | [1,{"x":null}] |',
        ),
        (Table(columns=("n",), rows=((1,),), total=3), "| n |\n|---|\n| 1 |\n(2 more rows)"),
        (Text(text="as it\nis"), "as it\nis"),
        (REPORT, "[file report.pdf, application/pdf, 12 bytes, document d1]"),
        (
            msgspec.structs.replace(REPORT, filename="a\nb", preview="It begins"),
            "[file a b, application/pdf, 12 bytes, document d1]\nIt begins",
        ),
        (Json(data={"b": [1, "ü"], "a": None}), '{"b":[1,"ü"],"a":null}'),
    ],
)
def test_a_model_reads_a_result_as_text(result: ToolResult, text: str) -> None:
    assert result.as_text() == text


def test_a_model_reads_the_first_rows_and_how_many_more_there_are() -> None:
    lines = Table(columns=("n",), rows=tuple((n,) for n in range(51))).as_text().splitlines()
    assert lines[-2:] == ["| 49 |", "(1 more row)"]


def test_rows_are_made_as_long_as_the_header_and_that_is_noted() -> None:
    found, notes = table(["a", "b"], [[1], [1, 2], [1, 2, 3], []], total=4)
    assert found == Table(columns=("a", "b"), rows=((1, None), (1, 2), (1, 2), (None, None)), total=4)
    assert notes == ("$.rows: 2 short rows filled with null", "$.rows: 1 long rows cut to 2 columns")
    assert table(["a"], [[1]]) == (Table(columns=("a",), rows=((1,),)), ())


class City(BaseModel):
    name: str
    founded: date


ZURICH = City(name="Zürich", founded=date(15, 1, 1))
PLAIN = {"name": "Zürich", "founded": "0015-01-01"}
BLOCK, IMAGE = {"type": "text", "text": "a"}, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
SPARSE = [{f"k{n}": n} for n in range(1000)]
PERSONS = [{"id": 1, "name": "a"}, {"name": "b", "age": 3}]
CITY_TABLE = Table(columns=("a", Column(name="b")), rows=((PLAIN, 1),))
PERSON_TABLE = Table(columns=("id", "name", "age"), rows=((1, "a", None), (None, "b", 3)))


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, Text(text="")),
        ("some text", Text(text="some text")),
        (Text(text="a\0"), Text(text="a\ufffd")),
        (Table(columns=("a", Column(name="b")), rows=((ZURICH, 1),)), CITY_TABLE),
        (REPORT, REPORT),
        ({"kind": "table", "columns": ["id", "name", "age"], "rows": [[1, "a"], [None, "b", 3]]}, PERSON_TABLE),
        ({"kind": "json", "data": {1, 2}}, Json(data=[1, 2])),
        ({"kind": "table"}, Json(data={"kind": "table"})),
        ({"kind": "planet", "name": "Mars"}, Json(data={"kind": "planet", "name": "Mars"})),
        (ZURICH, Json(data=PLAIN)),
        (PERSONS, PERSON_TABLE),
        ((ZURICH,), Table(columns=("name", "founded"), rows=(("Zürich", "0015-01-01"),))),
        ([BLOCK, BLOCK | {"annotations": []}], Text(text="a\na")),
        ([BLOCK, IMAGE], Json(data=[BLOCK, IMAGE])),
        ([{"type": "file", "name": "a"}], Table(columns=("type", "name"), rows=(("file", "a"),))),
        (SPARSE, Json(data=SPARSE)),
        ({"result": PERSONS}, PERSON_TABLE),
        ({"result": [1]}, Json(data={"result": [1]})),
        ({"result": PERSONS, "page": 1}, Json(data={"result": PERSONS, "page": 1})),
        ([], Json(data=[])),
        ([1, {}], Json(data=[1, {}])),
        (3, Json(data=3)),
    ],
)
@pytest.mark.requirement(
    "000.result.pydantic-models-dumped",
    "000.result.content-structures-made-plain",
    "000.result.text-only-as-last-resort",
    "002.coercion.nothing",
    "002.coercion.strings",
)
def test_what_a_tool_returns_finds_its_shape(returned: Any, result: ToolResult) -> None:
    assert to_result(returned)[0] == result


PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)


@pytest.mark.parametrize("encode", [b64encode, encodebytes])
@pytest.mark.requirement("000.result.file-ref")
def test_a_file_brought_along_is_stored_and_referred_to(encode: Any) -> None:
    carried = {"kind": "file_ref", "filename": "../up/chart", "mime": "not a type", "bytes_b64": encode(PNG).decode()}
    result, notes, (blob,) = to_result(carried)
    assert result == FileRef(document_id=blob.document_id, filename="chart.png", mime="image/png", size=len(PNG))
    assert blob == make_blob(PNG, mime="image/png", filename="chart.png")
    assert notes == ()


def test_the_type_that_a_tool_names_is_kept() -> None:
    result, _, _ = to_result({"kind": "file_ref", "mime": "text/csv", "bytes_b64": "YSxi"})
    assert isinstance(result, FileRef) and (result.mime, result.filename) == ("text/csv", "data.csv")


def test_a_file_that_is_not_base64_stays_what_it_was() -> None:
    broken = {"kind": "file_ref", "filename": "a", "bytes_b64": "no base64!"}
    assert to_result(broken) == (Json(data=broken), (), ())


@pytest.mark.requirement("002.coercion.bytes")
def test_bytes_are_a_file() -> None:
    result, notes, (blob,) = to_result(PNG)
    assert isinstance(result, FileRef) and result.document_id == blob.document_id and blob.data == PNG
    assert notes == ("$: bytes became a document",)


@pytest.mark.requirement("trust.I17")
@pytest.mark.parametrize("returned", ["x" * 300_000, [{"n": n, "text": "x" * 90} for n in range(3000)]])
def test_what_is_too_large_is_a_file_of_which_a_model_reads_the_beginning(returned: Any) -> None:
    result, _, (blob,) = to_result(returned)
    assert isinstance(result, FileRef) and result.size == len(blob.data) > MAX_BYTES
    assert len(result.as_text()) < 1200 and result.as_text().endswith(result.preview or "?")


def test_a_table_that_would_take_more_room_than_its_rows_do_stays_json() -> None:
    rows = [{f"{n % 4}{key:02}": 1 for key in range(50)} for n in range(600)]
    assert isinstance(to_result(rows[:60])[0], Table)
    assert to_result(rows)[0] == Json(data=rows)
