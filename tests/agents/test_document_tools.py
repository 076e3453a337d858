"""Tools on documents: listed, read page by page, counted in, saved."""

import tracemalloc
from base64 import b64encode
from typing import Any

import httpx2
import pytest

from stellwerk.envelope.results import Column
from stellwerk.errors import InvalidField
from stellwerk.workflows.documents.bulk_summary import _counted, _section, texts_for
from stellwerk.workflows.documents.contents import ContentItem, Source
from stellwerk.workflows.documents.readers.office import read_csv
from stellwerk.workflows.documents.session import SessionDocument
from stellwerk.workflows.documents.tools import figures
from tests.agents.office import FILES, SHEET, given
from tests.runs.talking import begin, rest_of_run, send

SYSTEM = """
version: 1
system: {{name: clerk}}
agents:
  - id: clerk
    tools: {{allow: [list_documents, read_document, table_figures, save_document]}}
    model: {{provider: scripted, script: [{{steps: [{{call: {tool}, args: {args}}}, {{say: "{{result}}"}}]}}]}}
"""


@pytest.fixture
def address(shared_address: str) -> str:
    return shared_address


async def called(client: httpx2.AsyncClient, tool: str, args: str, files: Any = FILES) -> dict[str, Any]:
    """What a tool that an agent calls ends with."""
    yaml = SYSTEM.format(tool=tool, args=args)
    registered = await client.post("/agent-systems", content=yaml, headers={"Content-Type": "application/yaml"})
    assert registered.status_code == 201, registered.text
    sid = await begin(client, "clerk")
    accepted = await send(client, sid, "Go.", documents=await given(client, files))
    told = await rest_of_run(client, sid, accepted["after"])
    (end,) = [event["payload"] for event in told if event["type"] == "tool_end"]
    return dict(end)


async def test_documents_are_listed_with_id_and_summary(client: httpx2.AsyncClient) -> None:
    ids = await given(client)
    end = await called(client, "list_documents", "{}")
    assert end["result"]["text"].splitlines() == [
        f"- my sales.xlsx ({ids[0]}): Table, 3 columns, 3 rows: region, amount, units",
        f"- notes.txt ({ids[1]}): Text in English, 14 words: The north was weak in spring.",
    ]


async def test_a_table_is_read_as_csv_by_name_in_any_case(client: httpx2.AsyncClient) -> None:
    end = await called(client, "read_document", "{document: MY SALES.XLSX}")
    assert end["result"]["text"].splitlines()[:2] == ["region,amount,units", "north,100.5,3"]


async def test_a_long_document_comes_in_pages_that_say_where_to_go_on(client: httpx2.AsyncClient) -> None:
    text = "".join(f"line {n}\n" for n in range(2000))
    first = await called(client, "read_document", "{document: long.txt}", [("long.txt", text.encode())])
    page, _, rest = first["result"]["text"].rpartition("\n[")
    start = int(rest.split("start=")[1].rstrip("]"))
    assert text.startswith(page.rstrip("\n")) and text[:start].endswith("\n")
    second = await called(
        client, "read_document", f"{{document: long.txt, start: {start}}}", [("long.txt", text.encode())]
    )
    assert second["result"]["text"].startswith(text[start : start + 50])


@pytest.mark.requirement("003.document.agents-see-both")
async def test_the_file_itself_can_be_read_as_well(client: httpx2.AsyncClient) -> None:
    page = [("page.html", b"<p>Hello <b>there</b></p>"), *FILES]
    read = await called(client, "read_document", "{document: page.html}", page)
    assert "<b>" not in read["result"]["text"] and "there" in read["result"]["text"]
    itself = await called(client, "read_document", "{document: page.html, original: true}", page)
    assert itself["result"]["text"] == "<p>Hello <b>there</b></p>"
    sheet = await called(client, "read_document", "{document: my sales.xlsx, original: true}")
    assert sheet["result"]["text"].startswith(b64encode(SHEET[:300]).decode())


async def test_a_document_that_is_not_there_is_refused_with_those_that_are(client: httpx2.AsyncClient) -> None:
    end = await called(client, "read_document", "{document: other.txt}")
    assert end["error"]["message"] == "there is no document 'other.txt' here; there are: my sales.xlsx, notes.txt"


