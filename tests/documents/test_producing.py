"""Documents that are made: of the right kind, readable, without surprises, and the same every time."""

import io
import json
import zipfile
from datetime import date

import pytest
from docx import Document
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from stellwerk.documents.contents import page_mark
from stellwerk.documents.markdown import grid, tables_in
from stellwerk.documents.producing import produce
from stellwerk.errors import InvalidField

REPORT = """# The report

Some **bold**, some *slanted* and some `code`.

* one
  * deeper
1. first

> quoted

```
x = 1
```

| city | people |
| --- | --- |
| Köln | 1000 |
| 007 | =1+1 |
"""
ROWS: list[list[object]] = [
    ["city", "people", "since"],
    ["Köln", 1000, date(2026, 1, 2)],
    ["=1+1", None, "https://example.org"],
]
ALL = ("md", "txt", "csv", "json", "html", "docx", "xlsx")


def sheet(data: bytes) -> object:
    return CalamineWorkbook.from_filelike(io.BytesIO(data)).get_sheet_by_index(0).to_python()


@pytest.mark.parametrize("ext", ALL)
def test_the_same_content_has_the_same_digest(ext: str) -> None:
    first, second = produce(f"a.{ext}", ROWS), produce(f"b.{ext}", ROWS)
    assert first.document_id == second.document_id
    assert (first.filename, second.filename) == (f"a.{ext}", f"b.{ext}")


def test_no_office_file_says_when_it_was_made() -> None:
    for ext in ("docx", "xlsx"):
        with zipfile.ZipFile(io.BytesIO(produce(f"a.{ext}", ROWS).data)) as package:
            assert {member.date_time[0] for member in package.infolist()} == {1980}


def test_markdown_becomes_a_word_document() -> None:
    document = Document(io.BytesIO(produce("report.docx", REPORT).data))
    styles = [(p.style.name if p.style else "", p.text) for p in document.paragraphs]
    assert styles == [
        ("Heading 1", "The report"),
        ("Normal", "Some bold, some slanted and some code."),
        ("List Bullet", "one"),
        ("List Bullet 2", "deeper"),
        ("List Number", "first"),
        ("Quote", "quoted"),
        ("Normal", "x = 1"),
    ]
    runs = document.paragraphs[1].runs
    assert [run.text for run in runs if run.bold] == ["bold"]
    assert [run.text for run in runs if run.italic] == ["slanted"]
    (table,) = document.tables
    assert [[cell.text for cell in row.cells] for row in table.rows] == [
        ["city", "people"],
        ["Köln", "1000"],
        ["007", "=1+1"],
    ]


def test_a_table_becomes_a_workbook_in_which_text_stays_text() -> None:
    assert sheet(produce("a.xlsx", ROWS).data) == [
        ["city", "people", "since"],
        ["Köln", 1000.0, date(2026, 1, 2)],
        ["=1+1", "", "https://example.org"],
    ]


def test_tables_in_markdown_and_csv_become_workbooks_with_numbers() -> None:
    assert sheet(produce("a.xlsx", REPORT).data) == [["city", "people"], ["Köln", 1000.0], ["007", "=1+1"]]
    for end in ("\n", "\r\n", "\r"):
        assert sheet(produce("a.xlsx", f"a,b{end}1,x{end}").data) == [["a", "b"], [1.0, "x"]]


def test_text_formats_hold_what_was_given() -> None:
    assert produce("a.md", REPORT).data == REPORT.encode()
    assert produce("a.txt", "plain").data == b"plain"
    assert produce("a.csv", ROWS[:2]).data.decode() == "city,people,since\nKöln,1000,2026-01-02\n"
    assert produce("a.csv", REPORT).data.decode().splitlines()[0] == "city,people"
    assert json.loads(produce("a.json", ROWS).data)[0] == {"city": "Köln", "people": 1000, "since": "2026-01-02"}
    assert json.loads(produce("a.json", '{"a": [1]}').data) == {"a": [1]}


def test_a_web_page_shows_what_was_markup() -> None:
    page = produce("a.html", "# A & B\n\n<script>alert(1)</script>\n").data.decode()
    assert "<title>A &amp; B</title>" in page
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("a.exe", "x", "name"),
        ("noextension", "x", "name"),
        ("a.json", "no json", "content"),
        ("a.xlsx", "only words", "content"),
        ("a.xlsx", "", "content"),
        ("a.xlsx", f"a,b\n{'x' * 1_100_000},1\n", "content"),
    ],
)
def test_what_cannot_be_made_says_why(name: str, content: str, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        produce(name, content)
    assert refused.value.field == field


@given(st.text(), st.sampled_from(["md", "txt", "html", "docx"]))
def test_any_text_can_be_made(text: str, ext: str) -> None:
    assert produce(f"a.{ext}", text).filename == f"a.{ext}"


_CELL = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=8).map(str.strip)


@given(st.lists(st.lists(_CELL, min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_table_can_be_made_in_every_format(rows: list[list[str]]) -> None:
    for ext in ALL:
        assert produce(f"a.{ext}", rows).data


def test_a_table_as_markdown_is_that_table_again() -> None:
    rows = [["a", "b | c"], ["1", "x y"], ["", "`z`"]]
    assert tables_in(grid(rows)) == [[["a", "b | c"], ["1", "x y"], ["", "z"]]]


def test_the_marks_of_pages_that_were_read_are_not_in_what_is_made() -> None:
    read = f"# Report\n\n{page_mark(1)}\nOne\n\n{page_mark(12)}\nTwelve\n"
    assert produce("report.md", read).data == b"# Report\n\nOne\n\nTwelve\n"
