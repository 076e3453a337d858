"""Tools on documents: listed, read page by page, counted in, saved."""

from base64 import b64encode
from typing import Any

import httpx2
import pytest

from stellwerk.agents.table_figures import figures
from stellwerk.errors import InvalidField
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


def test_figures_are_exact_and_leave_out_what_is_no_number() -> None:
    table = figures("name,price,code,empty\na,0.1,007,\nb,0.2,x,\nc,,y,\n")
    assert table.rows == (("price", 2, 0.3, 0.15, 0.1, 0.2),)


@pytest.mark.parametrize(("text", "group"), [("", ""), ("a,b\nx,y\n", ""), ("a,b\nx,1\n", "c")])
def test_a_table_without_numbers_or_without_the_column_is_refused(text: str, group: str) -> None:
    with pytest.raises(InvalidField):
        figures(text, group_by=group)