async def test_sums_are_given_for_each_group(client: httpx2.AsyncClient) -> None:
    end = await called(client, "table_figures", "{document: my sales.xlsx, group_by: region}")
    assert end["result"]["rows"] == [["north", 150.5, 4], ["south", 200, 4]]


@pytest.mark.parametrize("name", ["../x.md", "a/b.md", "c\\d.md", "x.exe"])
async def test_a_name_that_is_no_file_or_of_a_kind_nobody_makes_is_refused(
    client: httpx2.AsyncClient, name: str
) -> None:
    end = await called(client, "save_document", f"{{name: '{name}', content: hello}}", ())
    assert end["status"] == "error"


async def test_what_was_saved_is_a_document_of_the_session(client: httpx2.AsyncClient) -> None:
    end = await called(client, "save_document", "{name: sums.xlsx, content: 'a,b\n\n1,2'}", ())
    stored = await client.get(f"/files/{end['result']['document_id']}")
    assert stored.content[:2] == SHEET[:2]


def table(text: str) -> ContentItem:
    return read_csv(Source(text.encode(), "a", "csv"))[0]


def test_figures_are_exact_and_leave_out_what_is_no_number() -> None:
    found = figures(table("name,price,code,empty\na,0.1,007,\nb,0.2,x,\nc,,y,\n"))
    assert found.rows == (("price", 2, 0.3, 0.15, 0.1, 0.2),)


def test_columns_of_one_name_are_told_apart() -> None:
    twice = table("a,a (2),a,,A\n1,10,100,1000,x\n2,20,200,2000,y\n")
    assert [row[:3] for row in figures(twice).rows] == [
        ("a", 2, 3),
        ("a (2)", 2, 30),
        ("a (3)", 2, 300),
        ("column 4", 2, 3000),
    ]
    by_other = figures(twice, group_by="A")
    assert by_other.columns[:2] == (Column(name="A"), Column(name="sum of a", type="number"))
    assert by_other.rows == (("x", 1, 10, 100, 1000), ("y", 2, 20, 200, 2000))
    assert figures(twice, group_by="COLUMN 4").rows[0] == ("1000", 1, 10, 100)


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("", ""),
        ("a,b\nx,y\n", ""),
        ("a,b\nx,1\n", "c"),
        ("aa,Aa,b\nx,y,1\n", "AA"),
        ("a,b\n" + "".join(f"{n},1\n" for n in range(1001)), "a"),
        ("a,b\n1,2\n" + ",1" * 500, ""),
    ],
    ids=["empty", "no numbers", "no column", "two columns", "many groups", "many columns"],
)
def test_a_table_that_cannot_be_counted_is_refused(text: str, group: str) -> None:
    with pytest.raises(InvalidField):
        figures(table(text), group_by=group)


def test_a_long_cell_is_counted_and_shown_like_any_other() -> None:
    """As long as the reader of tables takes them; a longer one makes the file a text."""
    found = table(f"name,price\nAnn,1\n{'x' * 900_000},2\n")
    assert figures(found).rows == (("price", 2, 3, 1.5, 1, 2),)
    named = table(f"name,city\nAnn,Rome\nBob,{'x' * 900_000}\n")
    shown = _section(SessionDocument("id", "people.csv", "text/csv", 1), [named], texts_for("en"), 6000)
    assert "| Ann | Rome |" in shown and [row[1] for row in _counted(named)] == [2, 2]


def test_a_digest_shows_no_more_of_a_wide_table_than_people_look_at() -> None:
    wide = table("\n".join(",".join(["x" * 300] * 600) for _ in range(30)))
    shown = _section(SessionDocument("id", "wide.csv", "text/csv", 1), [wide], texts_for("en"), 6000)
    assert len(shown) < 200_000


def test_a_long_table_takes_no_more_memory_than_a_short_one() -> None:
    long = table("a,b,c\n" + "".join(f"{n % 7},{n},{n}.5\n" for n in range(6000)))
    figures(table("a,b\n1,2\n"))
    tracemalloc.start()
    try:
        assert len(figures(long, group_by="a").rows) == 7
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()
