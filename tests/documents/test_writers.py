"""Document writers: each format holds the content, opens in its reader, and is the same every time."""

import io
import json
import zipfile

import pytest
from docx import Document
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from stellwerk.errors import InvalidField
from stellwerk.workflows.documents.contents import page_mark
from stellwerk.workflows.documents.writers import grid, tables_in, write_document

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
TABLE = "| city | people |\n| --- | --- |\n| Köln | 1000 |\n| =1+1 | https://example.org |\n"
ALL = ("md", "txt", "csv", "json", "html", "docx", "xlsx")


def sheet(data: bytes) -> object:
    return CalamineWorkbook.from_filelike(io.BytesIO(data)).get_sheet_by_index(0).to_python()


@pytest.mark.parametrize("ext", ALL)
def test_the_same_content_has_the_same_digest(ext: str) -> None:
    content = "[1]" if ext == "json" else TABLE
    first, second = write_document(f"a.{ext}", content), write_document(f"b.{ext}", content)
    assert first.document_id == second.document_id
    assert (first.filename, second.filename) == (f"a.{ext}", f"b.{ext}")


def test_no_office_file_says_when_it_was_made() -> None:
    for ext in ("docx", "xlsx"):
        with zipfile.ZipFile(io.BytesIO(write_document(f"a.{ext}", TABLE).data)) as package:
            assert {member.date_time[0] for member in package.infolist()} == {1980}


def test_markdown_becomes_a_word_document() -> None:
    document = Document(io.BytesIO(write_document("report.docx", REPORT).data))
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
    assert sheet(write_document("a.xlsx", TABLE).data) == [
        ["city", "people"],
        ["Köln", 1000.0],
        ["=1+1", "https://example.org"],
    ]


def test_tables_in_markdown_and_csv_become_workbooks_with_numbers() -> None:
    assert sheet(write_document("a.xlsx", REPORT).data) == [["city", "people"], ["Köln", 1000.0], ["007", "=1+1"]]
    for end in ("\n", "\r\n", "\r"):
        assert sheet(write_document("a.xlsx", f"a,b{end}1,x{end}").data) == [["a", "b"], [1.0, "x"]]


def test_text_formats_hold_what_was_given() -> None:
    assert write_document("a.md", REPORT).data == REPORT.encode()
    assert write_document("a.txt", "plain").data == b"plain"
    assert write_document("a.csv", REPORT).data.decode() == "city,people\nKöln,1000\n007,=1+1\n"
    assert write_document("a.csv", "a,b\n1,2\n").data == b"a,b\n1,2\n"
    assert json.loads(write_document("a.json", '{"a": [1]}').data) == {"a": [1]}


def test_a_web_page_shows_what_was_markup() -> None:
    page = write_document("a.html", "# A & B\n\n<script>alert(1)</script>\n").data.decode()
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
def test_content_that_a_format_cannot_hold_is_rejected_with_the_field(name: str, content: str, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        write_document(name, content)
    assert refused.value.field == field


@given(st.text(), st.sampled_from(["md", "txt", "html", "docx"]))
def test_any_text_can_be_written(text: str, ext: str) -> None:
    assert write_document(f"a.{ext}", text).filename == f"a.{ext}"


_CELL = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=8).map(str.strip)


@given(st.lists(st.lists(_CELL, min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_table_can_be_written_in_every_table_and_text_format(rows: list[list[str]]) -> None:
    for ext in set(ALL) - {"json"}:
        assert write_document(f"a.{ext}", grid(rows)).data


def test_a_table_as_markdown_is_that_table_again() -> None:
    rows = [["a", "b | c"], ["1", "x y"], ["", "`z`"]]
    assert tables_in(grid(rows)) == [[["a", "b | c"], ["1", "x y"], ["", "z"]]]


def test_page_marks_of_extracted_text_are_removed() -> None:
    read = f"# Report\n\n{page_mark(1)}\nOne\n\n{page_mark(12)}\nTwelve\n"
    assert write_document("report.md", read).data == b"# Report\n\nOne\n\nTwelve\n"
